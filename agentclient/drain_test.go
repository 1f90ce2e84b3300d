package agentclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A shutdown gives a grant back that lies in its channel, and waits for the hold whose grant somebody has received.
func TestAShutdownTakesBackWhatNobodyReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		ask := func(name lockagent.Name, owner lockagent.Owner) <-chan lockagent.Grant {
			grants := c.Acquire(t.Context(), name, actor.Request{Owner: owner})
			c.grants(c.ref, 7, 1)
			return grants
		}
		lies := ask("door", "ann")
		gate := wantGrant(t, ask("gate", "bob"), 7)
		c.wantTook(t, "acquire 1 for 1, acquire 2 for 1")
		idle := c.drain()
		c.wantTook(t, "release 1")
		if g, there := <-lies; there {
			t.Errorf("the channel has %v", g)
		}
		time.Sleep(5 * time.Second)
		if !gate.Held() {
			t.Errorf("bob lost the gate: %v", gate.Cause())
		}
		release(t, gate)
		c.wantTook(t, "release 2")
		for ref := range uint64(2) {
			select {
			case <-idle:
				t.Fatal("a shutdown does not wait for the daemon")
			default:
			}
			c.tells(ref+1, &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{Ended: &lockagentv1.Ended{}}})
		}
		<-idle
	})
}
