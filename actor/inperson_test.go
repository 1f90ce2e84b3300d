package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
	"github.com/lockagent/lockagent/memstore"
)

// leaving is a store that leaves to its callers what it can.
type leaving struct {
	whole
	left *int
}

func (s leaving) orDo(ctx context.Context, do func()) {
	if errand.Leave(ctx, do) {
		*s.left++
	} else {
		do()
	}
}

func (s leaving) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.orDo(ctx, func() { s.whole.Acquire(ctx, req, done) })
}

func (s leaving) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.orDo(ctx, func() { s.whole.Release(ctx, req, done) })
}

// A caller who waits whatever happens does what the store leaves. Nobody else does.
func TestWhoMakesExchangesInPerson(t *testing.T) {
	var left int
	a := start(t, Config{Store: leaving{memstore.New(), &left}})
	expect := func(what string, want int) {
		t.Helper()
		if left != want {
			t.Errorf("%s: %d calls were left to the caller, want %d", what, left, want)
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
	expect("Lock whose context may end", 0)
	unlock(g, t.Context())
	expect("Unlock whose context may end", 0)
	g = <-a.Acquire(context.Background(), "orders", Request{Owner: "alice"})
	expect("Acquire", 0)
	if err := <-g.ReleaseAsync(context.Background()); err != nil {
		t.Error(err)
	}
	expect("Release", 0)
	g = lock(context.Background())
	expect("Lock", 1)
	a.clock.slept.Add(int64(time.Hour)) // and the tick is yet to come
	if err := g.Release(context.Background()); !errors.Is(err, lockagent.ErrLost) {
		t.Errorf("a release that came too late: %v", err)
	}
	expect("Unlock that was answered before the exchange", 0) // its call may serve another caller by then
}

// The actor sends the caller on an errand while the caller looks for one. One of the two makes the exchange, and never both.
func TestAnErrandIsDoneOnce(t *testing.T) {
	byCaller := 0
	for range 5000 {
		var e errands
		var there, done atomic.Int32
		meet := func() {
			for there.Add(1); there.Load() < 2; {
				yieldNow()
			}
		}
		var both sync.WaitGroup
		both.Go(func() { // the store
			meet()
			if exchange := func() { done.Add(1) }; !errand.Leave(e.with(background), exchange) {
				exchange()
			}
		})
		both.Go(func() {
			meet()
			if work := e.take(false); work != nil {
				byCaller++
				work()
			}
			e.finish()
		})
		both.Wait()
		if done.Load() != 1 {
			t.Fatalf("done %d times", done.Load())
		}
	}
	t.Logf("the caller did %d of 5000", byCaller)
}

// A caller whose message waits in the mailbox goes on no errand: it would not learn of one.
func TestAMessageThatWaitsHasNoErrand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderFunc(func(_ context.Context, e lockagent.Event) {
			if e.Kind == lockagent.EventReturned {
				time.Sleep(time.Second) // and meanwhile the actor is busy
			}
		})
		var left int
		a := start(t, Config{Store: leaving{memstore.New(), &left}, Recorder: r, Logger: quiet})
		g := granted(t, a.Acquire(background, "orders", who("ann")))
		go g.ReleaseAsync(background)
		synctest.Wait()
		bob := a.Lock(background, "orders", who("bob"))
		if left != 0 {
			t.Errorf("%d calls were left to the caller", left)
		}
		released(t, bob)
	})
}

// silentStore answers no release.
type silentStore struct{ whole }

func (silentStore) Release(context.Context, lockagent.ReleaseRequest, func(lockagent.ReleaseReply, error)) {
}

func TestUnlockWhoseContextHasEnded(t *testing.T) {
	quit := errors.New("quit")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(quit)
	a := start(t, Config{})
	for range 20 { // a select alone would choose at random
		g := a.Lock(t.Context(), "orders", Request{Owner: "alice"})
		if err := g.Release(ended); err != nil {
			t.Fatalf("Unlock with an outcome that is there: %v", err)
		}
	}
	a, err := New(Config{Store: silentStore{memstore.New()}, Logger: quiet}) // which nobody can close
	if err != nil {
		t.Fatal(err)
	}
	g := a.Lock(t.Context(), "orders", Request{Owner: "alice"})
	if err := g.Release(ended); !errors.Is(err, quit) || g.Held() {
		t.Errorf("Unlock with an outcome that is not there: %v, held %v", err, g.Held())
	}
}

// A caller who was left an exchange makes it before anybody's code can keep it: until then, the
// store makes none for others.
func TestAnExchangeInPersonWaitsForNobodysCode(t *testing.T) {
	for name, callback := range map[string]func(exchanged <-chan struct{}){
		"that waits":              func(exchanged <-chan struct{}) { <-exchanged },
		"that ends its goroutine": func(<-chan struct{}) { runtime.Goexit() },
	} {
		t.Run("code "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arrived, posted, exchanged := make(chan struct{}), make(chan struct{}), make(chan struct{})
				r := recorderFunc(func(_ context.Context, e lockagent.Event) {
					if e.Kind == lockagent.EventQueued {
						callback(exchanged)
					}
				})
				s := told{leaving{memstore.New(), new(int)}, exchanged, func() {
					close(arrived)
					<-posted // until the other request is in the mailbox
				}}
				a := start(t, Config{Store: s, Recorder: r, Logger: quiet})
				go a.Lock(background, "orders", who("alice"))
				<-arrived
				a.Acquire(background, "orders", who("bob"))
				close(posted)
				<-exchanged
			})
		})
	}
}

// told is a store that closes a channel when it is asked for a lock. It calls before first.
type told struct {
	leaving
	asked  chan struct{}
	before func()
}

func (s told) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.before()
	s.orDo(ctx, func() {
		close(s.asked)
		s.whole.Acquire(ctx, req, done)
	})
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
