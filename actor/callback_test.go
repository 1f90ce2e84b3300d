package actor

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Code that is not the agent's own ends the process with a sentence if it ends its goroutine: the state of a lock would
// be lost with the goroutine.
func TestCodeThatEndsItsGoroutine(t *testing.T) {
	store := memstore.New()
	ends := map[string]struct {
		whose string
		with  func(*Config, *Request)
	}{
		"a recorder": {whose: "recorder", with: func(c *Config, _ *Request) {
			c.Recorder = &witness{before: func(e lockagent.Event) {
				if e.Kind == lockagent.EventGranted {
					runtime.Goexit()
				}
			}}
		}},
		"a watcher": {whose: "Request.Watch", with: func(_ *Config, r *Request) { r.Watch = leaver{} }},
		"a call to the store": {whose: "the store", with: func(c *Config, _ *Request) {
			s := newTap(store.Share())
			s.on("acquire", func(*op) { runtime.Goexit() })
			c.Store = s
		}},
		"a subscription": {whose: "store", with: func(c *Config, _ *Request) {
			s := newTap(store.Share())
			s.onSub = func(lockagent.Name, func()) { runtime.Goexit() }
			c.Store = s
		}},
	}
	if what := os.Getenv("LOCKAGENT_TEST_GOEXIT"); what != "" {
		end := ends[what]
		start(t, Config{Store: store}).Lock(background, "gate", who("dan"))
		cfg, req := Config{Store: store.Share(), Logger: quiet}, who("ann")
		if end.with != nil {
			end.with(&cfg, &req)
		}
		a := start(t, cfg)
		g := a.Lock(background, "door", req)
		_ = g.Release(background)
		a.Acquire(background, "gate", who("ann")) // subscribes to wake-ups
		_ = a.Close()
		return
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			again := exec.Command(os.Args[0], "-test.run=^TestCodeThatEndsItsGoroutine$")
			again.Env = append(os.Environ(), "LOCKAGENT_TEST_GOEXIT="+what)
			out, err := again.CombinedOutput()
			says := "lockagent: " + end.whose + " ended the goroutine of a lock"
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("the process does not end with %q: %v\n%s", says, err, out)
			}
		})
	}
}

// leaver is a Watcher that ends the goroutine which tells it of a grant.
type leaver struct{ NopWatcher }

func (leaver) Granted(int) { runtime.Goexit() }

// foreign is a context that is not of package context, and whose code fails when a child of it ends.
type foreign struct {
	context.Context
	fail func()
}

func (f foreign) Value(k any) any {
	if f.fail != nil {
		f.fail()
	}
	return f.Context.Value(k)
}

// The parent of a context of a grant may panic when the hold ends. That costs no other context its end, and no lock.
func TestParentOfAContextPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Logger: quiet})
		ann := granted(t, a.Acquire(background, "door", reads("ann")))
		bob := granted(t, a.Acquire(background, "door", reads("bob")))
		parent := &foreign{Context: t.Context()}
		bad, good := ann.Context(parent), ann.Context(t.Context())
		parent.fail = func() { panic("a foreign context") }
		released(t, ann)
		parent.fail = nil
		if bad.Err() == nil || good.Err() == nil {
			t.Errorf("the contexts ended with %v and %v", bad.Err(), good.Err())
		}
		if !bob.Held() {
			t.Errorf("another reader lost the lock: %v", bob.Cause())
		}
		released(t, bob)
		closed(t, a)
	})
}
