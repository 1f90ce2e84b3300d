package agentclient

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A client learns from the daemon how long the store waits for the holders of before, whether it waits or not.
func TestADenialInAGracePeriod(t *testing.T) {
	grace := &lockagent.GraceError{Name: "door", Left: 1200 * time.Millisecond}
	late := &lockagent.WaitError{
		Name: "door", Waited: time.Second, TimedOut: true, Err: lockagent.ErrTimeout, Store: grace,
	}
	for _, test := range []struct {
		req  actor.Request
		told error
	}{
		{actor.Request{Try: true}, grace},
		{actor.Request{Wait: time.Second}, late},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			grants := c.Acquire(t.Context(), "door", test.req)
			denied, _ := wire.FromError(test.told)
			c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{
				Ended: &lockagentv1.Ended{How: &lockagentv1.Ended_Denied{Denied: denied}},
			}})
			err := (<-grants).Err()
			if e, ok := errors.AsType[*lockagent.GraceError](err); test.req.Try && (!ok || *e != *grace) {
				t.Errorf("a try: %v, want %v", err, grace)
			}
			if !errors.Is(err, lockagent.ErrGrace) || errors.Is(err, lockagent.ErrTimeout) == test.req.Try ||
				err.Error() != test.told.Error() {
				t.Errorf("%v, want %v", err, test.told)
			}
		})
	}
}
