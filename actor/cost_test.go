package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Neither a waiter nor a subscription nor an idle lock costs a goroutine.
func TestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle, locks, waiters = 500, 100, 4000
		store := memstore.New()
		s := newTap(store.Share())
		a, b := start(t, Config{Store: s}), start(t, Config{Store: store})
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range idle {
			released(t, granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("idle", i)), who("ann"))))
		}
		var held []lockagent.Grant
		for i := range locks { // half of them here, half elsewhere, so that wake-ups are wanted
			agent := []*Agent{a, b}[i%2]
			held = append(held, granted(t, agent.Acquire(background, lockagent.Name(fmt.Sprint("busy", i)), who("ann"))))
		}
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		var waiting []<-chan lockagent.Grant
		for i := range waiters {
			waiting = append(
				waiting, a.Acquire(ctx, lockagent.Name(fmt.Sprint("busy", i%locks)), Request{Owner: "bob", Wait: time.Hour}),
			)
		}
		var contexts []context.Context
		for _, g := range held {
			contexts = append(contexts, g.Context(ctx))
		}
		synctest.Wait()
		if n := a.entries(); n != idle+locks {
			t.Errorf("%d actors, want %d", n, idle+locks)
		}
		if n := s.subscriptions(); n != locks/2 {
			t.Errorf("%d subscriptions, want %d", n, locks/2)
		}
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines for %d idle locks, %d held ones and %d waiters", n, idle, locks, waiters)
		}
		cancel()
		for _, c := range waiting {
			refused(t, c, context.Canceled)
		}
		for i, g := range held {
			if !errors.Is(context.Cause(contexts[i]), context.Canceled) {
				t.Error(context.Cause(contexts[i]))
			}
			released(t, g)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines in the end", n)
		}
	})
}

// Nothing keeps an actor in memory that has left, nor what was asked of it.
func TestActorsThatLeaveAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const actors = 500
		a, b := start(t, Config{Store: forgetful{}}), start(t, Config{Store: memstore.New()})
		var gone atomic.Int64
		for _, agent := range []*Agent{a, b} {
			make := agent.registry.make
			agent.registry.make = func(e *entry) *lock {
				l := make(e)
				runtime.AddCleanup(l, func(*atomic.Int64) { gone.Add(1) }, &gone)
				return l
			}
			ctx, cancel := context.WithCancel(background)
			for i := range actors {
				name := lockagent.Name(fmt.Sprint("door", i))
				g := granted(t, agent.Acquire(ctx, name, Request{Owner: "ann", Wait: 100 * time.Hour}))
				waiting := agent.Acquire(background, name, Request{Owner: "bob", Wait: 100 * time.Hour})
				work := g.Context(ctx)
				released(t, g)
				<-work.Done()
				released(t, granted(t, waiting))
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := agent.entries(); n != 0 {
				t.Fatalf("%d actors left", n)
			}
			// cancel comes only now: a context that goes on keeps no actor.
			defer cancel()
		}
		for range 100 {
			runtime.GC()
			if gone.Load() == 2*actors {
				return
			}
		}
		t.Errorf("%d of %d actors are gone", gone.Load(), 2*actors)
	})
}

// watched is a context that never ends, and counts who waits for that.
type watched struct {
	context.Context
	watches atomic.Int64
}

func (*watched) Done() <-chan struct{} { return make(chan struct{}) }

// AfterFunc is what package context calls to watch it.
func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.watches.Add(1)
	return func() bool { w.watches.Add(-1); return true }
}

// When the actor knows that a grant was received, it keeps nothing of the context of the request.
func TestReceivedGrantLeavesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Claim: 7 * time.Second})
		ctx := &watched{Context: background}
		g := granted(t, a.Acquire(ctx, "door", who("ann")))
		if n := ctx.watches.Load(); n != 1 {
			t.Fatalf("%d watches of the context before it is known, want 1", n)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if n := ctx.watches.Load(); n != 0 || !g.Held() {
			t.Errorf("%d watches of the context are left, held %v", n, g.Held())
		}
	})
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// The memory of a lock that was used, and of one that is held, names included.
func BenchmarkMemory(b *testing.B) {
	const locks = 100_000
	a := start(b, Config{Store: forgetful{}, Idle: time.Hour})
	held := make([]lockagent.Grant, locks)
	for round := 0; b.Loop(); round++ {
		empty := heap()
		for i := range held {
			held[i] = <-a.Acquire(background, lockagent.Name(fmt.Sprint(round, "-", i)), who("ann"))
		}
		b.ReportMetric((heap()-empty)/locks, "B/held")
		for i := range held {
			released(b, held[i])
			held[i] = lockagent.Grant{}
		}
		b.ReportMetric((heap()-empty)/locks, "B/idle")
	}
}

// forgetful is a store for one agent, which is granted everything.
type forgetful struct{}

func (forgetful) Acquire(_ context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	done(lockagent.AcquireReply{Granted: true, Token: req.Floor + 1, At: 1}, nil)
}

func (forgetful) Renew(_ context.Context, _ lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	done(lockagent.RenewReply{Held: true, At: 1}, nil)
}

func (forgetful) Release(_ context.Context, _ lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	done(lockagent.ReleaseReply{Released: true, At: 1}, nil)
}

func (forgetful) Break(_ context.Context, _ lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	done(lockagent.BreakReply{}, nil)
}

func (forgetful) Inspect(
	_ context.Context, _ lockagent.Name, _ lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	done(lockagent.Inspection{}, nil)
}

func (forgetful) Permits(_ context.Context, _ lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	done(lockagent.PermitsReply{}, nil)
}

func (forgetful) Latch(context.Context, lockagent.LatchRequest, func(lockagent.LatchReply, error)) {}

func (forgetful) Subscribe(lockagent.Name, lockagent.LockKind, func()) func() { return func() {} }

func (forgetful) Listen(lockagent.AgentID, func(lockagent.Message)) func() { return func() {} }

func (forgetful) OnReset(func(lockagent.Reset)) func() { return func() {} }

func (forgetful) Identity() string { return "" }

func (forgetful) RemembersSince() time.Time { return time.Time{} }

func (forgetful) Time(_ context.Context, done func(lockagent.StoreTime, error)) { done(1, nil) }

func (forgetful) Close() error { return nil }
