package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/storetest"
)

// late is a node whose Acquires fail, and take effect when arrive is called.
type late struct {
	*memstore.Store
	arrive func()
}

func (l *late) Acquire(_ context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	l.arrive = func() { l.Store.Acquire(context.Background(), req, func(lockagent.AcquireReply, error) {}) }
	done(lockagent.AcquireReply{}, lockagent.ErrStoreUnavailable)
}

// The agent does not know that a node has not answered. The quorum withdraws the tenure there.
func TestALateGrantOfATenureThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		node := &late{Store: all[2].Share()}
		s, err := quorum.Open(all[0].Share(), all[1].Share(), node)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tenure := lockagent.Tenure{Agent: "agent", Number: 1}
		if reply, err := storetest.Acquire(
			t, s, lockagent.AcquireRequest{Name: orders, Tenure: tenure, Lease: time.Second},
		); err != nil || !reply.Granted {
			t.Fatalf("Acquire = %+v, %v", reply, err)
		}
		if reply, err := storetest.Release(t, s, lockagent.ReleaseRequest{Name: orders, Tenure: tenure}); err != nil ||
			!reply.Released {
			t.Fatalf("Release = %+v, %v", reply, err)
		}
		node.arrive()
		all.holders(t, "- - -", nil)
	})
}

// A value that is no lock, at one node, is the trouble of that node alone.
func TestAWrongValueAtOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		all[0].PlantValue(orders)
		g := newGuest(t, all)
		g.acquire(1)
		g.renew(1, true)
		if seen, err := storetest.Inspect(t, g.store, orders); err != nil || seen.Holder != g.tenure(1).String() {
			t.Errorf("Inspect = %+v, %v", seen, err)
		}
		g.release(1)
		g.acquire(2)
	})
}

// No later grant is below a time that was told, and the last token sets no clock that is behind.
func TestTimesOfClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		all[0].StepClock(time.Hour)
		all[1].StepClock(time.Hour)
		g := newGuest(t, all)
		granted := g.acquire(1)
		g.end(lockagent.ReleaseRequest{Tenure: g.tenure(1), Last: granted.Token + 10})
		behind, err := storetest.Time(t, all[2])
		if err != nil || behind >= granted.At.Add(-50*time.Minute) {
			t.Errorf("the clock that is behind shows %d, %v, after a grant at %d", behind, err, granted.At)
		}
		all[0].StepClock(time.Hour)
		time.Sleep(quorum.DefaultLongestLease + time.Second) // the node is away
		told, err := storetest.Time(t, g.store)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes[0].SetOutage(errDown)
		if at := g.acquire(2).At; at < told || told < granted.At {
			t.Errorf("granted at %d and %d, with the time %d in between", granted.At, at, told)
		}
	})
}

// One node has the tenure, one does not, and one does not answer. That is no answer of the quorum. Nor
// is it a majority that would make a repair safe.
func TestRenewalWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		g := newGuest(t, all)
		g.acquire(1)
		if broken, err := storetest.Break(t, all[0], orders); err != nil || !broken {
			t.Fatal(broken, err)
		}
		g.nodes[1].SetOutage(errDown)
		_, err := storetest.Renew(t, g.store, lockagent.RenewRequest{
			Name: orders, Tenure: g.tenure(1), Lease: 30 * time.Second,
		})
		g.unavailable(err)
		time.Sleep(time.Second)
		all.holders(t, "- a a", map[string]*guest{"a": g})
		g.nodes[1].SetOutage(nil)
		g.renew(1, true)
		all.holders(t, "a a a", map[string]*guest{"a": g})
	})
}

// A node that has withdrawn a number says so for good. The agent must go on with another number, also
// if another node is down, and the last one is slower.
func TestWithdrawnAtANodeThatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		tenure := lockagent.Tenure{Agent: "agent", Number: 1}
		withdraw(t, all[0], tenure)
		dead := all[1].Share()
		dead.SetOutage(errDown)
		s, err := quorum.Open(all[0].Share(), dead, newSlow(t, all[2].Share(), func() {}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		req := lockagent.AcquireRequest{Name: orders, Tenure: tenure, Lease: time.Second}
		if reply, err := storetest.Acquire(t, s, req); !errors.Is(err, lockagent.ErrWithdrawn) {
			t.Errorf("Acquire = %+v, %v; want ErrWithdrawn", reply, err)
		}
		time.Sleep(time.Second) // for what the slow node granted
		req.Tenure.Number++
		if reply, err := storetest.Acquire(t, s, req); err != nil || !reply.Granted {
			t.Errorf("Acquire of another number = %+v, %v; want it granted", reply, err)
		}
	})
}

// A node is silent no more when it answers, whatever the answer is.
func TestASilentNodeThatHasWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		g := newGuest(t, all)
		withdraw(t, all[2], g.tenure(1))
		g.nodes[1].SetOutage(errDown)
		resume := g.nodes[2].Hang()
		_, err := g.try(1)
		g.unavailable(err)
		resume()
		synctest.Wait()
		if reply, err := g.try(1); !errors.Is(err, lockagent.ErrWithdrawn) {
			t.Errorf("Acquire = %+v, %v; want ErrWithdrawn", reply, err)
		}
	})
}

// withdraw makes a node refuse a tenure.
func withdraw(t *testing.T, node lockagent.Store, tenure lockagent.Tenure) {
	t.Helper()
	req := lockagent.ReleaseRequest{Name: orders, Tenure: tenure, Unanswered: true}
	if _, err := storetest.Release(t, node, req); err != nil {
		t.Fatal(err)
	}
}
