package eventscmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventtext"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/fold"
)

// bare returns holds as JSON has them.
func bare(holds []hold) []fold.Hold {
	all := make([]fold.Hold, len(holds))
	for i := range holds {
		all[i] = holds[i].Hold
	}
	return all
}

// moment is nil for the zero time, which JSON then leaves out.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// hold is a hold for people.
type hold struct {
	fold.Hold
	seen time.Time // of a hold that goes on: the last event of its agent
}

// silence is how long an agent that runs says nothing at most: it says every ten seconds that it
// is alive.
const silence = 30 * time.Second

func (h *hold) silent(now time.Time) bool { return !h.seen.IsZero() && now.Sub(h.seen) > silence }

// came is how the hold came.
func (h *hold) came() string {
	text := map[lockagent.How]string{
		lockagent.ByStore: "from the store", lockagent.ByHandOff: "handed off", lockagent.ByRest: "from a rest",
	}[h.How]
	if h.Waited > 0 {
		text += " after " + readable.Duration(h.Waited)
	}
	if h.Behind != nil {
		text += " behind " + eventtext.PartyText(*h.Behind)
	}
	return strings.TrimSpace(text)
}

// ended is how the hold ended, or why it is not known to have ended.
func (h *hold) ended(now time.Time) string {
	switch {
	case h.Ended == lockagent.EventBroken && h.Operator != "":
		return "broken by " + h.Operator
	case h.Left:
		return fmt.Sprintf("%s (%s)%s", h.Ended, h.Reason, h.leaseEnds(now))
	case h.Ended != 0 && h.Reason != 0:
		return fmt.Sprintf("%s (%s)", h.Ended, h.Reason)
	case h.Ended != 0:
		return h.Ended.String()
	case h.Superseded && h.End == 0:
		return "over; its end is missing in the log"
	case h.Superseded:
		return "over by " + readable.Time(h.latest(), now) + "; its end is missing in the log"
	case h.Gone:
		return "its agent ended without a release" + h.leaseEnds(now)
	case h.silent(now):
		return "its agent is silent since " + readable.Time(h.seen, now) + h.leaseEnds(now)
	case h.Fixed:
		return "held" + h.leaseEnds(now)
	case !h.Uncertain.IsZero():
		return "held; no renewal since " + readable.Time(h.Uncertain, now)
	}
	return "held"
}

// leaseEnds is when the lease ends, if the log says it.
func (h *hold) leaseEnds(now time.Time) string {
	store := h.LeaseEnd()
	if store == 0 {
		return ""
	}
	end, ends := time.UnixMicro(int64(store)), "ends"
	if end.Before(now) {
		ends = "ended"
	}
	return fmt.Sprintf(", its lease %s at %s", ends, readable.Time(end, now))
}

// lasted is for how long the hold was held, until it ended or now.
func (h *hold) lasted(now time.Time) string {
	switch {
	case h.Ended != 0:
		return readable.Duration(h.Held)
	case h.Superseded || h.Gone:
		return "?"
	}
	return readable.Duration(now.Sub(h.From))
}

// latest is when the hold was over at the latest, or zero if it goes on. Nobody knows how long a hold
// lasted of which the log says nothing but that it is over.
func (h *hold) latest() time.Time {
	switch {
	case !h.Until.IsZero():
		return h.Until
	case h.Superseded && h.End != 0:
		return time.UnixMicro(int64(h.End))
	case h.Superseded:
		return h.From
	}
	return time.Time{}
}

// overAt reports whether the hold was over at t.
func (h *hold) overAt(t time.Time) bool {
	end := h.latest()
	return !end.IsZero() && !end.After(t)
}

// heldWithin reports whether the hold was held at some time from since on, and until then.
func (h *hold) heldWithin(since, until time.Time) bool {
	return !h.From.After(until) && (since.IsZero() || !h.overAt(since))
}
