package actor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

var background = context.Background()

func TestGrantChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		c := a.Acquire(background, "door", who("ann"))
		if cap(c) != 1 {
			t.Errorf("capacity %d, want 1", cap(c))
		}
		g := granted(t, c)
		exhausted(t, c)
		if zero := <-c; !errors.Is(zero.Err(), lockagent.ErrNotGranted) || zero.Held() || zero.Token() != 0 {
			t.Errorf("received again: %v held %v token %d", zero.Err(), zero.Held(), zero.Token())
		}
		if g.Name() != "door" || g.Owner() != "ann" || g.Token() == 0 || g.HoldCount() != 1 || !g.Held() || g.Cause() != nil {
			t.Errorf("grant: %+v", g)
		}
		done := g.ReleaseAsync(background)
		if cap(done) != 1 {
			t.Errorf("capacity of release %d, want 1", cap(done))
		}
		if err := await(t, "release", done); err != nil {
			t.Error(err)
		}
		exhausted(t, done)
	})
}

func TestBadRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		over, cancel := context.WithCancelCause(background)
		why := errors.New("why")
		cancel(why)
		for _, c := range []struct {
			ctx  context.Context
			name lockagent.Name
			req  Request
			want error
		}{
			{background, "", who("ann"), lockagent.ErrBadName},
			{background, "a}b", who("ann"), lockagent.ErrBadName},
			{background, "\xff", who("ann"), lockagent.ErrBadName},
			{background, "door", who(""), lockagent.ErrBadOwner},
			{background, "door", who(strings.Repeat("x", 513)), lockagent.ErrBadOwner},
			{background, "door", Request{Owner: "ann", Lease: 1}, lockagent.ErrBadOption},
			{background, "door", Request{Owner: "ann", Lease: -1}, lockagent.ErrBadOption},
			{background, "door", Request{Owner: "ann", Lease: lockagent.MaxLease + 1}, lockagent.ErrBadOption},
			{background, "door", Request{Owner: "ann", Wait: -1}, lockagent.ErrTimeout},
			{background, "door", Request{Owner: "ann", Outlive: true}, lockagent.ErrBadOption},
			{over, "door", who("ann"), why},
		} {
			ended := 0
			c.req.Watch = whenOver(func() { ended++ })
			ch := a.Acquire(c.ctx, c.name, c.req)
			refused(t, ch, c.want)
			exhausted(t, ch)
			if ended != 1 {
				t.Errorf("%q %+v: the end was told %d times", c.name, c.req, ended)
			}
		}
		if n := store.count(""); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors were made", n)
		}
	})
}

// keeper keeps store calls until it is opened.
type keeper struct {
	mu   sync.Mutex
	held []*op
}

func (g *keeper) keep(o *op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, o)
}

// take returns the calls that were kept, and keeps none of them.
func (g *keeper) take() []*op {
	g.mu.Lock()
	defer g.mu.Unlock()
	ops := g.held
	g.held = nil
	return ops
}

