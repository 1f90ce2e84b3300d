package fold

import (
	"fmt"
	"strings"

	"github.com/lockagent/lockagent/events/internal/show"
)

// String tells who held what from when to when, in one line.
func (h Hold) String() string { return h.Holder() + ", " + h.Record() }

// Holder names the owner, the token and the agent, for people.
func (h *Hold) Holder() string {
	permits := ""
	if h.Permits > 1 {
		permits = show.Plural(h.Permits, "", "permits, ")
	}
	return fmt.Sprintf(
		"%s, %stoken %d, agent %s", WhoText(h.Who, h.Owner, h.Agent, h.Process), permits, h.Token,
		AgentText(h.Agent, h.Process),
	)
}

// Record says from when to when, how it ended, and the record that tells of it.
func (h *Hold) Record() string {
	return fmt.Sprintf("%s [%s:%d:%d]", h.Lasted(), h.Agent, h.Epoch, h.Seq)
}

// Lasted says from when to when, and how it ended.
func (h *Hold) Lasted() string {
	var b strings.Builder
	over := h.Ended != 0 && !h.Until.IsZero()
	switch {
	case !h.From.IsZero() && over:
		b.WriteString(show.Range(h.From, h.Until))
	case !h.From.IsZero():
		b.WriteString("from " + show.Wall(h.From))
	case h.Start != 0 && h.Ended != 0 && h.End > h.Start:
		b.WriteString(show.Range(show.StoreWall(h.Start), show.StoreWall(h.End)) + " on the clock of the store")
	case h.Start != 0:
		b.WriteString("from " + show.Store(h.Start) + " on the clock of the store")
	case over:
		b.WriteString("to " + show.Wall(h.Until))
	default:
		b.WriteString("at an unknown time")
	}
	if h.Held > 0 {
		fmt.Fprintf(&b, " (%s)", show.Duration(h.Held))
	}
	switch {
	case h.Ended != 0 && h.Reason != 0:
		fmt.Fprintf(&b, ", %s (%s)", h.Ended, h.Reason)
	case h.Ended != 0:
		fmt.Fprintf(&b, ", %s", h.Ended)
	case h.Gone:
		b.WriteString(", its agent is gone without a release")
	}
	if h.Operator != "" {
		fmt.Fprintf(&b, " by %s", show.Plain(h.Operator))
	}
	return b.String()
}
