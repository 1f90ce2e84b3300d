package follow

import (
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// Claim is what a client knows of its claim.
type Claim struct {
	ID     string          // empty until the daemon has told it
	Secret string          // chosen by the client that asked for the claim
	Holder string          // who had the lock when the claim began to wait
	First  lockagent.Token // of the first hold; 0 until the daemon has granted the claim

	// What the daemon has warned of last, if it was asked for warnings.
	Wanted, Uncertain bool
}

// News is what the daemon says of a claim.
type News struct {
	Granted *lockagentv1.Granted // the claim has got its lock
	Foreign error                // with Granted: why the deadlines of the daemon mean nothing here
	GoesOn  bool                 // the daemon has the hold that the client knows
	Until   time.Duration        // a new deadline, as an instant of the boot clock, or 0
	Over    error                // why the claim is over; [lockagent.ErrReleased] if somebody else has released it
}

// Hear takes in what the daemon says.
func (c *Claim) Hear(e *lockagentv1.ClaimEvent) (n News) {
	switch {
	case e.GetQueued() != nil:
		c.ID, c.Secret, c.Holder = e.GetQueued().GetClaim(), e.GetQueued().GetSecret(), e.GetQueued().GetHolder()
	case e.GetGranted() != nil:
		g := e.GetGranted()
		c.ID, c.Secret = g.GetClaim(), g.GetSecret()
		switch token := lockagent.Token(g.GetToken()); c.First {
		case 0:
			c.First, n.Granted = token, g
			n.Until, n.Foreign = Instant(g.GetDeadline())
		case token:
			c.Uncertain, n.GoesOn = false, true // unless the daemon says so again
			n.Until, _ = Instant(g.GetDeadline())
		default:
			n.Over = refusal.ErrNoClaim
		}
	case e.GetRenewed() != nil:
		n.Until, _ = Instant(e.GetRenewed().GetDeadline())
	case e.GetWarning() != nil:
		c.Wanted, c.Uncertain = e.GetWarning().GetWanted(), e.GetWarning().GetUncertain()
	case e.GetEnded() != nil:
		switch end := e.GetEnded(); {
		case end.GetLost() != nil:
			n.Over = wire.ToLost(end.GetLost())
		case end.GetDenied() != nil:
			n.Over = wire.ToError(end.GetDenied())
		default:
			n.Over = lockagent.ErrReleased
		}
	}
	return n
}

// Again reports whether the client goes on with a claim after the daemon has said an error of it. The error is nil if
// the daemon has said nothing, because the connection has ended or there is none.
func (c *Claim) Again(told error) bool {
	return told == nil || Leaves(told) || errors.Is(told, refusal.ErrJournal) ||
		errors.Is(told, refusal.ErrNoClaim) && c.First == 0 // it is asked for anew
}

// Instant is the instant of the boot clock that a deadline names, or why it names none for this process.
func Instant(d *lockagentv1.Deadline) (time.Duration, error) {
	if err := bootclock.Foreign(d.GetBootId()); err != nil {
		return 0, err
	}
	return time.Duration(d.GetBoottime()), nil
}
