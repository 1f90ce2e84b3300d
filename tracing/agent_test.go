package tracing

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// TestARealAgent checks what the recorder takes for granted about the events of an
// agent: that all that begins ends, whatever happens.
func TestARealAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		rec := r.recorder()
		store := memstore.New()
		defer func() { _ = store.Close() }()
		locks, err := channelapi.New(channelapi.Config{Store: Store(store, r.Config), Recorder: rec})
		if err != nil {
			t.Fatal(err)
		}
		ctx, caller := r.caller()
		l := locks.Lock("orders/42")

		first, err := l.Acquire(ctx) // released, and handed on
		if err != nil {
			t.Fatal(err)
		}
		waiting := l.AcquireAsync(ctx)
		if err := first.Release(ctx); err != nil {
			t.Fatal(err)
		}
		second := <-waiting
		if second.Err() != nil {
			t.Fatal(second.Err())
		}
		if _, err := l.TryAcquire(ctx); !errors.Is(err, lockagent.ErrHeld) { // refused
			t.Fatal(err)
		}
		_, err = locks.Lock("orders/42", channelapi.Wait(time.Second)).Acquire(ctx) // timed out
		if !errors.Is(err, lockagent.ErrTimeout) {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(ctx)
		unwanted := l.AcquireAsync(gone)
		cancel() // cancelled
		<-unwanted
		time.Sleep(time.Minute)                     // renewed
		if _, err := l.Break(ctx, ""); err != nil { // broken
			t.Fatal(err)
		}
		fixed, err := locks.Lock("orders/42", channelapi.Lease(time.Second)).Acquire(ctx) // expired
		if err != nil {
			t.Fatal(err)
		}
		<-fixed.Done()
		l.AcquireAsync(ctx)
		time.Sleep(time.Minute) // unclaimed

		session, err := locks.Session("alice") // entered twice, and lost by closing
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := session.Lock("orders/43").Acquire(ctx); err != nil {
				t.Fatal(err)
			}
		}
		refused := locks.Lock("orders/43").AcquireAsync(ctx)
		synctest.Wait()
		r.wantPoints("lockagent.lock.held", map[string]point{"": {0, 1}})
		r.wantPoints("lockagent.lock.waiters", map[string]point{"": {0, 1}})
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		<-refused

		r.wantForgotten(rec)
		r.wantPoints("lockagent.lock.held", map[string]point{"": {}})
		r.wantPoints("lockagent.lock.waiters", map[string]point{"": {}})
		acquired := r.points("lockagent.lock.acquire.duration")
		for outcome, want := range map[string]uint64{
			"granted": 5, "reentered": 1, "refused": 2, "timedout": 1, "cancelled": 1,
		} {
			if got := acquired[outcome].count; got != want {
				t.Errorf("%d requests were %s, want %d", got, outcome, want)
			}
		}
		if got := r.points("lockagent.lock.handoff.duration")[""].count; got != 1 {
			t.Errorf("%d hand-offs, want 1", got)
		}
		lost := r.points("lockagent.lock.losses")
		for _, reason := range []string{"broken", "expired", "unclaimed", "closed"} {
			if got := lost[reason].sum; got != 1 {
				t.Errorf("%v holds were lost for the reason %q, want 1", got, reason)
			}
		}
		// A renewal that is confirmed after its hold has ended is nobody's any more.
		renewals := r.points("lockagent.lock.renewals")["confirmed"].sum
		trust := r.points("lockagent.lock.trust.remaining")[""]
		if n := float64(trust.count); n == 0 || n > renewals || trust.sum < 15*n || trust.sum > 20*n {
			t.Errorf("at %v renewals of a lease of 30s, %v times %v s of trust were left on average", renewals, n, trust.sum/n)
		}
		acquires := r.ended("acquire")
		if len(acquires) != 10 {
			t.Errorf("%d acquires, want 10", len(acquires))
		}
		for _, s := range append(acquires, r.ended("EVALSHA acquire")...) {
			if s.SpanContext.TraceID() != caller.TraceID() {
				t.Errorf("span %q is not in the caller's trace", s.Name)
			}
		}
	})
}

// TestAnOwnerInBothModes has a real agent grant a session a read/write lock in both modes. The holds end in either
// order, and all that begins ends.
func TestAnOwnerInBothModes(t *testing.T) {
	for name, writeEndsFirst := range map[string]bool{"WriteEndsFirst": true, "ReadEndsFirst": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				rec := r.recorder()
				store := memstore.New()
				defer func() { _ = store.Close() }()
				locks, err := channelapi.New(channelapi.Config{Store: Store(store, r.Config), Recorder: rec})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = locks.Close() }()
				session, err := locks.Session("alice")
				if err != nil {
					t.Fatal(err)
				}
				first, second := session.WriteLock("orders/42"), session.ReadLock("orders/42")
				for _, l := range []*channelapi.SessionLock{first, second} {
					if _, err := l.Acquire(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if !writeEndsFirst {
					first, second = second, first
				}
				for _, l := range []*channelapi.SessionLock{first, second} {
					if err := l.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if held := r.points("lockagent.lock.held")[""].sum; held != 0 {
					t.Errorf("%v holds go on, and nobody holds anything", held)
				}
				r.wantForgotten(rec)
			})
		})
	}
}
