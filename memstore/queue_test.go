package memstore

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/storetest"
)

// enqueue asks for a tenure of a lock that is busy, and expects to be queued.
func enqueue(t *testing.T, s *Store, tenure lockagent.Tenure, tokens int) {
	t.Helper()
	req := lockagent.AcquireRequest{Name: "orders/42", Tenure: tenure, Lease: time.Minute, Tokens: tokens, Queue: true}
	if reply, err := storetest.Acquire(t, s, req); err != nil || !reply.Queued {
		t.Fatalf("Acquire(%s) = %+v, %v; want it queued", tenure, reply, err)
	}
}

// passes is a store that has subscribed to the lock, and what it was passed.
func passes(s *Store) (*Store, *[]lockagent.Pass) {
	var got []lockagent.Pass
	s.Subscribe("orders/42", func(p *lockagent.Pass) {
		if p != nil {
			got = append(got, *p)
		}
	})
	return s, &got
}

func TestWithdrawnByALaterTenureIsNotPassedTheLock(t *testing.T) {
	store := New()
	other, got := passes(store.Share())
	waiting := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	acquire(t, store, "orders/42", tenure(1), time.Minute)
	enqueue(t, other, waiting, 1)
	release(t, other, "orders/42", lockagent.Tenure{Agent: waiting.Agent, Number: 2})
	if reply := release(t, store, "orders/42", tenure(1)); reply.Passed || len(*got) > 0 {
		t.Errorf("Release = %+v, passed on %+v", reply, *got)
	}
}

func TestWhoWantsMoreTokensThanThereAreIsPassedOver(t *testing.T) {
	store := New()
	greedy, none := passes(store.Share())
	modest, got := passes(store.Share())
	wish := lockagent.AcquireRequest{Name: "orders/42", Tenure: tenure(1), Lease: time.Minute, Tokens: 1, Floor: lockagent.MaxToken - 3}
	if reply, err := storetest.Acquire(t, store, wish); err != nil || !reply.Granted {
		t.Fatalf("Acquire = %+v, %v", reply, err)
	}
	enqueue(t, greedy, lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}, 3)
	enqueue(t, modest, lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}, 2)
	reply := release(t, store, "orders/42", tenure(1))
	if !reply.Passed || len(*none) > 0 || len(*got) != 1 || (*got)[0].Token != lockagent.MaxToken-1 {
		t.Errorf("Release = %+v, passed on %+v and %+v", reply, *none, *got)
	}
}

// What an agent was passed is remembered as what it acquired.
func TestPassIsRemembered(t *testing.T) {
	store := New()
	other, _ := passes(store.Share())
	acquire(t, store, "orders/42", tenure(1), time.Minute)
	enqueue(t, other, lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}, 1)
	remembers(t, store, 1, 1)
	release(t, store, "orders/42", tenure(1))
	remembers(t, store, 1, 2)
}

// Agents that share a Store wait in one queue, and are told of each other's passes.
func TestPassAmongAgentsOfOneStore(t *testing.T) {
	store, got := passes(New())
	next := lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
	acquire(t, store, "orders/42", tenure(1), time.Minute)
	enqueue(t, store, next, 1)
	if reply := release(t, store, "orders/42", tenure(1)); !reply.Passed || len(*got) != 1 || (*got)[0].Tenure != next {
		t.Errorf("Release = %+v, passed on %+v", reply, *got)
	}
}

// A pass allocates what it tells and whom, and the holder; nothing grows.
func BenchmarkPass(b *testing.B) {
	var stores [2]*Store
	var tenures [2]lockagent.Tenure
	stores[0] = New()
	stores[1] = stores[0].Share()
	for i, s := range stores {
		tenures[i] = lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}
		s.Subscribe("orders/42", func(*lockagent.Pass) {})
	}
	ask := func(i int) {
		req := lockagent.AcquireRequest{Name: "orders/42", Tenure: tenures[i], Lease: time.Minute, Tokens: 1, Queue: true}
		stores[i].Acquire(b.Context(), req, func(_ lockagent.AcquireReply, err error) {
			if err != nil {
				b.Fatal(err)
			}
		})
	}
	ask(0)
	ask(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = 1 - i {
		stores[i].Release(b.Context(), lockagent.ReleaseRequest{Name: "orders/42", Tenure: tenures[i]}, func(reply lockagent.ReleaseReply, err error) {
			if err != nil || !reply.Passed {
				b.Fatal(reply, err)
			}
		})
		tenures[i].Number++
		ask(i)
	}
}
