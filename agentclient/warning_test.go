package agentclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/actor"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// warned expects a channel to be closed, or not.
func warned(t *testing.T, what string, c <-chan struct{}, want bool) {
	t.Helper()
	synctest.Wait()
	got := false
	select {
	case <-c:
		got = true
	default:
	}
	if got != want {
		t.Errorf("%s: %t; want %t", what, got, want)
	}
}

// warns has the daemon warn of the claim.
func (c *clocked) warns(wanted, uncertain bool) {
	c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Warning{
		Warning: &lockagentv1.Warning{Wanted: wanted, Uncertain: uncertain},
	}})
}

// askedToWarn is how often the daemon was asked for warnings since the last call, by commands of their own and by
// others.
func (c *clocked) askedToWarn() (commands, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.commands {
		switch {
		case x.GetWarn() != nil:
			commands++
		case x.GetAttach().GetWarn() || x.GetAcquire().GetWarn():
			others++
		}
	}
	c.commands = nil
	return commands, others
}

func TestTheDaemonWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, time.Hour)
		if commands, others := c.askedToWarn(); commands+others != 0 {
			t.Error("the daemon was asked for warnings that nobody wants")
		}
		wanted, uncertain := g.Wanted(), g.Uncertain()
		if commands, _ := c.askedToWarn(); commands != 1 {
			t.Errorf("the daemon was asked %d times; want once", commands)
		}
		warned(t, "wanted", wanted, false)
		warned(t, "uncertain", uncertain, false)
		c.warns(false, true)
		warned(t, "wanted", wanted, false)
		warned(t, "uncertain", uncertain, true)
		c.warns(true, false)
		warned(t, "wanted", wanted, true)
		warned(t, "uncertain", g.Uncertain(), false)
		_ = c.unlinked(errEnded)
		c.resume()
		if _, others := c.askedToWarn(); others != 1 {
			t.Error("the daemon is not asked for warnings over the new link")
		}
		_ = g.ReleaseAsync(t.Context())
		time.Sleep(2 * time.Hour)
	})
}

// Those who wait in the queue of this process are unknown to the daemon.
func TestAnotherOfThisProcessWantsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, time.Hour)
		wanted := g.Wanted()
		warned(t, "nobody waits", wanted, false)
		next := c.Acquire(t.Context(), "door", actor.Request{Owner: "other", Wait: time.Minute})
		warned(t, "another one waits", wanted, true)
		<-next
		_ = g.ReleaseAsync(t.Context())
		time.Sleep(2 * time.Hour)
	})
}

// Without a word of the daemon the lease runs out. A fixed one does so anyway.
func TestAHoldIsUncertainWithoutTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, 30*time.Second)
		uncertain := g.Uncertain()
		time.Sleep(19 * time.Second)
		warned(t, "a third is left", uncertain, false)
		time.Sleep(3 * time.Second)
		warned(t, "less is left", uncertain, true)
		c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Renewed{
			Renewed: &lockagentv1.Renewed{Deadline: c.deadline(30 * time.Second)},
		}})
		warned(t, "it was renewed", g.Uncertain(), false)
		_ = g.ReleaseAsync(t.Context())
		time.Sleep(time.Hour)
		g = c.granted(t, actor.Request{Lease: 30 * time.Second}, 30*time.Second)
		uncertain = g.Uncertain()
		time.Sleep(29 * time.Second)
		warned(t, "a fixed lease", uncertain, false)
		_ = g.ReleaseAsync(t.Context())
		time.Sleep(time.Hour)
	})
}
