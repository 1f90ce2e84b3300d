package forgettest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// lateGrant is a grant whose holder does not run for some time.
type lateGrant struct {
	left  time.Duration
	asked Instant       // when the holder asked what is left
	done  chan struct{} // closed when the hold is lost
}

func (g *lateGrant) Token() uint64         { return 1 }
func (g *lateGrant) Done() <-chan struct{} { return g.done }
func (g *lateGrant) Release() string       { return lockagent.LostDeadline.String() }

func (g *lateGrant) Remaining() time.Duration {
	if g.asked > 0 { // a second look, before the holder has heard of the loss
		return 0
	}
	g.asked = now()
	for now() < g.asked+g.left+time.Millisecond { // the process does nothing else
	}
	close(g.done)
	return g.left
}

// A hold that is lost has ended at its deadline, whenever the process learns of that.
func TestAHoldOfAProcessThatDidNotRunEndsAtItsDeadline(t *testing.T) {
	for what, left := range map[string]time.Duration{
		"over before the first look": 0,
		"over during the first look": time.Millisecond,
	} {
		g := &lateGrant{left: left, done: make(chan struct{})}
		granted := now()
		ended, lost := hold(t.Context(), g, granted, time.Hour)
		if ended < granted || ended > g.asked+left || left == 0 && ended != granted || lost == "" {
			t.Errorf("%s: granted at %d, and ended at %d, with %v left at %d", what, granted, ended, left, g.asked)
		}
	}
}
