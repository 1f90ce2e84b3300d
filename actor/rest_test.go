package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// usually has an owner use a lock a few times, so that its next tenure rests.
func usually(t *testing.T, a *Agent, req Request) {
	t.Helper()
	time.Sleep(time.Second) // an agent that has just begun has no habits
	for range 4 {
		released(t, granted(t, a.Acquire(background, "door", req)))
	}
}

// A lock rests from the fourth tenure in a row on. Its holds then need no store, until the tenure has lasted for the
// time of a rest.
func TestALockRests(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FencedLock} {
		t.Run(string(kind.OrPlain()), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTap(memstore.New())
				a := startResting(t, Config{Store: store})
				time.Sleep(time.Second) // an agent that has just begun has no habits
				last := lockagent.Token(0)
				for _, want := range []string{
					"acquire release", "acquire release acquire release", "acquire release acquire release acquire release",
					"acquire release acquire release acquire release acquire",
					"acquire release acquire release acquire release acquire",
					"acquire release acquire release acquire release acquire",
				} {
					g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Kind: kind}))
					if g.Token() <= last {
						t.Errorf("the token %d does not follow %d", g.Token(), last)
					}
					last = g.Token()
					released(t, g)
					synctest.Wait()
					if got := store.kinds(); got != want {
						t.Errorf("calls %q, want %q", got, want)
					}
				}
				time.Sleep(rest)
				synctest.Wait()
				if store.count("release") != 4 {
					t.Error("the lock was not given back")
				}
			})
		})
	}
}

// What ends a rest ends it at once: each request waits for no timer.
func TestRestsEnd(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, a, b *Agent) lockagent.Grant{
		"by a request of another agent": func(t *testing.T, _, b *Agent) lockagent.Grant {
			return granted(t, b.Acquire(background, "door", who("bob")))
		},
		"by a request of another agent that does not wait": func(t *testing.T, _, b *Agent) lockagent.Grant {
			return granted(t, b.Acquire(background, "door", Request{Owner: "bob", Try: true}))
		},
		"by a request that forbids it": func(t *testing.T, a, b *Agent) lockagent.Grant {
			released(t, granted(t, a.Acquire(background, "door", Request{Owner: "ann", NoRest: true})))
			return granted(t, b.Acquire(background, "door", Request{Owner: "bob", Try: true}))
		},
		"by the end of the agent": func(t *testing.T, a, b *Agent) lockagent.Grant {
			closed(t, a)
			return granted(t, b.Acquire(background, "door", Request{Owner: "bob", Try: true}))
		},
		"by the next process of the agent": func(t *testing.T, a, b *Agent) lockagent.Grant {
			next, err := Resume(Config{Store: a.cfg.Store}, detached(t, a))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closed(t, next) })
			synctest.Wait() // until it has told the store
			return granted(t, b.Acquire(background, "door", Request{Owner: "bob", Try: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memstore.New()
				a, b := startResting(t, Config{Store: memory, Journal: newChronicle()}), start(t, Config{Store: memory.Share()})
				usually(t, a, who("ann"))
				if s := status(t, a, "door"); !s.Resting || s.Locked || s.HoldCount != 0 {
					t.Fatalf("%+v: want a lock that rests", s)
				}
				asked := time.Now()
				g := ends(t, a, b)
				if waited := time.Since(asked); waited != 0 { // virtual time
					t.Errorf("it took %v", waited)
				}
				released(t, g)
			})
		})
	}
}

// A break of a lock that rests counts as one of a held lock, and ends no hold. The next hold waits until another agent,
// which has the lock by then, is done.
func TestABreakOfALockThatRests(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FencedLock} {
		for _, breaker := range []string{"its agent", "another agent"} {
			t.Run(string(kind.OrPlain())+"/by "+breaker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory, w := memstore.New(), &witness{}
					store := newTap(memory)
					a := startResting(t, Config{Store: store, Recorder: w})
					b := start(t, Config{Store: memory.Share(), Recorder: w})
					req := Request{Owner: "ann", Kind: kind}
					usually(t, a, req)
					if breaker == "its agent" { // needs no message
						store.news = func(func(lockagent.Message), lockagent.Message) {}
					}
					if r := await(
						t, "break", map[string]*Agent{"its agent": a, "another agent": b}[breaker].Break("door", kind, "olga"),
					); r.Err != nil || !r.Value {
						t.Errorf("the break: %t, %v", r.Value, r.Err)
					}
					synctest.Wait()
					bob := granted(t, b.Acquire(background, "door", Request{Owner: "bob", Kind: kind, Try: true}))
					ann := a.Acquire(background, "door", req)
					silent(t, "grant beside another one", ann)
					released(t, bob)
					released(t, granted(t, ann))
					if lost, broken := w.of(lockagent.EventLost), w.of(lockagent.EventBroken); len(lost) > 0 || len(broken) != 1 ||
						broken[0].Request != 0 || broken[0].Operator != "olga" {
						t.Errorf("lost %v, broken %v; want one break, and no hold that it ended", lost, broken)
					}
				})
			})
		}
	}
}

