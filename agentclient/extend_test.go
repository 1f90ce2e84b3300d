package agentclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// extendings are the extensions that the daemon was asked for since the last call: their ids, and their leases as text.
func (c *clocked) extendings() (ids []uint64, leases string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var said []string
	for _, x := range c.commands {
		if e := x.GetExtend(); e != nil {
			ids, said = append(ids, e.GetId()), append(said, e.GetLease().AsDuration().String())
		}
	}
	c.commands = nil
	return ids, strings.Join(said, ", ")
}

func (c *clocked) wantExtendings(t *testing.T, want string) (ids []uint64) {
	t.Helper()
	ids, got := c.extendings()
	if got != want {
		t.Fatalf("the daemon is asked for extensions by %q, want %q", got, want)
	}
	return ids
}

// extends has the daemon answer an extension.
func (c *clocked) extends(id uint64, in time.Duration, err error) {
	e := &lockagentv1.Extended{Id: id, Deadline: c.deadline(in)}
	if err != nil {
		e.Failure = failed(err)
	}
	c.hear(&lockagentv1.LinkEvent{Ref: 1, What: &lockagentv1.LinkEvent_Extended{Extended: e}})
}

// attached has the daemon say over a new link that it has the claim.
func (c *clocked) attached() {
	c.tells(1, &lockagentv1.ClaimEvent{
		Event: &lockagentv1.ClaimEvent_Granted{
			Granted: &lockagentv1.Granted{Claim: "id", Token: 7, Deadline: c.deadline(10 * time.Second)},
		},
	})
}

// leased is a test of a hold with a fixed lease of 10 s, whose claim has the number 1.
func leased(t *testing.T, test func(t *testing.T, c *clocked, g lockagent.Grant)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{Lease: 10 * time.Second}, 10*time.Second)
		c.extendings()
		test(t, c, g)
		_ = g.ReleaseAsync(t.Context())
		time.Sleep(time.Hour)
		c.wantEmpty(t)
	})
}

// unanswered checks that there is no answer.
func unanswered(t *testing.T, outcomes ...<-chan error) {
	t.Helper()
	synctest.Wait()
	for i, o := range outcomes {
		select {
		case err := <-o:
			t.Errorf("extension %d has the answer %v", i, err)
		default:
		}
	}
}

func wantOutcome(t *testing.T, outcome <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-outcome:
		if !errors.Is(err, want) {
			t.Errorf("the extension ended with %v, want %v", err, want)
		}
	default:
		t.Error("the extension has no answer")
	}
}

func TestAnExtensionOutlastsTheLink(t *testing.T) {
	minute, hour := time.Minute, time.Hour
	leased(t, func(t *testing.T, c *clocked, g lockagent.Grant) {
		asked := g.ExtendAsync(t.Context(), minute) // its answer is lost with the link
		first := c.wantExtendings(t, "1m0s")
		_ = c.unlinked(errEnded)
		later := g.ExtendAsync(t.Context(), hour)
		c.resume()
		early := g.ExtendAsync(t.Context(), 2*minute) // before the daemon has said that it has the claim
		c.wantExtendings(t, "")
		c.attached()
		ids := c.wantExtendings(t, "1m0s, 1h0m0s, 2m0s")
		unanswered(t, asked, later, early)
		if ids[0] != first[0] {
			t.Errorf("extension %d was asked for again as %d", first[0], ids[0])
		}
		c.attached() // which tells nothing new
		c.wantExtendings(t, "")

		c.extends(ids[0], minute, nil)
		c.extends(ids[1], hour, nil)
		c.extends(ids[2], 2*minute, nil) // its answer was on its way, and shortens nothing
		c.extends(ids[0], minute, nil)   // a second answer
		for _, o := range []<-chan error{asked, later, early} {
			wantOutcome(t, o, nil)
		}
		if g.Remaining() != hour {
			t.Errorf("%v remain", g.Remaining())
		}
		_ = c.unlinked(errEnded)
		c.resume()
		c.attached()
		c.wantExtendings(t, "")
	})
}

func TestAnExtensionEndsWithItsHold(t *testing.T) {
	for what, test := range map[string]struct {
		ends func(c *clocked, g lockagent.Grant)
		want error
	}{
		"at the deadline, without a link": {func(c *clocked, _ lockagent.Grant) {
			_ = c.unlinked(errEnded)
			time.Sleep(10 * time.Second)
		}, lockagent.ErrLost},
		"at the deadline, if the next daemon says nothing": {func(c *clocked, _ lockagent.Grant) {
			_ = c.unlinked(errEnded)
			c.resume()
			time.Sleep(10 * time.Second)
		}, lockagent.ErrLost},
		"by a release, without a link": {func(c *clocked, g lockagent.Grant) {
			_ = c.unlinked(errEnded)
			_ = g.ReleaseAsync(context.Background())
		}, lockagent.ErrNotHeld},
		"if the next daemon does not know the claim": {func(c *clocked, _ lockagent.Grant) {
			_ = c.unlinked(errEnded)
			c.resume()
			c.hear(&lockagentv1.LinkEvent{Ref: 1, What: &lockagentv1.LinkEvent_Refused{Refused: failed(refusal.ErrNoClaim)}})
		}, lockagent.ErrLost},
		"if the agent closes": {func(c *clocked, _ lockagent.Grant) {
			_ = c.unlinked(errEnded)
			close(c.ended)
			go func() { _ = c.Close() }()
		}, lockagent.ErrLost},
		"with the error of the daemon": {func(c *clocked, _ lockagent.Grant) {
			ids, _ := c.extendings()
			c.extends(ids[0], 0, lockagent.ErrNotPermitted)
		}, lockagent.ErrNotPermitted},
	} {
		t.Run(what, func(t *testing.T) {
			leased(t, func(t *testing.T, c *clocked, g lockagent.Grant) {
				outcome := g.ExtendAsync(t.Context(), time.Minute)
				test.ends(c, g)
				wantOutcome(t, outcome, test.want)
			})
		})
	}
}
