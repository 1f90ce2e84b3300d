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

// holdView is a hold in the JSON of the readers.
type holdView struct {
	events.LockKey
	Mode    lockagent.Mode    `json:"mode,omitempty"`
	Owner   lockagent.Owner   `json:"owner"`
	Agent   lockagent.AgentID `json:"agent"`
	Process *events.Process   `json:"process,omitempty"`
	Token   lockagent.Token   `json:"token"`

	How      string     `json:"how,omitempty"` // "store" or "handoff"
	WaitedUS int64      `json:"waited_us"`
	From     time.Time  `json:"from"`
	Until    *time.Time `json:"until,omitempty"` // missing: the log has no end
	HeldUS   int64      `json:"held_us,omitempty"`

	Ended    string `json:"ended,omitempty"` // the kind of the event that ended it
	Reason   string `json:"reason,omitempty"`
	Operator string `json:"operator,omitempty"`
	Error    string `json:"error,omitempty"`

	Uncertain *time.Time `json:"uncertain,omitempty"` // since when renewals fail
	Gone      bool       `json:"gone,omitempty"`      // so is its agent
}

func viewOf(h *events.Hold) holdView {
	v := holdView{
		LockKey: h.LockKey, Mode: h.Mode, Owner: h.Owner, Agent: h.Agent, Token: h.Token,
		How: h.How.String(), WaitedUS: h.Waited.Microseconds(), From: h.From, Until: moment(h.Until), HeldUS: h.Held.Microseconds(),
		Reason: reasonText(h.Reason), Operator: h.Operator, Error: h.Err, Uncertain: moment(h.Uncertain), Gone: h.Gone,
	}
	if h.Process != (events.Process{}) {
		v.Process = &h.Process
	}
	if h.Ended != 0 {
		v.Ended = endName(h.Ended)
	}
	return v
}

func viewsOf(holds []hold) []holdView {
	views := make([]holdView, len(holds))
	for i := range holds {
		views[i] = viewOf(&holds[i].Hold)
	}
	return views
}

// moment is nil for the zero time, which JSON then leaves out.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func reasonText(r lockagent.LossReason) string {
	if r == 0 {
		return ""
	}
	return r.String()
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
