package agentclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
)

// Shutdown implements [backend.Agent].
func (a *agent) Shutdown(ctx context.Context) error {
	idle := a.drain()
	select {
	case <-idle:
		return a.Close()
	default:
	}
	select {
	case <-idle:
		return a.Close()
	case <-a.ended:
		return a.Close()
	case <-ctx.Done():
	}
	a.mu.Lock()
	left := false
	for _, c := range a.claims {
		left = left || c.busy() && c.stage == held
	}
	a.mu.Unlock()
	if err := a.Close(); !left {
		return err
	} else {
		return errors.Join(lockagent.CauseOf(ctx), err)
	}
}

// Close implements [backend.Agent].
func (a *agent) Close() error {
	a.drain()
	a.mu.Lock()
	var holds []*claim
	for _, c := range a.claims {
		if c.stage == held {
			holds = append(holds, c)
		}
	}
	a.mu.Unlock()
	unconfirmed := 0
	for _, outcome := range a.end(holds, lockagent.ErrClosed, lockagent.LostClosed) {
		if errors.Is(<-outcome, lockagent.ErrUnconfirmed) {
			unconfirmed++
		}
	}
	<-a.drain() // and what was released before
	a.mu.Lock()
	a.unconfirmed += unconfirmed
	unconfirmed = a.unconfirmed
	a.mu.Unlock()
	a.stop()
	<-a.ended
	if unconfirmed > 0 {
		return fmt.Errorf("agentclient: close: %d locks: %w", unconfirmed, lockagent.ErrUnconfirmed)
	}
	return nil
}

// busy reports whether a shutdown waits for the claim. Nobody releases a hold that is to outlive this process.
func (c *claim) busy() bool { return c.stage != held || !c.req.Outlive }

// isIdle reports whether a shutdown waits for nothing more. The mutex must be held.
func (a *agent) isIdle() bool {
	for _, c := range a.claims {
		if c.busy() {
			return false
		}
	}
	return true
}

// drain answers the requests that wait, takes back the grants that lie in their channels, and refuses new ones. The
// channel is closed when a shutdown waits for no claim any more.
func (a *agent) drain() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.closed
	a.closed = true
	for _, c := range a.claims {
		switch {
		case c.stage == waiting:
			c.deny(lockagent.ErrClosed)
			a.giveBack(c)
		case c.stage == held && first && !c.waited && c.req.Slot.TakeBack():
			c.why = lockagent.ErrClosed
			c.end(lockagent.ErrReleased) // nobody has the grant, so there is nobody to tell
			a.giveBack(c)
		case c.answered && first:
			c.timer.Reset(a.patience()) // its owner has heard already that nobody confirms the release
		}
	}
	if a.isIdle() {
		done := make(chan struct{})
		close(done)
		return done
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle
}