func TestLocksThatDoNotRest(t *testing.T) {
	unrested := Request{Owner: "ann", NoRest: true}
	for name, c := range map[string]struct {
		cfg Config
		req Request
	}{
		"an agent forbids it":     {Config{NoRest: true}, who("ann")},
		"a request forbids it":    {Config{}, unrested},
		"the lease is fixed":      {Config{}, Request{Owner: "ann", Lease: time.Minute}},
		"nothing is handed off":   {Config{HandOffGrants: 1}, who("ann")},
		"fair locks do not rest":  {Config{}, fairly("ann")},
		"readers do not rest":     {Config{}, reads("ann")},
		"writers do not rest":     {Config{}, writes("ann")},
		"spin locks do not rest":  {Config{}, Request{Owner: "ann", Kind: lockagent.SpinLock}},
		"semaphores do not rest":  {Config{}, Request{Owner: "ann", Kind: lockagent.Semaphore, Permits: 1}},
		"each tenure has a pause": {Config{}, who("ann")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTap(memstore.New())
				c.cfg.Store = store
				a := startResting(t, c.cfg)
				time.Sleep(time.Second)
				if c.req.Kind == lockagent.Semaphore {
					set := lockagent.PermitsRequest{Name: "door", Kind: lockagent.Semaphore, Op: lockagent.TrySetPermits, N: 1}
					if r := await(t, "permits", a.Permits(background, set)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				store.on("acquire", func(o *op) {
					if o.rests {
						t.Error("the agent asks for a tenure that may rest")
					}
					o.run()
				})
				for range 6 {
					released(t, granted(t, a.Acquire(background, "door", c.req)))
					if name == "each tenure has a pause" {
						time.Sleep(rest + 1)
					}
				}
				synctest.Wait()
				if n := store.count("release"); n != 6 {
					t.Errorf("%d releases, want 6", n)
				}
			})
		})
	}
}

// Whoever looks at a lock between two holds does not make the agent forget how it is used.
func TestALookKeepsTheHabit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startResting(t, Config{})
		time.Sleep(time.Second)
		for range 4 {
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
			status(t, a, "door")
		}
		if !status(t, a, "door").Resting {
			t.Error("the lock does not rest")
		}
	})
}

// A rest may end before the store tells of the lock, or while the tenure is still on its way back. The status then does
// not say that somebody holds it.
func TestARestEndsDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := startResting(t, Config{Store: store})
		usually(t, a, who("ann"))
		store.on("inspect", func(o *op) { o.slow(0, rest) })
		if s := status(t, a, "door"); s != (lockagent.Status{Name: "door"}) {
			t.Errorf("%+v: want a free lock", s)
		}

		usually(t, a, who("ann"))
		store.on("inspect", func(*op) {})
		store.on("release", func(o *op) { o.slow(time.Second, 0) })
		for status(t, a, "door").Resting {
			time.Sleep(rest)
		}
		if s := status(t, a, "door"); s != (lockagent.Status{Name: "door"}) {
			t.Errorf("%+v while the tenure goes back: want a free lock", s)
		}
	})
}

// The lock was held when the store told of it, and rests when the answer comes.
func TestARestBeginsDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := startResting(t, Config{Store: store})
		usually(t, a, who("ann"))
		store.on("inspect", func(o *op) { o.slow(0, time.Millisecond) })
		held := granted(t, a.Acquire(background, "door", who("ann")))
		seen := a.Status("door", lockagent.PlainLock)
		synctest.Wait()
		released(t, held)
		if s := await(t, "status", seen); s.Err != nil || s.Value != (lockagent.Status{Name: "door", Resting: true}) {
			t.Errorf("%+v, want a lock that rests", s)
		}
	})
}
