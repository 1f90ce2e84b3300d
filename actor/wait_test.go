package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func waitError(t testing.TB, err error) *lockagent.WaitError {
	t.Helper()
	w, ok := errors.AsType[*lockagent.WaitError](err)
	if !ok {
		t.Fatalf("got %v, want a WaitError", err)
	}
	return w
}

// locking calls Lock in a goroutine of its own.
func locking(ctx context.Context, a *Agent, name lockagent.Name, req Request) <-chan lockagent.Grant {
	out := make(chan lockagent.Grant, 1)
	go func() { out <- a.Lock(ctx, name, req) }()
	return out
}

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := a.Lock(background, "door", who("ann"))
		if g.Err() != nil || !g.Held() || g.Owner() != "ann" || g.Name() != "door" {
			t.Fatalf("grant: %+v", g)
		}
		if held := a.Lock(background, "door", Request{Owner: "bob", Try: true}); !errors.Is(held.Err(), lockagent.ErrHeld) {
			t.Errorf("try: %v", held.Err())
		}
		bob := locking(background, a, "door", who("bob"))
		synctest.Wait()
		silent(t, "bob", bob)
		released(t, g)
		released(t, granted(t, bob))
		if bad := a.Lock(background, "", who("ann")); !errors.Is(bad.Err(), lockagent.ErrBadName) {
			t.Errorf("bad name: %v", bad.Err())
		}
		last := granted(t, locking(background, a, "door", who("ann")))
		carl := locking(background, a, "door", who("carl"))
		synctest.Wait()
		closed(t, a)
		refused(t, carl, lockagent.ErrClosed)
		if g := a.Lock(background, "door", who("ann")); !errors.Is(g.Err(), lockagent.ErrClosed) {
			t.Errorf("after Close: %v", g.Err())
		}
		lostBecause(t, last.Cause(), lockagent.LostClosed)
	})
}

// The wait of Lock ends with the context or with its own time. Nothing is left of the request.
func TestLockGivesUp(t *testing.T) {
	why := errors.New("why")
	past, cancelPast := context.WithDeadline(background, time.Now().Add(-time.Hour))
	defer cancelPast()
	for _, c := range []struct {
		name     string
		context  func() (context.Context, func())
		wait     time.Duration
		waited   time.Duration
		timedOut bool
		err      error
	}{
		{"wait", nil, time.Second, time.Second, true, lockagent.ErrTimeout},
		{"wait that has passed", nil, -time.Second, 0, true, lockagent.ErrTimeout},
		{"deadline", func() (context.Context, func()) {
			return context.WithTimeout(background, time.Second)
		}, time.Minute, time.Second, true, context.DeadlineExceeded},
		{"deadline with a cause", func() (context.Context, func()) {
			return context.WithTimeoutCause(background, time.Second, why)
		}, 0, time.Second, true, why},
		{"deadline that has passed", func() (context.Context, func()) {
			return past, func() {}
		}, 0, 0, true, context.DeadlineExceeded},
		{"cancelled", func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(background)
			time.AfterFunc(time.Second, func() { cancel(why) })
			return ctx, func() {}
		}, time.Minute, time.Second, false, why},
	} {
		for form, ask := range map[string]func(context.Context, *Agent, Request) lockagent.Grant{
			"Lock":    func(ctx context.Context, a *Agent, r Request) lockagent.Grant { return a.Lock(ctx, "door", r) },
			"Acquire": func(ctx context.Context, a *Agent, r Request) lockagent.Grant { return <-a.Acquire(ctx, "door", r) },
		} {
			t.Run(c.name+"/"+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTap(memstore.New())
					a := start(t, Config{Store: store})
					g := granted(t, a.Acquire(background, "door", who("ann")))
					ctx, cancel := background, func() {}
					if c.context != nil {
						ctx, cancel = c.context()
					}
					defer cancel()
					var overs atomic.Int64
					err := ask(ctx, a, Request{Owner: "bob", Wait: c.wait, Watch: whenOver(func() { overs.Add(1) })}).Err()
					w := waitError(t, err)
					if w.Name != "door" || w.Waited != c.waited || w.TimedOut != c.timedOut || !errors.Is(w.Err, c.err) ||
						w.Silent != 0 || w.Store != nil {
						t.Errorf("got %+v", w)
					}
					if w.Waited > 0 && w.Holder != "ann" {
						t.Errorf("held by %q", w.Holder)
					}
					released(t, g)
					synctest.Wait()
					if n := overs.Load(); n != 1 {
						t.Errorf("the end was told %d times", n)
					}
					if inspect(t, store.whole, "door").Held {
						t.Error("the lock went to a request that was withdrawn")
					}
				})
			})
		}
	}
}

