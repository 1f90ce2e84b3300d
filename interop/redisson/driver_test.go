package redisson

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// profileVariable is a profile of driver/pom.xml: another version of Redisson.
const profileVariable = "LOCKAGENT_TEST_REDISSON"

// built is a directory outside the tree, with the driver. It is gone at the end of the tests.
var built struct {
	dir  string
	once func() (*driver.Driver, error)
}

func init() {
	built.once = sync.OnceValues(func() (_ *driver.Driver, err error) {
		if built.dir, err = os.MkdirTemp("", "lockagent-interop"); err != nil {
			return nil, err
		}
		return driver.Build(context.Background(), built.dir, os.Getenv(profileVariable))
	})
}

// startJava starts Redisson with a watchdog timeout: the lease of locks that it renews.
func (w *world) startJava(t *testing.T, watchdog time.Duration) *process {
	t.Helper()
	requireJava(t)
	java, err := built.once()
	must(t, err)
	var addrs []string
	for _, node := range w.nodes {
		addrs = append(addrs, node.Addr())
	}
	return start(t, java.Command(context.Background(), watchdog, w.mode, addrs,
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")) // starts sooner, beside other tests
}

func requireJava(t *testing.T) {
	t.Helper()
	err := driver.Available()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}