func TestContextEnds(t *testing.T) {
	why := errors.New("why")

	t.Run("while waiting behind a local holder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			ctx, cancel := context.WithCancelCause(background)
			c := a.Acquire(ctx, "door", who("bob"))
			synctest.Wait()
			silent(t, "bob", c)
			cancel(why)
			refused(t, c, why)
			exhausted(t, c)
			released(t, g)
		})
	})

	t.Run("while waiting behind another agent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			a, b := start(t, Config{Store: store}), start(t, Config{Store: store.Share()})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			ctx, cancel := context.WithTimeoutCause(background, time.Second, why)
			defer cancel()
			begin := time.Now()
			refused(t, b.Acquire(ctx, "door", who("bob")), why)
			if waited := time.Since(begin); waited != time.Second {
				t.Errorf("waited %v", waited)
			}
			released(t, g)
		})
	})

	t.Run("while the store is asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newTap(memstore.New())
			var kept keeper
			store.on("acquire", kept.keep)
			a := start(t, Config{Store: store})
			ctx, cancel := context.WithCancelCause(background)
			c := a.Acquire(ctx, "door", who("ann"))
			synctest.Wait()
			cancel(why)
			refused(t, c, why)
			for _, o := range kept.take() {
				o.run()
			}
			synctest.Wait()
			if inspect(t, store.whole, "door").Held {
				t.Error("the store still holds the lock that nobody wants")
			}
		})
	})

	t.Run("while the store is asked, and the answer is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newTap(memstore.New())
			var kept keeper
			store.on("acquire", kept.keep)
			a := start(t, Config{Store: store})
			ctx, cancel := context.WithCancelCause(background)
			c := a.Acquire(ctx, "door", who("ann"))
			synctest.Wait()
			cancel(why)
			refused(t, c, why)
			for _, o := range kept.take() {
				o.lose()
			}
			synctest.Wait()
			if inspect(t, store.whole, "door").Held {
				t.Error("the doubtful attempt was not withdrawn")
			}
		})
	})

	t.Run("after the grant, which nobody received", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &witness{}
			a := start(t, Config{Recorder: w})
			ctx, cancel := context.WithCancelCause(background)
			ended := 0
			req := who("ann")
			req.Watch = whenOver(func() { ended++ })
			c := a.Acquire(ctx, "door", req)
			synctest.Wait()
			next := a.Acquire(background, "door", who("bob"))
			synctest.Wait()
			silent(t, "bob", next)
			cancel(why)
			synctest.Wait()
			g := <-c
			if !errors.Is(g.Err(), lockagent.ErrNotGranted) {
				t.Errorf("received %v from a channel whose grant was taken back", g.Err())
			}
			h := granted(t, next)
			if ended != 1 {
				t.Errorf("the end was told %d times", ended)
			}
			released(t, h)
			w.tells(t, "agentstarted granted queued unclaimed granted released returned")
		})
	})

	t.Run("after the grant was received", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			ctx, cancel := context.WithCancelCause(background)
			c := a.Acquire(ctx, "door", who("ann"))
			synctest.Wait() // the grant lies in its channel, where the actor cannot see who takes it
			g := granted(t, c)
			cancel(why)
			synctest.Wait()
			if !g.Held() || g.Cause() != nil {
				t.Errorf("the hold ended: %v", g.Cause())
			}
			time.Sleep(time.Hour)
			if !g.Held() {
				t.Errorf("the hold ended later: %v", g.Cause())
			}
			released(t, g)
		})
	})
}

func TestUnclaimedGrantIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Claim: 7 * time.Second})
		begin := time.Now()
		c := a.Acquire(background, "door", who("ann"))
		g := granted(t, a.Acquire(background, "door", who("bob")))
		if waited := time.Since(begin); waited != 7*time.Second {
			t.Errorf("taken back after %v, want the 7s of Claim", waited)
		}
		if err := (<-c).Err(); !errors.Is(err, lockagent.ErrNotGranted) {
			t.Errorf("ann received %v", err)
		}
		released(t, g)
	})
}

func TestClaimedGrantStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Claim: 7 * time.Second})
		c := a.Acquire(background, "door", who("ann"))
		time.Sleep(7*time.Second - 1)
		g := granted(t, c)
		time.Sleep(time.Minute)
		if !g.Held() {
			t.Errorf("lost: %v", g.Cause())
		}
		released(t, g)
	})
}