// Lock leaves nothing in the context, so a context that can end costs it little.
func TestLockDoesNotRegisterWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		ctx := &watched{Context: background}
		ann := granted(t, locking(ctx, a, "door", who("ann")))
		bob := locking(ctx, a, "door", who("bob"))
		synctest.Wait()
		if n := ctx.watches.Load(); n != 0 {
			t.Errorf("%d watches of the context", n)
		}
		released(t, ann)
		released(t, granted(t, bob))
	})
}

// The lock is granted and the context ends at the same time: either the caller has it
// afterwards, or nobody.
func TestLockOrItsContext(t *testing.T) {
	a := start(t, Config{})
	mine, back := 0, 0
	for range 2000 {
		g := granted(t, a.Acquire(background, "door", who("ann")))
		ctx, cancel := context.WithCancel(background)
		bob := locking(ctx, a, "door", who("bob"))
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(func() { g.ReleaseAsync(background) })
		both.Wait()
		switch g := await(t, "bob", bob); {
		case g.Err() == nil:
			mine++
			released(t, g)
		case errors.Is(g.Err(), context.Canceled) && g.Name() == "door":
			back++
		default:
			t.Fatalf("got %v", g.Err())
		}
		// Neither would mean that this one waits for ever.
		released(t, granted(t, a.Acquire(background, "door", who("next"))))
	}
	t.Logf("received %d, withdrawn or taken back %d", mine, back)
}

// The wait counts from the call of Lock, also if the grant is taken back from a caller whose context ended at the
// same time, and if the call did other work before it waited.
func TestLockTellsItsWholeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		s.on("acquire", func(o *op) {
			time.Sleep(time.Second) // in Lock, which runs the actor
			time.AfterFunc(time.Second, o.run)
		})
		for range 50 {
			ctx, cancel := context.WithTimeout(background, 2*time.Second)
			if g := a.Lock(ctx, "door", who("ann")); g.Err() == nil {
				released(t, g)
			} else if w := waitError(t, g.Err()); w.Waited != 2*time.Second {
				t.Errorf("waited for %v", w.Waited)
			}
			cancel()
			time.Sleep(time.Minute)
		}
	})
}

// Another goroutine may run the actor, and come to the request long after its context has ended.
func TestLockTellsNoNegativeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Logger: quiet})
		for range 50 {
			g := granted(
				t, a.Acquire(background, "door", Request{Owner: "ann", Watch: whenOver(func() { time.Sleep(time.Minute) })}),
			)
			go g.ReleaseAsync(background)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(background, time.Second)
			if g := a.Lock(ctx, "door", who("bob")); g.Err() == nil {
				released(t, g)
			} else if w := waitError(t, g.Err()); w.Waited < 0 || w.Waited > time.Second {
				t.Errorf("waited for %v", w.Waited)
			}
			cancel()
		}
	})
}

