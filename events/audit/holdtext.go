package audit

import (
	"fmt"
	"strings"
)

// String tells who held what from when to when, in one line.
func (h Hold) String() string { return h.holder() + ", " + h.record() }

// holder is the owner, the token and the agent.
func (h *Hold) holder() string {
	permits := ""
	if h.Permits > 1 {
		permits = plural(h.Permits, "", "permits, ")
	}
	return fmt.Sprintf("%s, %stoken %d, agent %s", WhoText(h.Who, h.Owner, h.Agent, h.Process), permits, h.Token, AgentText(h.Agent, h.Process))
}

// record is from when to when, how it ended, and the record that tells of it.
func (h *Hold) record() string {
	return fmt.Sprintf("%s [%s:%d:%d]", h.lasted(), h.Agent, h.Epoch, h.Seq)
}

// lasted is from when to when, and how it ended.
func (h *Hold) lasted() string {
	var b strings.Builder
	over := h.Ended != 0 && !h.Until.IsZero()
	switch {
	case !h.From.IsZero() && over:
		b.WriteString(rangeText(h.From, h.Until))
	case !h.From.IsZero():
		b.WriteString("from " + wallText(h.From))
	case h.Start != 0 && h.Ended != 0 && h.End > h.Start:
		b.WriteString(rangeText(storeWall(h.Start), storeWall(h.End)) + " on the clock of the store")
	case h.Start != 0:
		b.WriteString("from " + storeText(h.Start) + " on the clock of the store")
	case over:
		b.WriteString("to " + wallText(h.Until))
	default:
		b.WriteString("at an unknown time")
	}
	if h.Held > 0 {
		fmt.Fprintf(&b, " (%s)", durationText(h.Held))
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
		fmt.Fprintf(&b, " by %s", plainText(h.Operator))
	}
	return b.String()
}
