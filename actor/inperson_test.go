package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/memstore"
)

// noting is a store that counts the calls that are made in person.
type noting struct {
	whole
	calls *int
}

func (s noting) note(ctx context.Context) {
	if inperson.Is(ctx) {
		*s.calls++
	}
}

func (s noting) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.note(ctx)
	s.whole.Acquire(ctx, req, done)
}

func (s noting) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.note(ctx)
	s.whole.Release(ctx, req, done)
}

// A caller who waits for the outcome makes the call, and nobody else does.
func TestWhoMakesExchangesInPerson(t *testing.T) {
	var left int
	a := start(t, Config{Store: noting{memstore.New(), &left}})
	expect := func(what string, want int) {
		t.Helper()
		if left != want {
			t.Errorf("%s: %d calls were made in person, want %d", what, left, want)
		}
		left = 0
	}
	lock := func(ctx context.Context) lockagent.Grant {
		t.Helper()
		g := a.Lock(ctx, "orders", Request{Owner: "alice"})
		if g.Err() != nil {
			t.Fatal(g.Err())
		}
		return g
	}
	unlock := func(g lockagent.Grant, ctx context.Context) {
		t.Helper()
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	g := lock(context.Background())
	expect("Lock", 1)
	unlock(g, context.Background())
	expect("Unlock", 1)
	g = lock(context.Background())
	expect("Lock again", 1)
	unlock(g, context.Background())
	expect("Unlock again", 1)
	g = lock(t.Context())
	expect("Lock whose context may end", 1)
	unlock(g, t.Context())
	expect("Unlock whose context may end", 1)
	g = <-a.Acquire(context.Background(), "orders", Request{Owner: "alice"})
	expect("Acquire", 0)
	if err := <-g.ReleaseAsync(context.Background()); err != nil {
		t.Error(err)
	}
	expect("Release", 0)
	g = a.Lock(t.Context(), "orders", Request{Owner: "alice", Wait: time.Hour})
	expect("Lock with a bound", 0)
	a.clock.slept.Add(int64(time.Hour)) // and the tick is yet to come
	if err := g.Release(context.Background()); !errors.Is(err, lockagent.ErrLost) {
		t.Errorf("a release that came too late: %v", err)
	}
	expect("Unlock that was answered before the exchange", 0) // its call may serve another caller by then
}

// A caller whose message waits in the mailbox makes no call: it would not learn of one.
func TestAMessageThatWaitsIsNotMadeInPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Kind == lockagent.EventReturned {
				time.Sleep(time.Second) // and meanwhile the actor is busy
			}
		})
		var left int
		a := start(t, Config{Store: noting{memstore.New(), &left}, Recorder: r, Logger: quiet})
		g := granted(t, a.Acquire(background, "orders", who("ann")))
		go g.ReleaseAsync(background)
		synctest.Wait()
		bob := a.Lock(background, "orders", who("bob"))
		if left != 0 {
			t.Errorf("%d calls were made in person", left)
		}
		released(t, bob)
	})
}

// A caller that has the agent ask the store for a request that waits does not make that call.
func TestNoCallerWorksForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, made := memstore.New(), 0
		a, other := start(t, Config{Store: noting{memory.Share(), &made}}), start(t, Config{Store: memory})
		g := granted(t, other.Acquire(background, "orders", who("dan")))
		bob := a.Acquire(background, "orders", who("bob"))
		synctest.Wait()
		alice := a.Lock(background, "orders", Request{Owner: "alice", Try: true}) // the attempt is for bob, who is first
		if !errors.Is(alice.Err(), lockagent.ErrHeld) || made != 0 {
			t.Errorf("alice made %d calls, and heard %v", made, alice.Err())
		}
		released(t, g)
		released(t, granted(t, bob))
	})
}

// The outcome of a release is told also to a caller whose context has ended.
func TestUnlockWhoseContextHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a := start(t, Config{})
	for range 20 { // a select alone would choose at random
		g := a.Lock(t.Context(), "orders", Request{Owner: "alice"})
		if err := g.Release(ended); err != nil {
			t.Fatalf("Unlock with an outcome that is there: %v", err)
		}
	}
}

// A caller makes the call that was left before anybody's code can keep it.
func TestACallInPersonWaitsForNobodysCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived, posted, called := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r := recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Kind == lockagent.EventQueued {
				<-called
			}
		})
		s := hooked{whole: memstore.New(), release: func(context.Context) error { close(called); return nil }}
		a := start(t, Config{Store: s, Recorder: r, Logger: quiet})
		over := func() {
			close(arrived)
			<-posted // until the other request is in the mailbox
		}
		g := a.Lock(t.Context(), "orders", Request{Owner: "alice", Watch: whenOver(over)})
		go func() { _ = g.Release(t.Context()) }()
		<-arrived
		a.Acquire(t.Context(), "orders", who("bob"))
		close(posted)
		<-called
	})
}

// hooked is a store that calls a function before it answers a call that is made in person. The call has taken effect
// then. If the function returns an error, that is the answer.
type hooked struct {
	whole
	acquire, release func(context.Context) error // may be nil
}

