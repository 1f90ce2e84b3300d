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

// asksWithin asks for the lock, and waits for so long.
func (c *clocked) asksWithin(t *testing.T, wait time.Duration, owner lockagent.Owner) <-chan lockagent.Grant {
	return c.Acquire(t.Context(), "door", actor.Request{Owner: owner, Wait: wait})
}

// wantTimeout receives the error of a wait that has passed just now.
func wantTimeout(t *testing.T, from <-chan lockagent.Grant, waited time.Duration, holder string) {
	t.Helper()
	synctest.Wait()
	select {
	case g := <-from:
		e, ok := errors.AsType[*lockagent.WaitError](g.Err())
		if !ok || !errors.Is(e, lockagent.ErrTimeout) || !e.TimedOut || e.Waited != waited || e.Holder != holder ||
			e.Silent != 0 {
			t.Errorf("denied by %+v, want a wait for %q that passed after %v", g.Err(), holder, waited)
		}
	default:
		t.Error("the wait goes on")
	}
}

// timesOut has the daemon say that the wait of a claim has passed.
func (c *clocked) timesOut(ref uint64, waited time.Duration) {
	denied := failed(&lockagent.WaitError{
		Name: "door", Holder: "somebody", Waited: waited, TimedOut: true, Err: lockagent.ErrTimeout,
	})
	c.tells(ref, &lockagentv1.ClaimEvent{
		Event: &lockagentv1.ClaimEvent_Ended{Ended: &lockagentv1.Ended{How: &lockagentv1.Ended_Denied{Denied: denied}}},
	})
}

func wantWaits(t *testing.T, waiting ...<-chan lockagent.Grant) {
	t.Helper()
	synctest.Wait()
	for i, w := range waiting {
		if len(w) > 0 {
			t.Errorf("request %d waits no more: %v", i, <-w)
		}
	}
}

// ends drains the agent, and checks that nothing is left.
func (c *clocked) ends(t *testing.T) {
	t.Helper()
	_ = c.drain()
	time.Sleep(time.Hour)
	c.wantEmpty(t)
}

func TestTheDaemonBoundsTheWaitOfOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		ann := c.asksWithin(t, time.Second, "ann")
		c.wantTook(t, "acquire 1 for 1 within 1s")
		time.Sleep(time.Second + waitGrace - 1) // the daemon may be late
		wantWaits(t, ann)
		c.timesOut(1, time.Second)
		wantTimeout(t, ann, time.Second, "somebody")
		c.wantTook(t, "")
		c.ends(t)
	})
	synctest.Test(t, func(t *testing.T) { // which is silent
		c := newClocked()
		ann := c.asksWithin(t, time.Second, "ann")
		time.Sleep(time.Second + waitGrace)
		synctest.Wait()
		if e, ok := errors.AsType[*lockagent.WaitError]((<-ann).Err()); !ok || !e.TimedOut ||
			e.Silent != time.Second+waitGrace {
			t.Errorf("denied by %+v", e)
		}
		c.wantTook(t, "acquire 1 for 1 within 1s, release 1")
		c.ends(t)
	})
}

// ann has the lock. Each of those behind her has a wait of its own, and no claim has one.
func TestWaitsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		ann := c.asksWithin(t, time.Hour, "ann")
		c.grants(1, 7, 1)
		g := wantGrant(t, ann, 7)
		bob := c.asksWithin(t, 3*time.Millisecond, "bob")
		cid := c.asksWithin(t, 10*time.Millisecond, "cid")
		dan := c.asksWithin(t, 5*time.Millisecond, "dan")
		eve := c.asks(t.Context(), "eve")[0]
		c.wantTook(t, "acquire 1 for 1 within 1h0m0s")
		time.Sleep(3 * time.Millisecond)
		wantTimeout(t, bob, 3*time.Millisecond, "ann")
		time.Sleep(2 * time.Millisecond)
		wantTimeout(t, dan, 5*time.Millisecond, "ann")
		wantWaits(t, cid, eve)
		release(t, g)
		c.wantTook(t, "release 1, acquire 3 for 64")
		time.Sleep(5 * time.Millisecond)
		wantTimeout(t, cid, 10*time.Millisecond, "") // the daemon has only just been asked
		c.wantTook(t, "")                            // the claim goes on, because eve wants it
		c.grants(3, 20, 64)
		g = wantGrant(t, eve, 20)
		fay := c.asksWithin(t, time.Second, "fay")
		time.Sleep(patienceInQueue)
		c.wantTook(t, "acquire 6 for 1 within 950ms") // for a claim of her own, with the rest of her wait
		release(t, g)
		c.wantTook(t, "release 3")
		c.grants(6, 30, 1)
		release(t, wantGrant(t, fay, 30))
		c.ends(t)
	})
}

// The claim of one who was alone ends with its wait. Whoever comes then asks for one that does not.
func TestWhoComesSecondAsksForAClaimThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		ann, bob := c.asksWithin(t, time.Millisecond, "ann"), c.asksWithin(t, 2*time.Millisecond, "bob")
		cid := c.asksWithin(t, time.Minute, "cid")
		c.wantTook(t, "acquire 1 for 1 within 1ms, acquire 2 for 64")
		for ref := range uint64(2) {
			c.tells(ref+1, &lockagentv1.ClaimEvent{
				Event: &lockagentv1.ClaimEvent_Queued{Queued: &lockagentv1.Queued{Claim: "claim", Secret: "s", Holder: "somebody"}},
			})
		}
		time.Sleep(2 * time.Millisecond)
		wantWaits(t, ann) // the daemon tells
		wantTimeout(t, bob, 2*time.Millisecond, "somebody")
		c.timesOut(1, time.Millisecond)
		wantTimeout(t, ann, time.Millisecond, "somebody")
		c.wantTook(t, "")
		c.grants(2, 20, 64)
		g := wantGrant(t, cid, 20)
		dan := c.asksWithin(t, time.Minute, "dan")
		release(t, g)
		release(t, wantGrant(t, dan, 21))
		c.wantTook(t, "release 2")
		c.ends(t)
	})
}