// A receiver and the actor reach for the same grant, many times. Either the receiver has the grant,
// which is held until it is released. Or the actor takes it back, and the next request is granted.
func TestReceiverRacesTakeBack(t *testing.T) {
	a := start(t, Config{})
	rounds, mine, back := 3_000, 0, 0
	for i := range rounds {
		ctx, cancel := context.WithCancel(background)
		c := a.Acquire(ctx, "door", who("ann"))
		if i%2 == 0 { // let the grant lie there first
			for len(c) == 0 {
				if i%4 == 0 {
					break
				}
				yieldNow()
			}
		}
		go cancel()
		if i%3 == 0 {
			yieldNow()
		}
		g := <-c
		switch err := g.Err(); {
		case err == nil:
			mine++
			if !g.Held() {
				t.Fatalf("round %d: received a grant that is over: %v", i, g.Cause())
			}
			probe := a.Acquire(background, "door", Request{Owner: "probe", Try: true})
			if p := await(t, "probe", probe); !errors.Is(p.Err(), lockagent.ErrHeld) {
				t.Fatalf("round %d: held, and somebody else got %v", i, p.Err())
			}
			if err := g.Release(background); err != nil {
				t.Fatalf("round %d: release: %v", i, err)
			}
		case errors.Is(err, lockagent.ErrNotGranted):
			back++
		case !errors.Is(err, context.Canceled):
			t.Fatalf("round %d: %v", i, err)
		}
		cancel()
		// Nobody has it now: neither would mean that this one waits for ever.
		released(t, granted(t, a.Acquire(background, "door", who("next"))))
	}
	t.Logf("%d rounds: received %d, taken back %d", rounds, mine, back)
}

func TestWaitCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		begin := time.Now()
		c := a.Acquire(background, "door", Request{Owner: "bob", Wait: 3 * time.Second})
		refused(t, c, lockagent.ErrTimeout)
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		exhausted(t, c) // which may look again and again
		// The shorter of wait and context counts.
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		err := refusal(t, a.Acquire(ctx, "door", Request{Owner: "bob", Wait: 3 * time.Second}), context.DeadlineExceeded)
		if !errors.Is(waitError(t, err).Err, context.DeadlineExceeded) {
			t.Errorf("the context ended, not the wait: %v", err)
		}
		released(t, g)
	})
}

// The actor is stuck in a slow recorder when the request comes; that time counts.
func TestWaitCountsWhileTheActorIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Recorder: w})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		w.before = func(e lockagent.Event) {
			if e.Owner == "slow" && e.Kind == lockagent.EventRefused {
				time.Sleep(2 * time.Second)
			}
		}
		slow := a.Acquire(background, "door", Request{Owner: "slow", Try: true})
		begin := time.Now()
		refused(t, a.Acquire(background, "door", Request{Owner: "bob", Wait: 3 * time.Second}), lockagent.ErrTimeout)
		if waited := time.Since(begin); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		refused(t, slow, lockagent.ErrHeld)
		released(t, g)
	})
}

func TestWaitDoesNotBoundTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Second}))
		time.Sleep(time.Hour)
		if !g.Held() {
			t.Error(g.Cause())
		}
		released(t, g)
	})
}

// The wait is over when the lock is granted, not when somebody receives the grant.
func TestWaitDoesNotBoundTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		c := a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Second})
		time.Sleep(5 * time.Second)
		released(t, granted(t, c))
	})
}

func TestHugeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		c := a.Acquire(background, "door", Request{Owner: "bob", Wait: 1<<63 - 1})
		time.Sleep(time.Hour)
		silent(t, "bob", c)
		released(t, g)
		released(t, granted(t, c))
	})
}

// Somebody who waited in vain because the store was away is told so.
func TestTimeoutsTellTheStoresError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		away := fmt.Errorf("no route: %w", lockagent.ErrStoreUnavailable)
		store.handle(func(o *op) { o.fail(away) })
		a := start(t, Config{Store: store})
		err := refusal(t, a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Second}), lockagent.ErrTimeout)
		if !errors.Is(err, away) || !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("timeout does not wrap the store's error: %v", err)
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		err = refusal(t, a.Acquire(ctx, "door", who("ann")), context.DeadlineExceeded)
		if !errors.Is(err, away) {
			t.Errorf("the end of the context does not wrap the store's error: %v", err)
		}
		store.handle(nil)
		synctest.Wait()

		// An error of long ago is not the reason of a timeout today.
		g := granted(t, a.Acquire(background, "door", who("ann")))
		err = refusal(t, a.Acquire(background, "door", Request{Owner: "bob", Wait: time.Second}), lockagent.ErrTimeout)
		if errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("the store was fine: %v", err)
		}
		released(t, g)
	})
}

