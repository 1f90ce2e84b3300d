package quorum_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A quorum lets no tenure rest: nobody tells its agent that the lock is wanted. So no node hears of a tenure that may.
func TestNothingRestsInAQuorum(t *testing.T) {
	all := newMemories(3)
	nodes := make([]lockagent.Store, len(all))
	var asked, wrong atomic.Int64
	for i, m := range all {
		nodes[i] = asking{m, func(req lockagent.AcquireRequest) {
			asked.Add(1)
			if req.Rests {
				wrong.Add(1)
			}
		}}
	}
	s, err := anyLease.Open(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := make(chan error, 1)
	req := lockagent.AcquireRequest{
		Name: "door", Tenure: lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}, Lease: time.Minute, Rests: true,
	}
	s.Acquire(t.Context(), req, func(r lockagent.AcquireReply, err error) {
		if err == nil && (!r.Granted || r.Rests) {
			err = fmt.Errorf("the answer is %+v", r)
		}
		done <- err
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if asked.Load() < 2 || wrong.Load() > 0 {
		t.Errorf(
			"the nodes were asked %d times, %d of them for a tenure that may rest; want a majority asked for another one",
			asked.Load(), wrong.Load(),
		)
	}
}

// asking is a node that tells what it is asked for.
type asking struct {
	*memstore.Store
	asked func(lockagent.AcquireRequest)
}

func (a asking) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	a.asked(req)
	a.Store.Acquire(ctx, req, done)
}
