package script

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// Redisson's waiters of a plain lock of the same name are not woken by its spin lock either.
func TestReleaseOfASpinLockPublishesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, alone := range []bool{false, true} {
		waiter := s.waits(agentB, "orders")
		s.grant(wish("orders", agentA, 1))
		req := end(wish("orders", agentA, 1))
		if alone {
			s.room.ReleaseSpinAlone(&s.call, &req)
		} else {
			s.room.ReleaseSpin(&s.call, []ReleaseRequest{req}, s.past)
		}
		o := make([]Outcome[lockagent.ReleaseReply], 1)
		if err := Single.ReadReleased(s.must(&s.call), s.past, o); err != nil || !o[0].Reply.Released || o[0].Reply.Others != 0 {
			t.Errorf("released %+v, %v", o, err)
		}
		s.Do("PUBLISH", Channel("orders"), "end")
		if got := s.hear(waiter); got != "end" {
			t.Errorf("heard %q", got)
		}
	}
}
