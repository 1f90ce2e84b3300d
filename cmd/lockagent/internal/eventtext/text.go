package eventtext

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// eventTexts makes lines of the events of a log, in their order. It knows what the earlier ones told.
type eventTexts struct{ fold *fold.Fold }

// New returns what makes lines of events. Unless these are all events of their locks, it cannot tell which
// holds are over, so it remembers none.
func New(all bool) *eventTexts {
	t := &eventTexts{}
	if all {
		t.fold = fold.New()
	}
	return t
}

// Line is an event on a line, for people.
func (t *eventTexts) Line(r events.Record, now time.Time) string {
	holder := holderText(&r)
	if t.fold != nil {
		for _, c := range t.fold.Apply(r) {
			if behind := c.Waiter.Behind; c.Kind == fold.RequestWaits && behind != nil && behind.Agent != "" {
				holder = PartyText(*behind)
			}
			if h := c.Hold; h != nil && r.Who.IsZero() && h.Agent == r.Agent && h.Owner == r.Owner {
				r.Who = h.Who.Who // of an event about a hold that names no request
			}
		}
	}
	var process fold.Process
	if t.fold != nil {
		agent, _ := t.fold.Agent(r.Agent)
		process = agent.Process
	}
	return eventText(&r, process, holder, now)
}

// eventText is an event on a line, for people. process is that of its agent if it is known, and holder is who has the
// lock that a request waits for.
func eventText(r *events.Record, process fold.Process, holder string, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s #%-6d  %-12s", readable.Time(r.Time, now), fold.ShortAgent(r.Agent), r.Seq, r.Kind)
	field := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format, args...) }
	if r.Lock != "" {
		field("%s", r.Lock)
	}
	if r.Token != 0 {
		field("token %d", r.Token)
	}
	if r.How != 0 {
		field("by %s", r.How)
	}
	// The process is enough if it is another one than that of the agent, as with a daemon.
	ofAnother := process != (fold.Process{}) && !fold.Who{Who: r.Who}.Is(process)
	if !r.Who.IsZero() && (ofAnother || process == fold.Process{}) {
		field("%s", r.Who)
	}
	if r.Owner != "" && (r.Who.IsZero() || !ofAnother) {
		field("owner %s", fold.OwnerText(r.Owner, r.Agent))
	}
	if command := r.Who.Process().Command; command != "" {
		field("command %q", command)
	}
	if r.Waited != 0 {
		field("waited %s", readable.Duration(r.Waited))
	}
	if r.Held != 0 {
		field("held %s", readable.Duration(r.Held))
	}
	if r.Count > 1 && r.Kind != lockagent.EventAlive {
		field("%d grants", r.Count)
	}
	if r.Op != "" {
		field("%s", r.Op)
	}
	if r.Permits != 0 {
		field("%s", readable.Counted(r.Permits, "permit", "permits"))
	}
	if r.Total != 0 {
		field("of %d", r.Total)
	}
	if r.Permit != "" {
		field("id %s", r.Permit)
	}
	if r.Replicas != 0 {
		field("on %s", readable.Counted(r.Replicas, "replica", "replicas"))
	}
	if r.Holds != 0 {
		field("for %s", readable.Counted(r.Holds, "hold", "holds"))
	}
	if r.Waiters != 0 {
		field("%d waiting", r.Waiters)
	}
	if r.Holder != "" {
		field("behind %s", holder)
	}
	if r.Remaining != 0 {
		field("trusted for %s", readable.Duration(r.Remaining))
	}
	if r.Reason != 0 {
		field("reason %s", r.Reason)
	}
	if r.Operator != "" {
		field("by operator %q", r.Operator)
	}
	aboutAgent(r, field)
	if r.Err != "" {
		field("error %q", r.Err)
	}
	return cli.OneLine(b.String())
}

// holderText is the holder that a request found, as far as its own event tells: that does not say which owner has a
// tenure of another agent.
func holderText(r *events.Record) string {
	if t, ok := lockagent.ParseTenure(r.Holder); ok {
		return "agent " + fold.ShortAgent(t.Agent)
	}
	return fold.OwnerText(lockagent.Owner(r.Holder), r.Agent)
}

// aboutAgent writes what an event says of its agent or of the store.
func aboutAgent(r *events.Record, field func(format string, args ...any)) {
	switch r.Kind {
	case lockagent.EventAgentStarted:
		field("agent %s", r.Agent)
		if p := r.Process; p.Host != "" {
			field("%s on %s, pid %d", p.Program, p.Host, p.PID)
		}
	case lockagent.EventAlive:
		field("%s", readable.Counted(r.Count, "grant", "grants"))
	case lockagent.EventStoreReset:
		field("%s, from %s to %s", r.Reset.Reason, r.Reset.From, r.Reset.To)
	case lockagent.EventGraceBegan, lockagent.EventGraceEnded:
		if r.Grace != nil {
			aboutGrace(r.Kind, r.Grace, field)
		}
	case lockagent.EventDropped:
		for kind, n := range r.Dropped {
			if n > 0 {
				field("%d %s", n, lockagent.EventKind(kind))
			}
		}
	case 0:
		field("%s", r.Raw)
	}
}

// mostMissing is how many agents are named that did not come back.
const mostMissing = 3

// aboutGrace writes what an event says of a grace period.
func aboutGrace(kind lockagent.EventKind, g *lockagent.GracePeriod, field func(format string, args ...any)) {
	agents := len(g.Roll) + g.More
	field("%s, of %s", g.Reason, g.Incarnation)
	if kind == lockagent.EventGraceBegan {
		field("for %s", readable.Counted(agents, "agent", "agents"))
		return
	}
	field("after %s", readable.Duration(g.Ended.Sub(g.Began)))
	switch {
	case agents == 0:
		field("all came back")
	case agents <= mostMissing && g.More == 0:
		var names []string
		for _, agent := range g.Roll {
			names = append(names, fold.ShortAgent(agent))
		}
		field("without %s", strings.Join(names, ", "))
	default:
		field("without %d agents", agents)
	}
}

// PartyText is who has a lock, and its agent, where there is little room.
func PartyText(p fold.Party) string {
	text := "agent"
	switch {
	case !p.Who.IsZero() && !p.Who.Is(p.Process):
		return p.Who.String()
	case p.Agent == "":
		return fold.OwnerText(p.Owner, "")
	case p.Owner != "":
		text = fold.OwnerText(p.Owner, p.Agent) + " of"
	}
	text += " " + fold.ShortAgent(p.Agent)
	if p.Process.Host != "" {
		text += " on " + p.Process.Host
	}
	return text
}
