package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
)

// jsonVersion is the version of the JSON that the readers of the event log write. Fields are only
// added to it.
const jsonVersion = 1

// bare returns holds as JSON has them.
func bare(holds []hold) []events.Hold {
	all := make([]events.Hold, len(holds))
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

// endName is how a hold ended. A hold in one record was released.
func endName(kind lockagent.EventKind) string {
	if kind == lockagent.EventHeld {
		kind = lockagent.EventReleased
	}
	return kind.String()
}

// agentText is an agent for people: where it runs, and the beginning of its identity.
func agentText(id lockagent.AgentID, p events.Process) string {
	text := fmt.Sprintf("%.8s", id)
	switch {
	case p.Host == "":
		return text
	case p.Program == "":
		return fmt.Sprintf("%s on %s, pid %d", text, p.Host, p.PID)
	}
	return fmt.Sprintf("%s, %s on %s, pid %d", text, p.Program, p.Host, p.PID)
}

// ownerText is an owner for people, without what an agent made of its own identity.
func ownerText(owner lockagent.Owner, agent lockagent.AgentID) string {
	if number, ok := strings.CutPrefix(string(owner), string(agent)+"/"); ok {
		return "/" + number
	}
	return fmt.Sprintf("%q", owner)
}

// hold is a hold for people.
type hold struct {
	events.Hold
	over bool // it has ended, even if the log does not say how
}

// came is how the hold came.
func (h *hold) came() string {
	text := map[lockagent.How]string{lockagent.ByStore: "from the store", lockagent.ByHandOff: "handed off"}[h.How]
	if h.Waited > 0 {
		text += " after " + readable.Duration(h.Waited)
	}
	return strings.TrimSpace(text)
}

// ended is how the hold ended, or why it is not known to have ended.
func (h *hold) ended(now time.Time) string {
	switch {
	case h.Ended == lockagent.EventBroken && h.Operator != "":
		return "broken by " + h.Operator
	case h.Ended != 0 && h.Reason != 0:
		return fmt.Sprintf("%s (%s)", endName(h.Ended), h.Reason)
	case h.Ended != 0:
		return endName(h.Ended)
	case h.over:
		return "over; its end is missing in the log"
	case h.Gone:
		return "its agent ended without a release"
	case !h.Uncertain.IsZero():
		return "held; no renewal since " + readable.Time(h.Uncertain, now)
	}
	return "held"
}

// lasted is for how long the hold was held, until it ended or now.
func (h *hold) lasted(now time.Time) string {
	switch {
	case h.Ended != 0:
		return readable.Duration(h.Held)
	case h.over || h.Gone:
		return "?"
	}
	return readable.Duration(now.Sub(h.From))
}

// endedBefore reports whether the hold was over at t. What has no end in the log was not.
func (h *hold) endedBefore(t time.Time) bool { return !h.Until.IsZero() && h.Until.Before(t) }
