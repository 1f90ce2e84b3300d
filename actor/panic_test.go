package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// settled checks that an agent whose store is well again is of use: locks can be
// had, nothing is left in the store, and it can be closed.
func settled(t *testing.T, a *Agent, store lockagent.Operator, names ...lockagent.Name) {
	t.Helper()
	settledAs(t, a, store, lockagent.PlainLock, names...)
}

// settledAs is settled for locks of another kind.
func settledAs(t *testing.T, a *Agent, store lockagent.Operator, kind lockagent.LockKind, names ...lockagent.Name) {
	t.Helper()
	for _, name := range names {
		g := granted(t, a.Acquire(background, name, Request{Owner: "after", Kind: kind}))
		if !g.Held() {
			t.Errorf("%q: not held: %v", name, g.Cause())
		}
		released(t, g)
		if inspectAs(t, store, name, kind).Held {
			t.Errorf("%q: the store still holds it", name)
		}
	}
	closed(t, a)
	if n := a.entries(); n != 0 {
		t.Errorf("%d actors left", n)
	}
}

// A store that panics has failed like one that cannot be reached: holds go on,
// waiters wait, releases are tried again.
func TestStorePanics(t *testing.T) {
	ways := map[string]func(*op){
		"before the call":          func(*op) { panic("boom") },
		"after the reply":          func(o *op) { o.run(); panic("boom") },
		"after the reply was lost": func(o *op) { o.lose(); panic("boom") },
	}
	for _, kind := range []string{"acquire", "renew", "release", "break", "inspect"} {
		for way, f := range ways {
			for _, times := range []int{1, 15} {
				t.Run(fmt.Sprintf("%s/%s/%d times", kind, way, times), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newTap(memstore.New())
						w := &witness{}
						a := start(t, Config{Store: s, Recorder: w, Logger: quiet})
						var panics atomic.Int64
						s.on(kind, func(o *op) {
							if panics.Add(1) <= int64(times) {
								f(o)
								return
							}
							o.run()
						})
						rounds := 0
						for panics.Load() < int64(times) {
							rounds++
							c := a.Acquire(background, "door", who("ann"))
							waiters := []<-chan lockagent.Grant{
								a.Acquire(background, "door", who("bob")),
								a.Acquire(background, "door", Request{Owner: "carl", Wait: time.Hour}),
							}
							g := granted(t, c)
							far, status := a.Break("far", lockagent.PlainLock, ""), a.Status("door", lockagent.PlainLock)
							if kind == "renew" {
								time.Sleep(11 * time.Second)
							}
							if !g.Held() {
								t.Errorf("a panic in %s ended the hold: %v", kind, g.Cause())
							}
							done := g.ReleaseAsync(background)
							for _, c := range waiters {
								g := granted(t, c)
								g.ReleaseAsync(background)
							}
							await(t, "break", far)
							exhausted(t, far)
							await(t, "status", status)
							exhausted(t, status)
							_ = await(t, "release", done)
							exhausted(t, done)
						}
						if n, most := s.count(""), 10*rounds+2*times; n > most {
							t.Errorf("%d store calls in %d rounds", n, rounds)
						}
						settled(t, a, s.whole, "door", "far")
						w.checkHolds(t)
						if o := s.overlaps(); len(o) != 0 {
							t.Error(o)
						}
					})
				})
			}
		}
	}
}

func TestSubscribePanics(t *testing.T) {
	for _, when := range []string{"subscribe", "unsubscribe"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				var panics atomic.Int64
				boom := func(lockagent.Name) {
					if panics.Add(1) <= 15 {
						panic("boom")
					}
				}
				if when == "subscribe" {
					s.onSub = func(name lockagent.Name, _ func()) { boom(name) }
				} else {
					s.onUnsub = boom
				}
				a, b := start(t, Config{Store: s, Logger: quiet}), start(t, Config{Store: store})
				for panics.Load() < 15 {
					g := granted(t, b.Acquire(background, "door", who("ann")))
					c := a.Acquire(background, "door", who("bob"))
					synctest.Wait()
					released(t, g)
					released(t, granted(t, c))  // without wake-ups it takes a while
					time.Sleep(5 * time.Second) // the subscription is let go
				}
				if n := s.count(""); n > 15*6 {
					t.Errorf("%d store calls", n)
				}
				settled(t, a, store, "door")
				if when == "unsubscribe" && s.subscriptions() != 0 {
					t.Errorf("%d subscriptions left", s.subscriptions())
				}
			})
		})
	}
}

