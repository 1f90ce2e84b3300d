package redisson

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
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

// shared are the virtual machines that tests share, by the profile. Each test has clients of its own there.
var shared struct {
	mu       sync.Mutex // guards what follows
	machines map[string]*child
	clients  atomic.Int64
}

// sharedMachine returns the virtual machine for a version of Redisson. It starts it for the first test that asks.
func sharedMachine(profile string) (*child, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if c := shared.machines[profile]; c != nil {
		return c, nil
	}
	java, err := build(profile)
	if err != nil {
		return nil, err
	}
	c, err := spawn(java.Machine(context.Background(), lean...))
	if err != nil {
		return nil, err
	}
	if shared.machines == nil {
		shared.machines = make(map[string]*child)
	}
	shared.machines[profile] = c
	return c, nil
}

// endShared ends the virtual machines that tests have shared.
func endShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, c := range shared.machines {
		c.kill()
	}
}

// lean are flags for a virtual machine that starts sooner, and takes less.
var lean = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"}

// startJava starts a client of Redisson in the shared virtual machine, with a watchdog timeout: the lease of locks that
// it renews. The options are those of the command connect.
func (w *world) startJava(t *testing.T, watchdog time.Duration, options ...string) *process {
	t.Helper()
	requireJava(t)
	machine, err := sharedMachine(w.redisson)
	must(t, err)
	logged := len(machine.log.String())
	t.Cleanup(func() { machine.show(t, logged) })
	return w.connect(t, machine, watchdog, options...)
}

// startMachine starts a virtual machine that the test may kill. It has no client yet.
func (w *world) startMachine(t *testing.T, flags ...string) *child {
	t.Helper()
	requireJava(t)
	java, err := build(w.redisson)
	must(t, err)
	return start(t, java.Machine(context.Background(), slices.Concat(lean, flags)...))
}

// connect makes a client of Redisson in a virtual machine. It is closed before the servers are stopped.
func (w *world) connect(t *testing.T, machine *child, watchdog time.Duration, options ...string) *process {
	t.Helper()
	java := &process{machine, fmt.Sprintf("c%d/", shared.clients.Add(1))}
	args := []any{watchdog.Milliseconds(), w.mode}
	for _, node := range w.nodes {
		args = append(args, "redis://"+node.Addr())
	}
	for _, option := range options {
		args = append(args, option)
	}
	java.do(t, "main", "connect", args...)
	t.Cleanup(func() { <-java.send("end", "disconnect") })
	return java
}

func requireJava(t *testing.T) {
	t.Helper()
	machinetest.Needs(t, driver.Available())
}
