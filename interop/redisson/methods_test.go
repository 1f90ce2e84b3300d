package redisson

import (
	_ "embed"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allMethods are the public methods of Redisson's locks and synchronisers, one on each line: "RLock lock(long,
// TimeUnit)".
//
//go:embed testdata/methods.list
var allMethods string

// methodTypes are the types that the methods belong to. The last two are those of multi-locks, which have no interface
// of their own, and of the methods that make all these objects.
var methodTypes = []string{
	"java.util.concurrent.locks.Lock", "org.redisson.api.RLock", "org.redisson.api.RLockAsync",
	"org.redisson.api.RObservable", "org.redisson.api.RObservableAsync",
	"org.redisson.api.RFencedLock", "org.redisson.api.RFencedLockAsync", "org.redisson.api.RReadWriteLock",
	"org.redisson.api.RSemaphore", "org.redisson.api.RSemaphoreAsync",
	"org.redisson.api.RPermitExpirableSemaphore", "org.redisson.api.RPermitExpirableSemaphoreAsync",
	"org.redisson.api.RCountDownLatch", "org.redisson.api.RCountDownLatchAsync",
	"org.redisson.api.RObject", "org.redisson.api.RObjectAsync", "org.redisson.api.RExpirable",
	"org.redisson.api.RExpirableAsync",
	"org.redisson.RedissonMultiLock", "org.redisson.api.RedissonClient",
}

func TestTheListOfMethodsIsThatOfRedisson(t *testing.T) {
	t.Parallel()
	requireJava(t)
	if os.Getenv(profileVariable) != "" {
		t.Skip("the list is that of the newest Redisson")
	}
	java, err := build("")
	must(t, err)
	out, err := exec.Command("javap", append([]string{"-cp", java.Classpath}, methodTypes...)...).Output()
	must(t, err)
	if got := methodsIn(string(out)); strings.Join(got, "\n")+"\n" != allMethods {
		t.Errorf("testdata/methods.list is not the list of this Redisson, which has\n%s", strings.Join(got, "\n"))
	}
}

var (
	typeForm    = regexp.MustCompile(`^public (?:abstract )?(?:class|interface) ([\w.]+)`)
	methodForm  = regexp.MustCompile(`^  public (?:abstract |default )?(\S+) (\w+\(.*\))`)
	packageForm = regexp.MustCompile(`(?:\w+\.)+(\w)`)
)

// methodsIn returns the methods that javap has printed, in order, without the names of packages. Of a client it has
// those that make locks and synchronisers.
func methodsIn(javap string) (methods []string) {
	var in string
	for line := range strings.Lines(javap) {
		if found := typeForm.FindStringSubmatch(line); found != nil {
			in = found[1]
		}
		found := methodForm.FindStringSubmatch(line)
		if found == nil || in == "org.redisson.api.RedissonClient" && !slices.Contains(methodTypes, found[1]) {
			continue
		}
		method := packageForm.ReplaceAllString(in+" "+found[2], "$1")
		methods = append(methods, strings.ReplaceAll(method, "$", "."))
	}
	slices.Sort(methods)
	return slices.Compact(methods) // javap has a method twice if it overrides one with another result
}