func TestTimeoutDoesNotTellAnErrorOfAnEarlierRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		store.on("acquire", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		a := start(t, Config{Store: store})
		refused(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true}), lockagent.ErrStoreUnavailable)
		synctest.Wait()
		var kept keeper
		store.on("acquire", kept.keep)
		err := refusal(t, a.Acquire(background, "door", Request{Owner: "bob", Wait: time.Second}), lockagent.ErrTimeout)
		if w := waitError(t, err); w.Store != nil || w.Silent > time.Second {
			t.Errorf("bob's timeout tells an error that ann met: %v", err)
		}
		for _, o := range kept.take() {
			o.run()
		}
	})
}

func TestDefiniteRefusals(t *testing.T) {
	for _, want := range []error{lockagent.ErrWrongType, lockagent.ErrNotPermitted, lockagent.ErrClosed} {
		synctest.Test(t, func(t *testing.T) {
			store := newTap(memstore.New())
			store.on("acquire", func(o *op) { o.fail(want) })
			a := start(t, Config{Store: store})
			refused(t, a.Acquire(background, "door", who("ann")), want)
			refused(t, a.Acquire(background, "door", Request{Owner: "ann", Try: true}), want)
			if n := store.count("acquire"); n != 2 {
				t.Errorf("asked %d times", n)
			}
			store.handle(nil)
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		})
	}
}

func TestTry(t *testing.T) {
	try := Request{Owner: "bob", Try: true}

	t.Run("free", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			released(t, granted(t, a.Acquire(background, "door", try)))
			released(t, granted(t, a.Acquire(background, "door", try)))
		})
	})

	t.Run("held here", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			var held *lockagent.HeldError
			err := refusal(t, a.Acquire(background, "door", try), lockagent.ErrHeld)
			if !errors.As(err, &held) || held.Holder != "ann" || held.Name != "door" || held.Left != g.Remaining() {
				t.Errorf("%+v", held)
			}
			released(t, g)
		})
	})

	t.Run("held elsewhere", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			a, b := start(t, Config{Store: store}), start(t, Config{Store: store.Share()})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			var held *lockagent.HeldError
			err := refusal(t, b.Acquire(background, "door", try), lockagent.ErrHeld)
			if !errors.As(err, &held) || !strings.HasPrefix(held.Holder, string(a.ID())) || held.Left != DefaultLease {
				t.Errorf("%+v", held)
			}
			released(t, g)
			released(t, granted(t, b.Acquire(background, "door", try)))
		})
	})

	t.Run("store away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newTap(memstore.New())
			store.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			a := start(t, Config{Store: store})
			begin := time.Now()
			refused(t, a.Acquire(background, "door", try), lockagent.ErrStoreUnavailable)
			if waited := time.Since(begin); waited != 0 {
				t.Errorf("waited %v", waited)
			}
			store.handle(nil)
		})
	})

	// The store went away after the last hold, so the lock cannot be returned yet.
	t.Run("store away while the lock is returned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newTap(memstore.New())
			a := start(t, Config{Store: store})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			store.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrUnconfirmed) {
				t.Errorf("release: %v", err)
			}
			begin := time.Now()
			refused(t, a.Acquire(background, "door", try), lockagent.ErrStoreUnavailable)
			if waited := time.Since(begin); waited > 2*time.Second {
				t.Errorf("a request that would not wait waited %v", waited)
			}
			store.handle(nil)
		})
	})
}

// The wait ends while the grant lies in its channel: it came in time, so it stays.
func TestWaitThatEndsAfterTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: memstore.New()})
		var door *lock
		make := a.registry.make
		a.registry.make = func(e *entry) *lock {
			door = make(e)
			return door
		}
		out := a.Acquire(background, "door", Request{Owner: "ann", Wait: time.Hour})
		synctest.Wait()
		for _, id := range door.requests.keys() {
			r := door.requests.get(id)
			send(r.entry, &cancelMsg{request: r, err: lockagent.ErrTimeout, timedOut: true, wait: true})
		}
		synctest.Wait()
		released(t, granted(t, out))
	})
}
