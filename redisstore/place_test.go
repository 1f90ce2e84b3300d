package redisstore_test

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// A tenure may be granted the lock without its place being taken out, if the store that
// asks does not know of the place: the reply that told of it was lost. When the tenure
// ends, the lock must not be passed on to it.
func TestALockIsNotPassedOnToTheTenureThatEnds(t *testing.T) {
	for name, others := range map[string]int{"alone in the queue": 0, "before another": 1} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			other, unaware := open(t, server.URL()), open(t, server.URL())
			sub := storetest.Subscribe(t, other, "orders")
			held, ours, theirs := wish("orders", lockagent.NewAgentID(), 1), wish("orders", agentA, 1), wish("orders", agentB, 1)
			acquire(t, unaware, held)
			queue(t, other, ours)
			if others > 0 {
				queue(t, other, theirs)
			}
			server.Do("DEL", "orders") // as the end of the lease does
			acquire(t, unaware, ours)
			if got := server.Do("ZCARD", "lockagent_queue:{orders}"); got != int64(1+others) {
				t.Fatalf("%d places, want the tenure to have its own still", got)
			}

			released := release(t, unaware, ours)
			if released.Passed != (others > 0) {
				t.Errorf("Release = %+v", released)
			}
			if others > 0 {
				if pass, ok := sub.AwaitPass(); !ok || pass.Tenure != theirs.Tenure {
					t.Errorf("passed on %+v, want it passed on to %v", pass, theirs.Tenure)
				}
			}
			if got := server.Do("HEXISTS", "orders", ours.Tenure.String()); got != int64(0) {
				t.Error("the tenure that was released has the lock")
			}
			if got := server.Do("EXISTS", "lockagent_queue:{orders}", "lockagent_places:{orders}"); got != int64(0) {
				t.Error("a place is left in the queue")
			}
		})
	}
}