// A store that is broken for ever: there is no hot loop, requests that have a
// bound are answered, and Close returns.
func TestStorePanicsForEver(t *testing.T) {
	for _, kind := range []string{"acquire", "renew", "release"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTap(memstore.New())
				a := start(t, Config{Store: s, Logger: quiet})
				g := granted(t, a.Acquire(background, "door", who("ann")))
				s.on(kind, func(*op) { panic("boom") })
				begin := time.Now()
				switch kind {
				case "acquire":
					released(t, g)
					for range 3 {
						refused(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true}), lockagent.ErrInternal)
						refused(t, a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Minute / 2}), lockagent.ErrInternal)
					}
				case "renew":
					<-g.Done()
					lostBecause(t, g.Cause(), lockagent.LostDeadline)
				case "release":
					if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrUnconfirmed) {
						t.Errorf("release: %v", err)
					}
					refused(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true}), lockagent.ErrInternal)
					h := granted(t, a.Acquire(background, "door", who("bob"))) // when the lease has run out
					if d := time.Since(begin); d < DefaultLease {
						t.Errorf("granted after %v", d)
					}
					h.ReleaseAsync(background)
				}
				before := s.count("")
				time.Sleep(time.Hour)
				if n := s.count("") - before; n > 60 {
					t.Errorf("%d store calls in an hour of nothing", n)
				}
				if n := a.entries(); n != 0 {
					t.Errorf("%d actors left", n)
				}
				closed(t, a)
			})
		})
	}
}

// A panic in the recorder costs nobody a lock.
func TestRecorderPanics(t *testing.T) {
	for _, kind := range lockagent.EventKinds() {
		if kind > lockagent.EventAgentStopped {
			break // the log makes the rest
		}
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				w := &witness{}
				var hit atomic.Int64
				w.before = func(e lockagent.Event) {
					if e.Kind == kind {
						hit.Add(1)
						panic("boom")
					}
				}
				a := start(t, Config{Store: s, Recorder: w, Claim: time.Minute, Logger: quiet})
				for range 12 {
					everyKind(t, a, s, store)
				}
				settled(t, a, store, "door")
				once := kind == lockagent.EventAgentStarted || kind == lockagent.EventAgentStopped
				if !once && hit.Load() < 12 || hit.Load() == 0 {
					t.Errorf("only %d events", hit.Load())
				}
			})
		})
	}
}

// everyKind has every kind of event recorded, but those of the agent.
func everyKind(t *testing.T, a *Agent, s *tap, store *memstore.Store) {
	t.Helper()
	// requested
	s.on("acquire", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
	asked := a.Acquire(background, "door", again("ann"))
	synctest.Wait()
	s.handle(nil)
	// granted reentered queued timedout cancelled refused released
	g := granted(t, asked)
	g2 := granted(t, a.Acquire(background, "door", again("ann")))
	ctx, cancel := context.WithCancel(background)
	c := a.Acquire(ctx, "door", who("bob"))
	synctest.Wait()
	cancel()
	refused(t, c, context.Canceled)
	refused(t, a.Acquire(background, "door", Request{Owner: "bob", Wait: time.Second}), lockagent.ErrTimeout)
	refused(t, a.Acquire(background, "door", Request{Owner: "bob", Try: true}), lockagent.ErrHeld)
	released(t, g2)
	// renewed uncertain
	time.Sleep(10 * time.Second)
	s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
	time.Sleep(10 * time.Second)
	s.handle(nil)
	time.Sleep(3 * time.Second)
	if !g.Held() {
		t.Errorf("lost: %v", g.Cause())
	}
	// broken
	await(t, "break", a.Break("door", lockagent.PlainLock, ""))
	lostBecause(t, g.Cause(), lockagent.LostBroken)
	// expired
	g = granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Second}))
	<-g.Done()
	// lost returned
	g = granted(t, a.Acquire(background, "door", again("ann")))
	_ = await(t, "leave", a.Leave(background, "door", "ann"))
	lostBecause(t, g.Cause(), lockagent.LostSessionClosed)
	// unclaimed
	ctx, cancel = context.WithCancel(background)
	c = a.Acquire(ctx, "door", who("ann"))
	synctest.Wait()
	cancel()
	synctest.Wait()
	if g := <-c; !errors.Is(g.Err(), lockagent.ErrNotGranted) {
		t.Errorf("not taken back: %v", g.Err())
	}
	// storereset
	store.Reset()
	time.Sleep(2 * time.Second)
}

func TestStoreRepliesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		s.handle(func(o *op) { o.twice() })
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		for range 5 {
			g := granted(t, a.Acquire(background, "door", who("ann")))
			c := a.Acquire(background, "door", who("bob"))
			time.Sleep(25 * time.Second)
			st := a.Status("door", lockagent.PlainLock)
			if r := await(t, "status", st); r.Err != nil || !r.Value.HeldBy("ann") {
				t.Errorf("%+v", r)
			}
			exhausted(t, st)
			far := a.Break("far", lockagent.PlainLock, "")
			await(t, "break", far)
			exhausted(t, far)
			released(t, g)
			released(t, granted(t, c))
		}
		settled(t, a, store, "door")
		w.checkHolds(t)
	})
}

// A store may answer after it has panicked.
func TestStoreRepliesAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		var kept keeper
		s.on("acquire", func(o *op) { kept.keep(o); panic("boom") })
		a := start(t, Config{Store: s, Logger: quiet})
		refused(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true}), lockagent.ErrInternal)
		for _, o := range kept.take() {
			o.run() // which must not begin a tenure that nobody knows of
		}
		s.handle(nil)
		settled(t, a, s.whole, "door")
	})
}

// badContext makes the actor itself panic when it takes the request up.
type badContext struct{ context.Context }

func (badContext) Done() <-chan struct{} { panic("bad context") }

// When the actor itself panics, everything that is held or waited for ends, says
// why, and is recorded; afterwards the lock is as good as before.
func TestActorPanics(t *testing.T) {
	for name, logger := range map[string]*slog.Logger{
		"":                  quiet,
		"and so the logger": slog.New(badHandler{}),
	} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/others %v", name, others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memstore.New()
					s := newTap(store.Share())
					w := &witness{}
					a := start(t, Config{Store: s, Recorder: w, Logger: logger})
					b := start(t, Config{Store: store})
					overs := 0
					req := again("ann")
					req.Watch = whenOver(func() { overs++; panic("and so the caller") })
					for i := range 15 {
						g1, g2 := granted(t, a.Acquire(background, "door", req)), granted(t, a.Acquire(background, "door", req))
						waiting := a.Acquire(background, "door", who("bob"))
						var elsewhere <-chan lockagent.Grant
						if others {
							elsewhere = b.Acquire(background, "door", who("zoe"))
						}
						synctest.Wait()
						refused(t, a.Acquire(badContext{background}, "door", who("eve")), lockagent.ErrInternal)
						refused(t, waiting, lockagent.ErrInternal)
						for _, g := range []lockagent.Grant{g1, g2} {
							lostBecause(t, g.Cause(), lockagent.LostInternal)
							lostBecause(t, await(t, "release", g.ReleaseAsync(background)), lockagent.LostInternal)
						}
						if overs != 2*(i+1) {
							t.Errorf("the end was told %d times for %d requests", overs, 2*(i+1))
						}
						if others {
							h := granted(t, elsewhere)
							if h.Token() <= g1.Token() {
								t.Errorf("token %d after %d", h.Token(), g1.Token())
							}
							released(t, h)
						}
					}
					if n := len(w.of(lockagent.EventLost)); n != 30 {
						t.Errorf("%d of 30 losses recorded", n)
					}
					for _, e := range w.of(lockagent.EventLost) {
						if e.Reason != lockagent.LostInternal || e.Tenure == 0 || e.Token == 0 {
							t.Errorf("%+v", e)
						}
					}
					if n := s.count(""); n > 15*5 {
						t.Errorf("%d store calls", n)
					}
					settled(t, a, store, "door")
					if n := s.subscriptions(); n != 0 {
						t.Errorf("%d subscriptions left", n)
					}
					w.checkHolds(t)
				})
			})
		}
	}
}

