package agentclient

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// clocked is an agent without a daemon, in virtual time. What the daemon says comes from the test. asleep is for how
// long the machine was suspended: no timer has noticed that.
type clocked struct {
	*agent
	begin  time.Time
	asleep time.Duration
}

func newClocked() *clocked {
	c := &clocked{begin: time.Now()}
	c.agent = newAgent(
		Config{Claim: time.Hour, Logger: slog.New(slog.DiscardHandler)},
		func() time.Duration { return time.Since(c.begin) + c.asleep },
	)
	c.linked = true
	return c
}

func (c *clocked) deadline(in time.Duration) *lockagentv1.Deadline {
	return &lockagentv1.Deadline{Boottime: int64(c.now() + in), BootId: bootclock.ID()}
}

// says has the daemon say something of the claim that was made last.
func (c *clocked) says(e *lockagentv1.ClaimEvent) {
	c.hear(&lockagentv1.LinkEvent{Ref: c.ref, What: &lockagentv1.LinkEvent_Event{Event: e}})
}

// granted is a claim that the daemon has granted.
func (c *clocked) granted(t *testing.T, req actor.Request, in time.Duration) lockagent.Grant {
	t.Helper()
	req.Owner = "owner"
	grants := c.Acquire(t.Context(), "door", req)
	c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
		Claim: "id", Secret: "secret", Token: 7, Count: 1, Deadline: c.deadline(in),
	}}})
	g := <-grants
	if g.Err() != nil || !g.Held() {
		t.Fatalf("not granted: %v", g.Err())
	}
	return g
}

func wantLost(t *testing.T, g lockagent.Grant, why lockagent.LossReason) {
	t.Helper()
	select {
	case <-g.Done():
	default:
		t.Fatal("the hold goes on")
	}
	want := lockagent.LostError{Name: "door", Owner: "owner", Token: 7, Reason: why}
	for what, err := range map[string]error{"Cause": g.Cause(), "Release": g.Release(t.Context())} {
		if e, ok := errors.AsType[*lockagent.LostError](err); !ok || *e != want {
			t.Errorf("%s: %v, want %v", what, err, &want)
		}
	}
}

func TestTheDaemonIsSilent(t *testing.T) {
	for _, test := range []struct {
		req actor.Request
		why lockagent.LossReason
	}{
		{actor.Request{}, lockagent.LostDeadline},
		{actor.Request{Lease: time.Minute}, lockagent.LostExpired},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			g := c.granted(t, test.req, 10*time.Second)
			time.Sleep(5 * time.Second)
			c.says(&lockagentv1.ClaimEvent{
				Event: &lockagentv1.ClaimEvent_Renewed{Renewed: &lockagentv1.Renewed{Deadline: c.deadline(10 * time.Second)}},
			})
			time.Sleep(10*time.Second - 1)
			if !g.Held() || g.Cause() != nil {
				t.Errorf("lost before the deadline: %v", g.Cause())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			wantLost(t, g, test.why)
			time.Sleep(time.Minute) // the release of the claim waits for its answer
		})
	}
}

func TestTheMachineWasSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, 10*time.Second)
		c.asleep = 10 * time.Second
		if g.Held() || g.Remaining() != 0 {
			t.Error("the grant is held past its deadline")
		}
		_ = g.Release(t.Context()) // finds out
		wantLost(t, g, lockagent.LostDeadline)
		time.Sleep(time.Minute)
	})
}

// After a suspend the holder is told within a second, also if there is no daemon. Timers have not noticed the suspend.
func TestASuspendEndsAHoldWithoutTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, time.Hour)
		ctx := g.Context(t.Context())
		_ = c.unlinked(errEnded)
		time.Sleep(10 * follow.Glance)
		if g.Cause() != nil || ctx.Err() != nil {
			t.Fatalf("lost before the deadline: %v", g.Cause())
		}
		c.mu.Lock() // timers read the clock
		c.asleep = time.Hour
		c.mu.Unlock()
		time.Sleep(follow.Glance)
		synctest.Wait()
		wantLost(t, g, lockagent.LostDeadline)
		if ctx.Err() == nil {
			t.Error("the context goes on")
		}
		time.Sleep(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.glances {
			t.Error("somebody looks at the clock without holds")
		}
	})
}

func TestTheDaemonDoesNotConfirmARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, 10*time.Second)
		if err := g.Release(t.Context()); !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("Release: %v", err)
		}
		if g.Held() || !errors.Is(g.Cause(), lockagent.ErrReleased) {
			t.Errorf("the cause is %v", g.Cause())
		}
		time.Sleep(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.claims) != 0 {
			t.Error("a claim is left after its deadline")
		}
	})
}

// After a restart, the daemon says what has become of a claim.
func TestAttachAgain(t *testing.T) {
	for what, test := range map[string]struct {
		says func(c *clocked)
		why  lockagent.LossReason // 0 if the hold goes on
	}{
		"it has the claim": {func(c *clocked) {
			c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
				Claim: "id", Secret: "secret", Token: 7, Deadline: c.deadline(time.Hour),
			}}})
		}, 0},
		"it has another token": {func(c *clocked) {
			c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
				Claim: "id", Secret: "secret", Token: 8, Deadline: c.deadline(time.Hour),
			}}})
		}, lockagent.LostDenied},
		"it knows no such claim": {func(c *clocked) {
			c.hear(&lockagentv1.LinkEvent{
				Ref:  c.ref,
				What: &lockagentv1.LinkEvent_Refused{Refused: &lockagentv1.Failure{Reason: lockagentv1.Reason_REASON_NO_CLAIM}},
			})
		}, lockagent.LostDenied},
		"the claim was lost": {func(c *clocked) {
			c.says(&lockagentv1.ClaimEvent{
				Event: &lockagentv1.ClaimEvent_Ended{Ended: &lockagentv1.Ended{How: &lockagentv1.Ended_Lost{
					Lost: &lockagentv1.Lost{Reason: lockagentv1.LossReason_LOSS_REASON_CLOSED},
				}}},
			})
		}, lockagent.LostClosed},
		"it says nothing": {func(*clocked) { time.Sleep(10 * time.Second) }, lockagent.LostDeadline},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClocked()
				g := c.granted(t, actor.Request{}, 10*time.Second)
				c.resume()
				c.mu.Lock()
				first := c.commands
				c.mu.Unlock()
				if len(first) != 1 || first[0].GetAttach().GetClaim() != "id" || first[0].GetAttach().GetSecret() != "secret" {
					t.Fatalf("the new link begins with %v", first)
				}
				test.says(c)
				synctest.Wait()
				if test.why != 0 {
					wantLost(t, g, test.why)
				} else if g.Remaining() != time.Hour || g.Cause() != nil {
					t.Errorf("%v remain, %v", g.Remaining(), g.Cause())
				} else {
					g.ReleaseAsync(t.Context())
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// A daemon on another machine has another clock.
func TestDeadlineOfAnotherBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		grants := c.Acquire(t.Context(), "door", actor.Request{Owner: "owner"})
		c.says(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
			Claim: "id", Token: 7, Deadline: &lockagentv1.Deadline{Boottime: int64(c.now() + time.Hour), BootId: "another"},
		}}})
		if g := <-grants; !errors.Is(g.Err(), lockagent.ErrInternal) || g.Held() {
			t.Errorf("granted with a deadline that means nothing: %v", g.Err())
		}
		time.Sleep(time.Minute)
	})
}
