package lockstate

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

// text is an event in the words of the tests.
func text(e *Event) string {
	who := string(e.Request.Owner)
	line := kindNames[e.Kind]
	switch e.Kind {
	case Requested, Queued, Reclaiming:
		line += " " + who
	case Answered:
		line += " " + who + ": " + errText(e.Err)
	case Granted, Reentered:
		line += fmt.Sprintf(" %s %d", who, e.Token)
		if e.How == lockagent.ByHandOff {
			line += " by hand-off"
		}
		if e.How == lockagent.ByRest {
			line += " by rest"
		}
		if e.Fixed != 0 {
			line += fmt.Sprintf(" until %v", time.Duration(e.Fixed))
		}
		if e.Count != 1 {
			line += fmt.Sprintf(" x%d", e.Count)
		}
	case Extended:
		line += fmt.Sprintf(" %s until %v", who, time.Duration(e.Fixed))
		if e.Fixed == 0 {
			line = "Extended " + who + ", kept"
		}
	case Ended:
		line += " " + who
		if e.Reason != 0 {
			line += ": " + e.Reason.String()
		}
		if e.Count != 0 {
			line += fmt.Sprintf(", %d left", e.Count)
		}
	case Unlocked, AskBreak:
		line += fmt.Sprintf(" %d", e.Call)
		if e.Err != nil {
			line += ": " + errText(e.Err)
		}
		if e.Reason != 0 {
			line += ": " + e.Reason.String()
		}
	case Disowning:
		line += fmt.Sprintf(" %d", e.Tenure)
	case Attempted, Renewing:
		line += " " + e.AskedLease.String()
		if e.Kind == Renewing && e.Mode == Shared {
			line += " shared"
		}
	case Returned:
		if !e.Released {
			line += ", over before"
		}
	}
	return line
}

var kindNames = [...]string{
	Requested: "Requested", Queued: "Queued", Answered: "Answered", Granted: "Granted", Reentered: "Reentered",
	Reclaiming: "Reclaiming", Ended: "Ended", Unlocked: "Unlocked", AskBreak: "AskBreak",
	Attempted: "Attempted", FoundBusy: "FoundBusy", AttemptFailed: "AttemptFailed", AttemptRefused: "AttemptRefused",
	Offered: "Offered", Began: "Began", Forgot: "Forgot",
	Renewing: "Renewing", Renewed: "Renewed", RenewFailed: "RenewFailed", Denied: "Denied",
	Rested: "Rested", Returning: "Returning", Withdrawing: "Withdrawing", Returned: "Returned", Withdrawn: "Withdrawn",
	ReleaseFailed: "ReleaseFailed", Dropped: "Dropped", Disowning: "Disowning",
	Extended: "Extended", Woke: "Woke", Contested: "Contested", BecameUncertain: "BecameUncertain", Doubted: "Doubted",
	Quieted: "Quieted", Closed: "Closed", Detached: "Detached",
}

func errText(err error) string {
	var heldErr *lockagent.HeldError
	if errors.As(err, &heldErr) {
		return fmt.Sprintf("held by %s for %v", heldErr.Holder, heldErr.Left)
	}
	for is, name := range map[error]string{
		lockagent.ErrTimeout: "timeout", lockagent.ErrClosed: "closed", lockagent.ErrSessionClosed: "session closed",
		lockagent.ErrNotHeld: "not held", lockagent.ErrNotOwner: "not owner", lockagent.ErrUnconfirmed: "unconfirmed",
		lockagent.ErrLeaseTooShort: "lease too short", lockagent.ErrStoreUnavailable: "unavailable",
		lockagent.ErrNotPermitted: "not permitted", lockagent.ErrWrongType: "wrong type",
		lockagent.ErrInternal: "internal", lockagent.ErrUpgrade: "upgrade",
	} {
		if errors.Is(err, is) {
			return name
		}
	}
	return fmt.Sprint(err)
}
