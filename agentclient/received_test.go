package agentclient

import (
	"errors"
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

// heard is a Watcher that keeps how a request ended. Its owner gets the grant later than somebody receives it.
type heard struct {
	actor.NopWatcher
	arrived bool
	cause   error
}

func (h *heard) Received() bool    { return h.arrived }
func (h *heard) Ended(cause error) { h.cause = cause }

// A request may have a claim of its own, which is shorter. Its watcher learns that nobody received the grant.
func TestAGrantWithAClaimOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		w := &heard{}
		grants := c.Acquire(t.Context(), "door", actor.Request{Owner: "ann", Claim: time.Second, Watch: w})
		c.grants(c.ref, 7, 1)
		time.Sleep(999 * time.Millisecond)
		c.wantTook(t, "acquire 1 for 1")
		time.Sleep(time.Millisecond)
		c.wantTook(t, "release 1")
		if g, there := <-grants; there {
			t.Errorf("the channel has %v", g)
		}
		if lost, _ := errors.AsType[*lockagent.LostError](w.cause); lost == nil || lost.Reason != lockagent.LostUnclaimed {
			t.Errorf("the watcher was told: %v", w.cause)
		}
	})
}

// A session releases no grant that is on its way to the owner.
func TestASessionLeavesWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		w := &heard{arrived: true}
		grants := c.Acquire(t.Context(), "door", actor.Request{Owner: "ann", Session: true, Watch: w})
		c.grants(c.ref, 7, 1)
		releases := func() error { return <-c.ReleaseMode(t.Context(), "door", "ann", "") }
		if err := releases(); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("a grant in its channel: %v", err)
		}
		g := wantGrant(t, grants, 7)
		w.arrived = false
		if err := releases(); !errors.Is(err, lockagent.ErrNotHeld) || !g.Held() {
			t.Errorf("a grant on its way: %v, held %v", err, g.Held())
		}
		w.arrived = true
		c.ReleaseMode(t.Context(), "door", "ann", "")
		if g.Held() {
			t.Error("the owner cannot release it")
		}
	})
}
