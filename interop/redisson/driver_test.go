package redisson

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// profileVariable is a profile of driver/pom.xml: another version of Redisson.
const profileVariable = "LOCKAGENT_TEST_REDISSON"

// built is a directory outside the tree, with the driver. It is gone at the end of the tests.
var built struct {
	dir  string
	once func() (classpath string, err error)
}

func init() {
	built.once = sync.OnceValues(func() (classpath string, err error) {
		// A look at every file tells go test that an outcome it has kept depends on it.
		if err := fs.WalkDir(os.DirFS("driver"), ".", look); err != nil {
			return "", err
		}
		if built.dir, err = os.MkdirTemp("", "lockagent-interop"); err != nil {
			return "", err
		}
		args := []string{"-q", "-B", "-f", filepath.Join("driver", "pom.xml"), "-Doutput=" + built.dir}
		if profile := os.Getenv(profileVariable); profile != "" {
			args = append(args, "-P", profile)
		}
		args = append(args, "package")
		// Without the network if Maven has everything from an earlier run.
		if exec.Command("mvn", append([]string{"-o"}, args...)...).Run() != nil {
			if out, err := exec.Command("mvn", args...).CombinedOutput(); err != nil {
				return "", fmt.Errorf("the driver cannot be built: %w\n%s", err, out)
			}
		}
		jars, err := os.ReadFile(filepath.Join(built.dir, "classpath"))
		return filepath.Join(built.dir, "driver.jar") + string(os.PathListSeparator) + string(jars), err
	})
}

func look(path string, _ fs.DirEntry, err error) error {
	if err == nil {
		_, err = os.Stat(filepath.Join("driver", path))
	}
	return err
}

// startJava starts Redisson with a watchdog timeout: the lease of locks that it renews.
func (w *world) startJava(t *testing.T, watchdog time.Duration) *process {
	t.Helper()
	requireJava(t)
	classpath, err := built.once()
	must(t, err)
	args := []string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", // starts sooner, beside other tests
		"-XX:-UsePerfData", // a file that a killed process would leave behind
		"-cp", classpath, "driver.Main", strconv.FormatInt(watchdog.Milliseconds(), 10), w.mode,
	}
	for _, node := range w.nodes {
		args = append(args, "redis://"+node.Addr())
	}
	return start(t, exec.Command("java", args...))
}

func requireJava(t *testing.T) {
	t.Helper()
	_, noCompiler := exec.LookPath("javac")
	_, noMaven := exec.LookPath("mvn")
	if errors.Join(noCompiler, noMaven) == nil {
		return
	}
	const advice = "install a JDK, 17 or newer, and Maven (Debian: apt-get install default-jdk-headless maven)"
	if os.Getenv("CI") != "" {
		t.Fatal(advice)
	}
	t.Skip(advice)
}
