package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
)

// stateFlags are the flags of the verb state.
type stateFlags struct {
	lookFlags
	at string
}

func newEventsState() *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "state NAME",
		Short: "Show who held a lock at a time, and who waited",
		Long: `Show who held a lock at a time, and who waited for it; and what became of them.

Times are those of the agents' clocks, in the zone of this machine, which each time names. A request that was
granted at once, or within some milliseconds, is not seen to wait. A time without a zone is one of this machine, too. If its
clock shows that time twice or never, because it is set, the error says how to name the one that is meant.`,
		Example: `  lockagent events state orders/42 --at 14:03:07
  lockagent events state orders/42 --at -10m
  lockagent events state orders/42 --at 2026-11-21T14:03:07+01:00 --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: aboutLock(f.run),
	}
	cmd.Flags().StringVar(&f.at, "at", "", "the `time`: 14:03:07 (today), -10m, 2026-11-21 14:03:07, or RFC 3339; by default now")
	f.lookFlags.addFlags(cmd)
	return cmd
}

func (f *stateFlags) run(cmd *cobra.Command, name lockagent.Name) error {
	now := time.Now()
	at := now
	if f.at != "" {
		var err error
		try := again(cmd) + " --at -10m"
		if at, err = parseMoment(f.at, now); err != nil {
			return usage(try, "--at: %w", err)
		}
		if at.After(now) {
			return usage(try, "--at %s is in the future", readable.Time(at, now))
		}
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	s := lockThen{name: name, at: at}
	told := newStory(name, s.keep)
	told.gaveUp = s.gaveUp
	if err := told.read(cmd, &f.source); err != nil {
		return err
	}
	s.finish(told)
	if f.format == "json" {
		return writeJSON(cmd.OutOrStdout(), s.view())
	}
	_, err := io.WriteString(cmd.OutOrStdout(), s.text(now))
	return err
}

// lockThen is a lock at one time.
type lockThen struct {
	name    lockagent.Name
	at      time.Time
	holders []hold
	waiters []waiter
	before  *hold // that was over last
	after   *hold // that came next
}

// waiter is a request that waited.
type waiter struct {
	Owner    lockagent.Owner   `json:"owner"`
	Who      events.Who        `json:"who,omitzero"`
	Agent    lockagent.AgentID `json:"agent"`
	Process  *events.Process   `json:"process,omitempty"`
	Since    time.Time         `json:"since"`
	Until    *time.Time        `json:"until,omitempty"`     // missing: it still waits
	Behind   *events.Party     `json:"behind,omitempty"`    // who had the lock when the request was queued
	BecameOf string            `json:"became_of,omitempty"` // granted, or the kind of the event that ended it
	Error    string            `json:"error,omitempty"`
}

// keep looks at a hold that is over: was it then?
func (s *lockThen) keep(h *hold) bool {
	switch {
	case h.From.After(s.at):
		if s.after == nil || h.From.Before(s.after.From) {
			next := *h
			s.after = &next
		}
	case h.overAt(s.at):
		if s.before == nil || h.latest().After(s.before.latest()) {
			last := *h
			s.before = &last
		}
	default:
		return true
	}
	return s.waitedFor(h)
}

// waitedFor reports whether the request of a hold waited then.
func (s *lockThen) waitedFor(h *hold) bool {
	return h.From.After(s.at) && !h.From.Add(-h.Waited).After(s.at)
}

// gaveUp looks at a request that has waited in vain.
func (s *lockThen) gaveUp(r events.Record, behind *events.Party) {
	since := r.Time.Add(-r.Waited)
	if since.After(s.at) || !r.Time.After(s.at) {
		return
	}
	s.waiters = append(s.waiters, waiter{
		Owner: r.Owner, Who: events.Who{Who: r.Who}, Agent: r.Agent, Since: since, Until: moment(r.Time), Behind: behind,
		BecameOf: r.Kind.String(), Error: r.Err,
	})
}

// finish takes what was kept, and what goes on.
func (s *lockThen) finish(told *story) {
	for _, h := range told.all() {
		held := s.keep(&h)
		switch {
		case held && !h.From.After(s.at):
			s.holders = append(s.holders, h)
		case held:
			s.waiters = append(s.waiters, waiter{
				Owner: h.Owner, Who: h.Who, Agent: h.Agent, Since: h.From.Add(-h.Waited), Until: moment(h.From), Behind: h.Behind, BecameOf: lockagent.EventGranted.String(),
			})
		}
	}
	if s.before != nil {
		told.findLeft(s.before)
	}
	for _, w := range told.waiting() {
		if !w.Since.After(s.at) {
			s.waiters = append(s.waiters, waiter{Owner: w.Owner, Who: w.Who, Agent: w.Agent, Since: w.Since, Behind: w.Behind})
		}
	}
	slices.SortStableFunc(s.waiters, func(a, b waiter) int { return a.Since.Compare(b.Since) })
	for i := range s.waiters {
		if p := told.process(s.waiters[i].Agent); p != (events.Process{}) {
			s.waiters[i].Process = &p
		}
	}
}

// stateView is the JSON of a lock at one time.
type stateView struct {
	Version int            `json:"version"`
	Lock    lockagent.Name `json:"lock"`
	At      time.Time      `json:"at"`
	Holders []events.Hold  `json:"holders"`
	Waiters []waiter       `json:"waiters"`
	Before  *events.Hold   `json:"before,omitempty"` // the hold that was over last
	After   *events.Hold   `json:"after,omitempty"`  // the hold that came next
}

func (s *lockThen) view() stateView {
	v := stateView{Version: jsonVersion, Lock: s.name, At: s.at, Holders: bare(s.holders), Waiters: s.waiters}
	if v.Waiters == nil {
		v.Waiters = []waiter{} // [] rather than null
	}
	if s.before != nil {
		v.Before = &s.before.Hold
	}
	if s.after != nil {
		v.After = &s.after.Hold
	}
	return v
}

// text is the state for people.
func (s *lockThen) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n", s.name, readable.Time(s.at, now))
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", what, oneLine(fmt.Sprintf(format, args...)))
	}
	stores := make(map[string]bool)
	for i := range s.holders {
		stores[s.holders[i].Store] = true
	}
	about := func(what string, h *hold) {
		line(what, "%s, token %d, agent %s", events.WhoText(h.Who, h.Owner, h.Agent, h.Process), h.Token, events.AgentText(h.Agent, h.Process))
		if command := h.Who.Process().Command; command != "" {
			line("", "command %q", command)
		}
		if len(stores) > 1 {
			line("", "in store %s, where this name is another lock", h.Store)
		}
		line("", "%s", h.spell(now))
	}
	if len(s.holders) == 0 {
		if h := s.before; h != nil && h.Left && time.UnixMicro(int64(h.LeaseEnd())).After(s.at) {
			line("left", "nobody held it, but its lease stayed in the store")
		} else {
			line("free", "nobody held it")
		}
		if s.before != nil {
			about("before", s.before)
		}
		if s.after != nil {
			about("after", s.after)
		}
	}
	for i := range s.holders {
		about("held by", &s.holders[i])
	}
	for _, w := range s.waiters {
		var p events.Process
		if w.Process != nil {
			p = *w.Process
		}
		line("waiting", "%s, since %s, agent %s", events.WhoText(w.Who, w.Owner, w.Agent, p), readable.Time(w.Since, now), events.AgentText(w.Agent, p))
		if w.Behind != nil {
			line("", "queued behind %s", *w.Behind)
		}
		if w.Until != nil {
			line("", "%s at %s, %s later", w.BecameOf, readable.Time(*w.Until, now), readable.Duration(w.Until.Sub(s.at)))
		}
	}
	return b.String()
}

// spell is from when to when a hold was held, how it came and how it ended.
func (h *hold) spell(now time.Time) string {
	text := "from " + readable.Time(h.From, now)
	if came := h.came(); came != "" {
		text += ", " + came
	}
	if h.Until.IsZero() {
		return text + "; " + h.ended(now)
	}
	return fmt.Sprintf("%s; until %s, for %s: %s", text, readable.Time(h.Until, now), h.lasted(now), h.ended(now))
}