// A lock that somebody holds, a store that hangs and one that refuses can be told apart.
func TestWaitErrorTellsWhy(t *testing.T) {
	const wait = 300 * time.Millisecond
	give := func(t *testing.T, a *Agent) *lockagent.WaitError {
		t.Helper()
		ctx, cancel := context.WithTimeout(background, wait)
		defer cancel()
		w := waitError(t, a.Lock(ctx, "door", who("bob")).Err())
		if !errors.Is(w, lockagent.ErrTimeout) || w.Waited != wait {
			t.Errorf("got %v", w)
		}
		return w
	}
	run := func(name string, f func(t *testing.T, s *tap, a, other *Agent)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				s := newTap(store.Share())
				f(t, s, start(t, Config{Store: s}), start(t, Config{Store: store}))
				s.handle(nil)
			})
		})
	}
	run("held elsewhere", func(t *testing.T, s *tap, a, other *Agent) {
		granted(t, other.Acquire(background, "door", who("ann")))
		if w := give(t, a); w.Holder != inspect(t, s.whole, "door").Holder || w.Silent != 0 {
			t.Errorf("got %v", w)
		}
		closed(t, other)
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		s.on("acquire", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		if w := give(t, a); w.Holder != "" {
			t.Errorf("nobody holds the lock: %v", w)
		}
	})
	run("held elsewhere, and the next attempt is under way", func(t *testing.T, s *tap, a, other *Agent) {
		s.noQueue = true
		g := granted(t, other.Acquire(background, "door", who("ann")))
		time.AfterFunc(wait/2, func() {
			s.on("acquire", func(o *op) { o.slow(wait, 0) })
			g.ReleaseAsync(background)
		})
		if w := give(t, a); w.Silent != 0 {
			t.Errorf("got %v", w)
		}
	})
	run("the store hangs", func(t *testing.T, s *tap, a, _ *Agent) {
		s.on("acquire", func(o *op) { o.slow(time.Hour, 0) })
		if w := give(t, a); w.Holder != "" || w.Silent < wait-1 || !errors.Is(w, lockagent.ErrStoreUnavailable) ||
			w.Store != nil {
			t.Errorf("got %v", w)
		}
	})
	run("the store hangs after a release", func(t *testing.T, s *tap, a, _ *Agent) {
		g := granted(t, a.Acquire(background, "door", who("ann")))
		a.restingConfig.HandOffTime = 1
		s.on("release", func(o *op) { o.slow(time.Hour, 0) })
		time.AfterFunc(10*time.Millisecond, func() { g.ReleaseAsync(background) })
		if w := give(t, a); w.Holder != "" || w.Silent != wait-10*time.Millisecond {
			t.Errorf("got %v", w)
		}
	})
	run("the store fails", func(t *testing.T, s *tap, a, _ *Agent) {
		away := errors.New("no route")
		s.on("acquire", func(o *op) { o.fail(away) })
		if w := give(t, a); w.Silent < wait-1 || !errors.Is(w, lockagent.ErrStoreUnavailable) || !errors.Is(w, away) {
			t.Errorf("got %v", w)
		}
	})
	run("the store refuses", func(t *testing.T, s *tap, a, _ *Agent) {
		s.on("acquire", func(o *op) { o.fail(lockagent.ErrNotPermitted) })
		if err := a.Lock(background, "door", who("bob")).Err(); !errors.Is(err, lockagent.ErrNotPermitted) {
			t.Errorf("got %v", err)
		}
	})
	run("held here, and a renewal is under way", func(t *testing.T, s *tap, a, _ *Agent) {
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.on("renew", func(o *op) { o.slow(time.Second, 0) })
		time.Sleep(DefaultLease/3 - 100*time.Millisecond)
		if w := give(t, a); w.Holder != "ann" || w.Silent != slow {
			t.Errorf("after a while it is silence: %v", w)
		}
		time.Sleep(time.Second)
		s.on("renew", func(o *op) { o.slow(slow-1, 0) })
		time.Sleep(DefaultLease/3 - 100*time.Millisecond)
		if w := give(t, a); w.Silent >= slow {
			t.Errorf("got %v", w)
		}
		released(t, g)
	})
}
