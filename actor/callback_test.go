package actor

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Code that is not the agent's own ends the process with a sentence if it ends its goroutine: the state of a lock would be
// lost with the goroutine.
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
		"a watcher": {whose: "Request.Watch", with: func(_ *Config, r *Request) { r.Watch = &leaver{} }},
		"Granted":   {whose: "Request.Granted", with: func(_ *Config, r *Request) { r.Granted = runtime.Goexit }},
		"Over":      {whose: "Request.Over", with: func(_ *Config, r *Request) { r.Over = runtime.Goexit }},
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
type leaver struct{ onlooker }

func (*leaver) Granted(int) { runtime.Goexit() }
