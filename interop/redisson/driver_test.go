package redisson

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// profileVariable is a profile of driver/pom.xml: another version of Redisson.
const profileVariable = "LOCKAGENT_TEST_REDISSON"

// built are the drivers, each in a directory outside the tree. They are gone at the end of the tests.
var built struct {
	mu       sync.Mutex // guards what follows, and lets one driver be built at a time
	dir      string
	profiles map[string]*driver.Driver
}

// build builds the driver for a version of Redisson, unless that is done.
func build(profile string) (*driver.Driver, error) {
	built.mu.Lock()
	defer built.mu.Unlock()
	if d := built.profiles[profile]; d != nil {
		return d, nil
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "lockagent-interop")
		if err != nil {
			return nil, err
		}
		built.dir, built.profiles = dir, make(map[string]*driver.Driver)
	}
	d, err := driver.Build(context.Background(), filepath.Join(built.dir, "driver"+profile), profile)
	built.profiles[profile] = d
	return d, err
}

// startJava starts Redisson with a watchdog timeout: the lease of locks that it renews.
func (w *world) startJava(t *testing.T, watchdog time.Duration, flags ...string) *process {
	t.Helper()
	requireJava(t)
	java, err := build(w.redisson)
	must(t, err)
	var addrs []string
	for _, node := range w.nodes {
		addrs = append(addrs, node.Addr())
	}
	flags = append(flags, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m") // starts sooner, beside other tests
	return start(t, java.Command(context.Background(), watchdog, w.mode, addrs, flags...))
}

func requireJava(t *testing.T) {
	t.Helper()
	machinetest.Needs(t, driver.Available())
}
