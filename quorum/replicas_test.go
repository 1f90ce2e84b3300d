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

// replicated is a node that demands one replica, and has some. Without, it gives a grant back, as a store on Redis
// does.
type replicated struct {
	*memstore.Store
	replicas int
}

func (r replicated) tooFew() error {
	if r.replicas > 0 {
		return nil
	}
	return &lockagent.ReplicasError{Name: orders, Wanted: 1}
}

func (r replicated) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	r.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		reply.Replicas = r.replicas
		tooFew := r.tooFew()
		if err != nil || !reply.Granted || tooFew == nil {
			done(reply, err)
			return
		}
		given := lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure}
		r.Store.Release(ctx, given, func(lockagent.ReleaseReply, error) { done(lockagent.AcquireReply{}, tooFew) })
	})
}

func (r replicated) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	r.Store.Renew(ctx, req, func(reply lockagent.RenewReply, err error) {
		reply.Replicas = r.replicas
		done(reply, errors.Join(err, r.tooFew()))
	})
}

// A quorum has as many replicas as the node with the fewest, and too few if a majority has too few.
func TestNodesWithReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		dead, slow := all[2].Share(), all[2].Share()
		of := func(first, second int, third lockagent.Store) *quorum.Store {
			s, err := quorum.Open(replicated{all[0].Share(), first}, replicated{all[1].Share(), second}, third)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		dead.SetOutage(errDown)
		enough, few := of(1, 5, dead), of(0, 0, slow)
		tenure := lockagent.Tenure{Agent: "agent", Number: 1}
		req := lockagent.AcquireRequest{Name: orders, Tenure: tenure, Lease: 30 * time.Second}
		renewal := lockagent.RenewRequest{Name: orders, Tenure: tenure, Lease: time.Minute}
		if reply, err := storetest.Acquire(t, enough, req); err != nil || reply.Replicas != 1 {
			t.Errorf("Acquire = %+v, %v; want 1 replica", reply, err)
		}
		if reply, err := storetest.Renew(t, enough, renewal); err != nil || reply.Replicas != 1 {
			t.Errorf("Renew = %+v, %v; want 1 replica", reply, err)
		}
		if reply, err := storetest.Renew(t, few, renewal); !errors.Is(err, lockagent.ErrTooFewReplicas) {
			t.Errorf("Renew = %+v, %v; want ErrTooFewReplicas", reply, err)
		}
		if _, err := storetest.Release(t, enough, lockagent.ReleaseRequest{Name: orders, Tenure: tenure}); err != nil {
			t.Fatal(err)
		}

		// The agent forgets the tenure after that. What the slow node grants late, after its call has failed, is given
		// back.
		resume := slow.Hang()
		req.Tenure.Number++
		if reply, err := storetest.Acquire(t, few, req); !errors.Is(err, lockagent.ErrTooFewReplicas) {
			t.Errorf("Acquire = %+v, %v; want ErrTooFewReplicas", reply, err)
		}
		time.Sleep(10 * time.Second)
		resume()
		time.Sleep(time.Second)
		all.holders(t, "- - -", nil)
	})
}

// One node of three has too few replicas, and one is down. That is no majority for an answer, so the agent asks
// again for the same tenure. It is granted as soon as the replicas or the node are back.
func TestANodeWithTooFewReplicasThatIsNeeded(t *testing.T) {
	for _, what := range []string{"the replicas", "the node"} {
		t.Run(what+" come back", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newMemories(3)
				dead := all[2].Share()
				dead.SetOutage(errDown)
				thin := &replicated{all[1].Share(), 0}
				s, err := quorum.Open(replicated{all[0].Share(), 1}, thin, dead)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				req := lockagent.AcquireRequest{
					Name: orders, Tenure: lockagent.Tenure{Agent: "agent", Number: 1}, Lease: 30 * time.Second,
				}
				for range 3 {
					if reply, err := storetest.Acquire(t, s, req); !errors.Is(err, lockagent.ErrStoreUnavailable) ||
						lockagent.Definite(err) {
						t.Errorf("Acquire = %+v, %v; want ErrStoreUnavailable", reply, err)
					}
				}
				all.holders(t, "- - -", nil)
				if what == "the node" {
					dead.SetOutage(nil)
				} else {
					thin.replicas = 1
				}
				if reply, err := storetest.Acquire(t, s, req); err != nil || !reply.Granted {
					t.Errorf("Acquire = %+v, %v; want it granted", reply, err)
				}
			})
		})
	}
}
