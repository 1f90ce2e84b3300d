package claims

import (
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// ReleaseIn is [Book.Release] that holds the lock for a while longer, and does not wait for its end. Nothing but that
// end, a release and a break ends the claim. It reports false if there is no such claim, or if it waits for its lock.
func (b *Book) ReleaseIn(id, secret string, keep time.Duration) (kept bool, err error) {
	if err := lockagent.CheckLease(keep); err != nil {
		return false, &lockagent.OptionError{Option: "keep", Reason: keep.String() + " is not between 1ms and a year"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims[id] == nil {
		return false, nil
	}
	c, err := b.living(id, secret)
	switch {
	case err != nil:
		return false, err
	case b.left:
		return false, lockagent.ErrClosed
	case c.state != Held && c.state != Doubtful:
		return false, nil
	}
	if c.stream != nil {
		c.stream.close()
	}
	c.unbind().close()
	if c.expiry != nil {
		c.expiry.Stop()
		c.expiry = nil
	}
	c.detached, c.resumed, c.kept, c.TTL, c.ForPID, c.workers = true, false, true, keep, 0, nil
	c.save(true, bootclock.Now()+keep)
	b.changed(c.Name)
	if err := b.cfg.Journal.Flush(); err != nil {
		return false, fmt.Errorf("%w (%w)", refusal.ErrJournal, err)
	}
	c.live(keep)
	return true, nil
}

// expired is why the time to live of a claim ends its hold.
func (c *claim) expired() lockagent.LossReason {
	if c.kept { // its client has released it, to end then
		return 0
	}
	return lockagent.LostExpired
}
