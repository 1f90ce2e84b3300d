package channelapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// leaving is a store that leaves to its callers what it can.
type leaving struct {
	lockagent.Store
	left *int
}

func (s leaving) orDo(ctx context.Context, do func()) {
	if lockagent.LeaveToCaller(ctx, func(context.Context) { do() }) {
		*s.left++
	} else {
		do()
	}
}

func (s leaving) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.orDo(ctx, func() { s.Store.Acquire(ctx, req, done) })
}

func (s leaving) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.orDo(ctx, func() { s.Store.Release(ctx, req, done) })
}

// Whoever waits for the outcome, and for nothing but the end of a context, does what the
// store leaves.
func TestWhoRunsErrands(t *testing.T) {
	var left int
	locks := openWith(t, channelapi.Config{Store: leaving{memstore.New(), &left}})
	lock := locks.Lock(name)
	expect := func(what string, want int) {
		t.Helper()
		if left != want {
			t.Errorf("%s: %d calls were left to the caller, want %d", what, left, want)
		}
		left = 0
	}
	got := func(g lockagent.Grant, err error) lockagent.Grant {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	for what, ctx := range map[string]context.Context{"without an end": context.Background(), "with an end": patient(t)} {
		g := got(lock.Lock(ctx))
		expect("Lock "+what, 1)
		if err := g.Release(ctx); err != nil {
			t.Error(err)
		}
		expect("Unlock "+what, 1)
	}
	g := got(lock.TryLock(patient(t)))
	expect("TryLock", 1)
	_ = g.Release(ended) // the store may be faster than its context
	expect("Unlock whose context has ended", 0)

	g = got(lock.Lock(patient(t), channelapi.Wait(time.Hour)))
	expect("Lock with Wait", 0)
	if err := <-g.ReleaseAsync(patient(t)); err != nil {
		t.Error(err)
	}
	expect("Release", 0)
	g = <-lock.Acquire(patient(t))
	expect("Acquire", 0)
	if err := <-g.ReleaseAsync(patient(t)); err != nil {
		t.Error(err)
	}
}
