package actor

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// replicated is a store whose replicas acknowledge what was done, as many as the numbers say. An Acquire
// that none acknowledges is given back.
type replicated struct {
	whole
	acquired, renewed atomic.Int64
}

func newReplicated(s whole, acquired, renewed int64) *replicated {
	r := &replicated{whole: s}
	r.acquired.Store(acquired)
	r.renewed.Store(renewed)
	return r
}

func (s *replicated) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	s.whole.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		reply.Replicas = int(s.acquired.Load())
		if err != nil || !reply.Granted || reply.Replicas > 0 {
			done(reply, err)
			return
		}
		s.Release(ctx, lockagent.ReleaseRequest{
			Name: req.Name, Kind: req.Kind, Tenure: req.Tenure,
		}, func(lockagent.ReleaseReply, error) {
			done(lockagent.AcquireReply{}, &lockagent.ReplicasError{Name: req.Name, Wanted: 1})
		})
	})
}

func (s *replicated) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	s.whole.Renew(ctx, req, func(reply lockagent.RenewReply, err error) {
		reply.Replicas = int(s.renewed.Load())
		if err == nil && reply.Held && reply.Replicas == 0 {
			err = &lockagent.ReplicasError{Name: req.Name, Wanted: 1}
		}
		done(reply, err)
	})
}

// A grant has the number of replicas that knew of the tenure at its last confirmation. So have its events.
func TestReplicasOfAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := newReplicated(memstore.New(), 2, 3), &witness{}
		a := leaving(t, Config{Store: store, Recorder: w})
		has := func(what string, g lockagent.Grant, want int) {
			t.Helper()
			if got := g.Replicas(); got != want {
				t.Errorf("%s has %d replicas, want %d", what, got, want)
			}
		}
		ann := Request{Owner: "ann", Session: true}
		first := granted(t, a.Acquire(background, "door", ann))
		again, next := granted(t, a.Acquire(background, "door", ann)), a.Acquire(background, "door", who("bob"))
		has("a grant by the store", first, 2)
		has("a re-entry", again, 2)
		released(t, again)
		released(t, first)
		second := granted(t, next)
		has("a hand-off", second, 2)
		time.Sleep(DefaultLease) // it was renewed
		third := a.Acquire(background, "door", Request{Owner: "ann", Lease: DefaultLease})
		has("a grant that was renewed", second, 2)
		a2 := resuming(t, Config{Store: store, Recorder: w}, detached(t, a))
		refused(t, third, lockagent.ErrClosed)
		waits := resumedOf(t, a2, "ann")
		_ = <-a2.Leave(background, "door", "ann")
		refused(t, waits.Grant, lockagent.ErrSessionClosed)
		resumed := claimed(t, a2, "door")
		has("a grant in another process", resumed, 3)
		released(t, resumed)
		var got []string
		for _, e := range w.all() {
			if e.Token != 0 || e.Kind == lockagent.EventRenewed {
				got = append(got, fmt.Sprintf("%s %d", e.Kind, e.Replicas))
			}
		}
		got = slices.Compact(got) // renewals
		want := []string{
			"granted 2", "reentered 2", "released 2", "granted 2", "renewed 3", "released 3",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	if n := (lockagent.Grant{}).Replicas(); n != 0 {
		t.Errorf("the zero Grant has %d replicas", n)
	}
}

// Too few replicas are a refusal, at once. Nobody asks again for a request that has been refused.
func TestTooFewReplicasForAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		store := newReplicated(memory.Share(), 0, 1)
		s := newTap(store)
		s.news = func(hear func(lockagent.Message), m lockagent.Message) {
			m.Unconfirmed = m.Kind == lockagent.MessagePassed
			hear(m)
		}
		a, b := start(t, Config{Store: s}), start(t, Config{Store: memory})
		refused(t, a.Acquire(background, "door", who("ann")), lockagent.ErrTooFewReplicas)
		if n := s.count("acquire"); n != 1 {
			t.Errorf("%d attempts", n)
		}
		held := granted(t, b.Acquire(background, "door", who("bob")))
		first, second := a.Acquire(background, "door", who("ann")), a.Acquire(background, "door", who("cid"))
		synctest.Wait()
		released(t, held)
		refused(t, first, lockagent.ErrTooFewReplicas)
		refused(t, second, lockagent.ErrTooFewReplicas)
		released(t, granted(t, b.Acquire(background, "door", who("bob"))))
		store.acquired.Store(1)
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
	})
}

// A renewal that no replica acknowledges is made again, until the deadline.
func TestTooFewReplicasForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newReplicated(memstore.New(), 1, 0)
		a := start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		deadline := time.Now().Add(g.Remaining())
		time.Sleep(DefaultLease / 2)
		if left := time.Until(deadline); g.Remaining() > left || !g.Held() {
			t.Errorf("%v remain, want %v", g.Remaining(), left)
		}
		store.renewed.Store(1)
		time.Sleep(DefaultLease)
		if !g.Held() {
			t.Fatalf("the hold is over: %v", g.Cause())
		}
		store.renewed.Store(0)
		<-g.Done()
		lostBecause(t, g.Cause(), lockagent.LostDeadline)
	})
}