type badHandler struct{ slog.Handler }

func (badHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (badHandler) Handle(context.Context, slog.Record) error { panic("bad handler") }

// The actor panics, and then, before it has tidied up, the agent is closed.
func TestActorPanicsBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store, Logger: quiet})
		granted(t, a.Acquire(background, "door", who("ann")))
		refused(t, a.Acquire(badContext{background}, "door", who("eve")), lockagent.ErrInternal)
		if err := closing(t, a); err != nil {
			t.Error(err)
		}
		if inspect(t, store, "door").Held {
			t.Error("not returned")
		}
	})
}

// upset makes the actor of a lock panic.
func (a *Agent) upset(name lockagent.Name) {
	e := a.registry.present(name, "")
	defer e.unpin()
	send(e, &cancelMsg{}) // of no request
}

// The actor panics after it was told to close: it stays closed.
func TestActorPanicsDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w, Logger: quiet})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		var kept keeper
		s.on("release", kept.keep)
		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		synctest.Wait()
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		for range 3 {
			a.upset("door")
			refused(t, a.Acquire(background, "door", who("bob")), lockagent.ErrClosed)
		}
		for _, o := range kept.take() {
			o.fail(lockagent.ErrStoreUnavailable)
		}
		if err := await(t, "close", done); !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("close: %v", err)
		}
		w.checkHolds(t)
	})
}

// Calls that wait for an answer when the actor panics have one.
func TestActorPanicsDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s, Logger: quiet})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		var kept keeper
		s.on("release", kept.keep)
		done := g.ReleaseAsync(background)
		synctest.Wait()
		refused(t, a.Acquire(badContext{background}, "door", who("eve")), lockagent.ErrInternal)
		if err := await(t, "release", done); !errors.Is(err, lockagent.ErrInternal) {
			t.Errorf("release: %v", err)
		}
		exhausted(t, done)
		s.handle(nil)
		for _, o := range kept.take() {
			o.run()
		}
		settled(t, a, s.whole, "door")
	})
}

// A caller whose release fails because the actor panics has its answer. So it makes no call in person for a lock that
// closes then.
func TestActorPanicsDuringTheLastRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		store := memstore.New()
		a := start(t, Config{Store: noting{store.Share(), &made}, Logger: quiet})
		g := a.Lock(background, "door", who("ann"))
		a.drain()
		made = 0
		door := a.actorOf("door")
		door.requests.take(door.requests.keys()[0]) // so that the end of the hold is too much for the actor
		if err := g.Release(background); !errors.Is(err, lockagent.ErrInternal) {
			t.Errorf("release: %v", err)
		}
		if made != 0 {
			t.Errorf("the caller made %d calls", made)
		}
		closed(t, a)
		if inspect(t, store, "door").Held {
			t.Error("not returned")
		}
	})
}

// The actor panics while it is closed and subscribed.
func TestActorPanicsDuringCloseOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s, Logger: quiet}), start(t, Config{Store: store})
		g := granted(t, b.Acquire(background, "door", who("ann")))
		waiting := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		var kept keeper
		s.on("acquire", kept.keep)
		time.Sleep(2 * DefaultLease)
		if s.subscriptions() != 1 || s.count("acquire") != 3 {
			t.Fatal("not subscribed, or no attempt under way")
		}
		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		refused(t, waiting, lockagent.ErrClosed)
		a.upset("door")
		for _, o := range kept.take() {
			o.run()
		}
		if err := await(t, "close", done); !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("close: %v", err)
		}
		if n := s.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions left", n)
		}
		released(t, g)
	})
}
