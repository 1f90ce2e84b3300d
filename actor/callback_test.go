package actor

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// doomed calls f in a goroutine that f may end, and waits for that.
func doomed(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	await(t, "the end of a goroutine", done)
}

// A recorder that ends the goroutine in which it is called leaves nobody without an answer.
func TestRecorderEndsItsGoroutine(t *testing.T) {
	for _, kind := range []lockagent.EventKind{
		lockagent.EventQueued, lockagent.EventGranted, lockagent.EventReentered,
		lockagent.EventReleased, lockagent.EventReturned, lockagent.EventTimedOut, lockagent.EventBroken,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				w := &witness{}
				var hit atomic.Int64
				w.before = func(e lockagent.Event) {
					if e.Kind == kind {
						hit.Add(1)
						runtime.Goexit()
					}
				}
				a := start(t, Config{Store: store, Recorder: w, Logger: quiet})
				for range 5 {
					var asked []<-chan lockagent.Grant
					var left []<-chan error
					ask := func(r Request) {
						doomed(t, func() { asked = append(asked, a.Acquire(background, "door", r)) })
					}
					ask(again("ann"))
					ask(again("ann"))
					ask(Request{Owner: "bob", Wait: time.Second})
					ask(who("carl"))
					time.Sleep(2 * time.Second)
					doomed(t, func() { a.Break("door", lockagent.PlainLock, "") })
					ask(who("dora"))
					doomed(t, func() {
						if g := a.Lock(background, "gate", who("ann")); g.Held() {
							g.ReleaseAsync(background)
						}
					})
					for _, owner := range []lockagent.Owner{"carl", "dora", "ann"} {
						doomed(t, func() { left = append(left, a.Leave(background, "door", owner)) })
					}
					for _, c := range asked {
						await(t, "answer", c)
						exhausted(t, c)
					}
					for _, c := range left {
						_ = await(t, "answer", c)
						exhausted(t, c)
					}
				}
				if hit.Load() == 0 {
					t.Errorf("%v did not happen", kind)
				}
				settled(t, a, store, "door")
			})
		})
	}
}

// The waiter is answered when the releaser's goroutine ends in the middle of the hand-off.
func TestHandOffInAGoroutineThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Recorder: w, Logger: quiet})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		bob := a.Acquire(background, "door", who("bob"))
		w.before = func(e lockagent.Event) {
			if e.Kind == lockagent.EventGranted {
				runtime.Goexit()
			}
		}
		doomed(t, func() { g.ReleaseAsync(background) })
		refused(t, bob, lockagent.ErrInternal)
		g = granted(t, a.Acquire(background, "door", who("carl"))) // from now on it costs nobody a lock
		dora := a.Acquire(background, "door", who("dora"))
		released(t, g)
		released(t, granted(t, dora))
		closed(t, a)
	})
}

// The same goes for a callback that ends its goroutine.
func TestOverEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store, Logger: quiet})
		for range 3 {
			g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Over: runtime.Goexit}))
			bob := a.Acquire(background, "door", who("bob"))
			doomed(t, func() { g.ReleaseAsync(background) })
			if h := await(t, "bob", bob); h.Err() == nil {
				released(t, h)
			} else if !errors.Is(h.Err(), lockagent.ErrInternal) {
				t.Errorf("bob: %v", h.Err())
			}
		}
		settled(t, a, store, "door")
	})
}

// A store that ends the goroutine that calls it has failed, like one that panics.
func TestStoreEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		s.on("acquire", func(*op) { runtime.Goexit() })
		a := start(t, Config{Store: s, Logger: quiet})
		doomed(t, func() { a.Acquire(background, "door", who("ann")) })
		s.handle(nil)
		released(t, granted(t, a.Acquire(background, "door", who("bob"))))
		settled(t, a, s.whole, "door")
	})
}

// A request is answered also if the code that is told of its grant ends the goroutine.
func TestGrantedEndsItsGoroutine(t *testing.T) {
	for name, req := range map[string]Request{
		"Request.Granted": {Owner: "bob", Granted: runtime.Goexit},
		"Watcher.Granted": {Owner: "bob", Watch: &leaver{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t, Config{Logger: quiet})
				ann := granted(t, a.Acquire(background, "door", who("ann")))
				bob := a.Acquire(background, "door", req)
				doomed(t, func() { ann.ReleaseAsync(background) })
				refused(t, bob, lockagent.ErrInternal)
				released(t, granted(t, a.Acquire(background, "door", who("carl"))))
			})
		})
	}
}

// leaver is a Watcher that ends the goroutine which tells it of a grant.
type leaver struct{ onlooker }

func (*leaver) Granted(int) { runtime.Goexit() }
