package agentclient

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// hold is a claim that was granted, as its owner sees it.
type hold claim

var _ lockagent.Hold = (*hold)(nil)

// Done implements [lockagent.Hold].
func (h *hold) Done() <-chan struct{} {
	c := (*claim)(h)
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.cause.Load() != nil {
			close(c.done)
		}
	}
	return c.done
}

// Cause implements [lockagent.Hold].
func (h *hold) Cause() error {
	if cause := h.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// EndWith implements [lockagent.Hold].
func (h *hold) EndWith(ctx context.Context, cancel context.CancelCauseFunc) {
	c := (*claim)(h)
	c.agent.mu.Lock()
	cause := c.cause.Load()
	if cause == nil {
		c.contexts.Add(ctx, cancel)
	}
	c.agent.mu.Unlock()
	if cause != nil {
		cancel(*cause)
	}
}

// Remaining implements [lockagent.Hold].
func (h *hold) Remaining() time.Duration {
	if h.cause.Load() != nil {
		return 0
	}
	return (*claim)(h).remaining()
}

// remaining is how long it is until the deadline.
func (c *claim) remaining() time.Duration { return time.Duration(c.until.Load()) - c.agent.now() }

// Replicas is how many replicas of the store had the hold: see [lockagent.Grant.Replicas].
func (h *hold) Replicas() int { return h.replicas }

// PermitIDs are the ids of the permits: see [lockagent.Grant.PermitIDs].
func (h *hold) PermitIDs() []lockagent.PermitID { return h.permits }

// Release implements [lockagent.Hold].
func (h *hold) Release(ctx context.Context) error {
	done := h.ReleaseAsync(ctx)
	select {
	case err := <-done:
		return err
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return lockagent.CauseOf(ctx)
	}
}

// ReleaseAsync implements [lockagent.Hold].
func (h *hold) ReleaseAsync(context.Context) <-chan error { return (*claim)(h).release() }

// release ends the hold for its owner, and then asks the daemon.
func (c *claim) release() <-chan error {
	a := c.agent
	a.mu.Lock()
	if c.stage == held && c.until.Load() <= int64(a.now()) {
		a.mu.Unlock()
		c.expire() // the timer is late
		a.mu.Lock()
	}
	if c.stage != held {
		defer a.mu.Unlock()
		return delivered(c.overError())
	}
	told := c.end(lockagent.ErrReleased)
	a.mu.Unlock()
	told()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.giveBack(c)
}

// extension is an extension that the daemon has not answered.
type extension struct {
	lease time.Duration
	done  chan error
}

// ExtendAsync implements [lockagent.Hold].
func (h *hold) ExtendAsync(_ context.Context, d time.Duration) <-chan error {
	c := (*claim)(h)
	a := c.agent
	err := lockagent.CheckLease(d)
	if c.req.Lease == 0 {
		err = &lockagent.OptionError{Option: "lease", Reason: "the lease of this hold is kept; it needs no extension"}
	}
	if err != nil {
		return delivered(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.stage != held {
		return delivered(c.overError())
	}
	if c.extensions == nil {
		c.extensions = make(map[uint64]extension)
	}
	a.ref++ // no claim has the number either
	x := extension{d, make(chan error, 1)}
	c.extensions[a.ref] = x
	if c.confirmed {
		c.extend(a.ref, x)
	}
	return x.done
}

// extend asks the daemon for an extension. The claim is confirmed over the present link: before that, the daemon may
// not have it.
func (c *claim) extend(id uint64, x extension) {
	c.agent.push(&lockagentv1.Command{
		Ref:     c.ref,
		Command: &lockagentv1.Command_Extend{Extend: &lockagentv1.Extend{Id: id, Lease: wire.FromDuration(x.lease)}},
	})
}

// extendAgain asks over a new link for the extensions without an answer. The daemon, or the one before, may have made
// them. Twice is harmless: a lease only grows.
func (c *claim) extendAgain() {
	for _, id := range slices.Sorted(maps.Keys(c.extensions)) {
		c.extend(id, c.extensions[id])
	}
}

// extended is the answer to an extension.
func (c *claim) extended(e *lockagentv1.Extended) {
	x, ok := c.extensions[e.GetId()]
	if !ok {
		return
	}
	var err error
	if e.GetFailure() != nil {
		err = c.told(wire.ToError(e.GetFailure()))
	} else if until, bad := follow.Instant(e.GetDeadline()); bad == nil {
		c.renew(max(until, time.Duration(c.until.Load())))
	}
	delete(c.extensions, e.GetId())
	x.done <- err
	close(x.done)
}