func (s hooked) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.whole.Acquire(ctx, req, hook(ctx, s.acquire, done))
}

func (s hooked) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.whole.Release(ctx, req, hook(ctx, s.release, done))
}

func hook[R any](ctx context.Context, f func(context.Context) error, done func(R, error)) func(R, error) {
	if f == nil || !inperson.Is(ctx) {
		return done
	}
	return func(reply R, _ error) {
		err := f(ctx)
		if err != nil {
			var none R
			reply = none
		}
		done(reply, err)
	}
}

// hangs is a server that does not answer before the caller leaves.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: the caller left", lockagent.ErrStoreUnavailable)
}

// A caller whose context ends while it makes a call is let go at once, hears why, and leaves nothing behind.
// Meanwhile the actor serves others.
func TestACallerLeavesACallInPerson(t *testing.T) {
	quit := errors.New("quit")
	for name, req := range map[string]Request{"who waits": who("ann"), "who tries": {Owner: "ann", Try: true}} {
		t.Run("one "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a := start(t, Config{Store: hooked{whole: store, acquire: hangs}})
				b := start(t, Config{Store: store.Share()})
				ctx, cancel := context.WithCancelCause(t.Context())
				outcome := make(chan lockagent.Grant)
				go func() { outcome <- a.Lock(ctx, "orders", req) }()
				synctest.Wait()
				if s := await(t, "status", a.Status("orders", lockagent.PlainLock)); s.Err != nil || !s.Value.Locked {
					t.Errorf("while the call is made: %+v", s)
				}
				time.Sleep(time.Second)
				cancel(quit)
				synctest.Wait()
				g := await(t, "the caller to be let go", outcome)
				wait, ok := errors.AsType[*lockagent.WaitError](g.Err())
				if !ok || !errors.Is(wait, quit) || wait.TimedOut || wait.Waited != time.Second || wait.Store != nil ||
					wait.Silent.Round(time.Millisecond) != time.Second {
					t.Errorf("the caller heard %#v", g.Err())
				}
				released(t, granted(t, b.Acquire(t.Context(), "orders", Request{Owner: "bob", Try: true})))
			})
		})
	}
	t.Run("one who releases", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			hanging := hooked{whole: losing{store}, release: hangs}
			a, b := start(t, Config{Store: hanging}), start(t, Config{Store: store.Share()})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, quit)
			defer cancel()
			if err := a.Lock(ctx, "orders", who("ann")).Release(ctx); !errors.Is(err, quit) {
				t.Errorf("Release: %v", err)
			}
			released(t, granted(t, b.Acquire(t.Context(), "orders", who("bob"))))
		})
	})
}

// losing is a store that loses releases which are made in person.
type losing struct{ whole }

func (s losing) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	if inperson.Is(ctx) {
		done(lockagent.ReleaseReply{}, nil)
		return
	}
	s.whole.Release(ctx, req, done)
}

// later is a store that answers releases in another goroutine.
type later struct{ whole }

func (s later) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	go s.whole.Release(ctx, req, done)
}

// Callers leave a release at the moment of its answer. Each gets its own answer or the end of its context, and what is
// used again is empty.
func TestReleasesThatAreLeft(t *testing.T) {
	a := start(t, Config{Store: later{memstore.New()}})
	var all sync.WaitGroup
	for i := range 4 {
		name := lockagent.Name(fmt.Sprint("door/", i))
		all.Go(func() {
			for n := range 300 {
				g := a.Lock(background, name, who("ann"))
				ctx, cancel := context.WithCancel(background)
				switch n % 3 {
				case 0:
					go cancel()
				case 1:
					cancel()
				}
				if err := g.Release(ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("released: %v", err)
				}
				if err := g.Release(background); !errors.Is(err, lockagent.ErrNotHeld) {
					t.Errorf("released again: %v", err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for wake, ok := a.wakers.Get().(chan struct{}); ok; wake, ok = a.wakers.Get().(chan struct{}) {
		if len(wake) != 0 {
			t.Error("a channel with a value in it is used again")
		}
	}
}

// If a message leads to two calls, its caller makes the first one, and is not kept by the other.
func TestACallerMakesOneCall(t *testing.T) {
	a := start(t, Config{})
	var orders *lock
	make := a.registry.make
	a.registry.make = func(e *entry) *lock {
		orders = make(e)
		return orders
	}
	g := a.Lock(t.Context(), "orders", who("ann"))
	var made []string
	present := &orders.entry.caller
	present.ctx = t.Context()
	for _, name := range []string{"first", "second"} {
		c := &storeCall[lockagent.ReleaseReply]{lock: orders, disowns: true}
		c.makeInPerson(func(ctx context.Context) {
			made = append(made, fmt.Sprint(name, " in person ", inperson.Is(ctx)))
			c.done(lockagent.ReleaseReply{}, nil)
		})
	}
	present.left()
	*present = presence{}
	if want := []string{"second in person false", "first in person true"}; !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
	released(t, g)
}
