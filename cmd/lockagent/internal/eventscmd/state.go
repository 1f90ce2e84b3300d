package eventscmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// stateFlags are the flags of the verb state.
type stateFlags struct {
	lookFlags
	atFlag
}

// atFlag is the time at which a verb looks: a moment, or a stretch of time.
type atFlag struct {
	at     string
	during cli.TimeRange
}

func (f *atFlag) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "at", "", "the `time`: "+cli.MomentForms+"; by default now")
	f.during.AddFlags(cmd, "who held it, or waited,")
}

// when returns from when until when to look. Both are the same for a moment.
func (f *atFlag) when(cmd *cobra.Command, now time.Time) (since, until time.Time, err error) {
	if err := f.during.Check(cmd, now); err != nil {
		return now, now, err
	}
	try := cli.Again(cmd) + " --at 10m"
	switch {
	case f.at != "" && f.during.Asked():
		return now, now, cli.Usage(try, "--at and --since or --until exclude each other")
	case f.during.Asked():
		return f.during.Since, f.during.End(now), nil
	case f.at == "":
		return now, now, nil
	}
	at, err := cli.ParseMoment(f.at, now)
	switch {
	case err != nil:
		return now, now, cli.Usage(try, "--at: %w", err)
	case at.After(now):
		return now, now, cli.Usage(try, "--at %s is in the future", readable.Time(at, now))
	}
	return at, at, nil
}

func newState() *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "state NAME",
		Short: "Show who held a lock at a time, and who waited",
		Long: `Show who held a lock at a time, and who waited for it; and what became of them. With --since
and --until show all who held it at some time from then until then, or waited for it.

Times are those of the agents' clocks, in the zone of this machine, which each time names. A request that was granted at
once, or within some milliseconds, is not seen to wait. A time without a zone is one of this machine, too. If its clock
shows that time twice or never, because it is set, the error says how to name the one that is meant.`,
		Example: `  lockagent events state orders/42 --at 14:03:07
  lockagent events state orders/42 --at 10m
  lockagent events state orders/42 --since '2026-11-24 14:00' --until '2026-11-24 15:00'
  lockagent events state orders/42 --at 2026-11-21T14:03:07+01:00 --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: cli.AboutLock(f.run),
	}
	f.atFlag.addFlags(cmd)
	f.lookFlags.addFlags(cmd)
	return cmd
}

func (f *stateFlags) run(cmd *cobra.Command, name lockagent.Name) error {
	now := time.Now()
	since, until, err := f.when(cmd, now)
	if err != nil {
		return err
	}
	if err := checkLock(cmd, name); err != nil {
		return err
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	s := lockThen{name: name, since: since, until: until}
	told := newStory(name, s.keep)
	told.gaveUp = s.gaveUp
	if err := told.read(cmd, &f.source); err != nil {
		return err
	}
	s.finish(told)
	if f.format == "json" {
		return cli.WriteJSON(cmd.OutOrStdout(), s.view())
	}
	_, err = io.WriteString(cmd.OutOrStdout(), s.text(now))
	return err
}

// lockThen is a lock, or all that a pattern selects, from one time until another one. Both are the same for a moment.
type lockThen struct {
	name    lockagent.Name
	since   time.Time
	until   time.Time
	holders []hold
	waiters []waiter
	before  *hold // that was over last
	after   *hold // that came next
}

// waiter is a request that waited.
type waiter struct {
	lock     lockagent.Name
	Owner    lockagent.Owner   `json:"owner"`
	Who      fold.Who          `json:"who,omitzero"`
	Agent    lockagent.AgentID `json:"agent"`
	Process  *fold.Process     `json:"process,omitempty"`
	Since    time.Time         `json:"since"`
	Until    *time.Time        `json:"until,omitempty"`     // missing: it still waits
	Behind   *fold.Party       `json:"behind,omitempty"`    // who had the lock when the request was queued
	BecameOf string            `json:"became_of,omitempty"` // granted, or the kind of the event that ended it
	Error    string            `json:"error,omitempty"`
}

// keep looks at a hold that is over: was it then?
func (s *lockThen) keep(h *hold) bool {
	switch {
	case h.heldWithin(s.since, s.until):
		return true
	case h.From.After(s.until):
		if s.after == nil || h.From.Before(s.after.From) {
			next := *h
			s.after = &next
		}
	default:
		if s.before == nil || h.latest().After(s.before.latest()) {
			last := *h
			s.before = &last
		}
	}
	return s.waitedFor(h)
}

// waitedFor reports whether the request of a hold waited then.
func (s *lockThen) waitedFor(h *hold) bool {
	return h.Waited > 0 && h.From.After(s.since) && !h.From.Add(-h.Waited).After(s.until)
}

// gaveUp looks at a request that has waited in vain.
func (s *lockThen) gaveUp(r events.Record, behind *fold.Party) {
	since := r.Time.Add(-r.Waited)
	if since.After(s.until) || !r.Time.After(s.since) {
		return
	}
	s.waiters = append(s.waiters, waiter{
		lock: r.Lock, Owner: r.Owner, Who: fold.Who{Who: r.Who}, Agent: r.Agent, Since: since, Until: moment(r.Time),
		Behind: behind, BecameOf: r.Kind.String(), Error: r.Err,
	})
}

// finish takes what was kept, and what goes on.
func (s *lockThen) finish(told *story) {
	for _, h := range told.all() {
		if s.keep(&h) && !h.From.After(s.until) {
			s.holders = append(s.holders, h)
		}
		if s.waitedFor(&h) {
			s.waiters = append(s.waiters, waiter{
				lock: h.Lock, Owner: h.Owner, Who: h.Who, Agent: h.Agent, Since: h.From.Add(-h.Waited), Until: moment(h.From),
				Behind:   h.Behind,
				BecameOf: lockagent.EventGranted.String(),
			})
		}
	}
	if s.before != nil {
		s.before.Left = s.before.Left || told.left()[leaseOf(&s.before.Hold)]
	}
	for l := range told.fold.Locks() {
		for _, w := range l.Waiters {
			if !w.Since.After(s.until) {
				s.waiters = append(s.waiters, waiter{
					lock: l.Lock, Owner: w.Owner, Who: w.Who, Agent: w.Agent, Since: w.Since, Behind: w.Behind,
				})
			}
		}
	}
	slices.SortStableFunc(
		s.waiters, func(a, b waiter) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.lock, b.lock)) },
	)
	for i := range s.waiters {
		if p := told.process(s.waiters[i].Agent); p != (fold.Process{}) {
			s.waiters[i].Process = &p
		}
	}
}

// moment reports whether it is one moment, and not a stretch of time.
func (s *lockThen) moment() bool { return s.since.Equal(s.until) }

// when is the time, for people.
func (s *lockThen) when(now time.Time) string {
	during := cli.TimeRange{Since: s.since, Until: s.until}
	if s.moment() {
		return " at " + readable.Time(s.until, now)
	}
	return during.Text(now)
}

// StateView is the JSON of a lock at one time, or in a stretch of time.
type StateView struct {
	Version int            `json:"version"`
	Lock    lockagent.Name `json:"lock"`
	At      time.Time      `json:"at,omitzero"`
	Since   time.Time      `json:"since,omitzero"`
	Until   time.Time      `json:"until,omitzero"`
	Holders []fold.Hold    `json:"holders"`
	Waiters []waiter       `json:"waiters"`
	Before  *fold.Hold     `json:"before,omitempty"` // the hold that was over last
	After   *fold.Hold     `json:"after,omitempty"`  // the hold that came next
}

func (s *lockThen) view() StateView {
	v := StateView{Version: cli.JSONVersion, Lock: s.name, Holders: bare(s.holders), Waiters: s.waiters}
	if v.Since, v.Until = s.since, s.until; s.moment() {
		v.At, v.Since, v.Until = s.until, time.Time{}, time.Time{}
	}
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
	fmt.Fprintf(&b, "%s%s\n", cli.OneLine(string(s.name)), s.when(now))
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", what, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	stores := make(map[string]bool)
	for i := range s.holders {
		stores[s.holders[i].Store] = true
	}
	about := func(what string, h *hold) {
		line(
			what, "%s, token %d, agent %s", fold.WhoText(h.Who, h.Owner, h.Agent, h.Process), h.Token,
			fold.AgentText(h.Agent, h.Process),
		)
		if command := h.Who.Process().Command; command != "" {
			line("", "command %q", command)
		}
		if len(stores) > 1 {
			line("", "in store %s, where this name is another lock", h.Store)
		}
		line("", "%s", h.spell(now))
	}
	if len(s.holders) == 0 {
		if h := s.before; h != nil && h.Left && time.UnixMicro(int64(h.LeaseEnd())).After(s.until) {
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
		var p fold.Process
		if w.Process != nil {
			p = *w.Process
		}
		line(
			"waiting", "%s, since %s, agent %s", fold.WhoText(w.Who, w.Owner, w.Agent, p), readable.Time(w.Since, now),
			fold.AgentText(w.Agent, p),
		)
		if w.Behind != nil {
			line("", "queued behind %s", *w.Behind)
		}
		if w.Until != nil {
			if s.moment() {
				line("", "%s at %s, %s later", w.BecameOf, readable.Time(*w.Until, now), readable.Duration(w.Until.Sub(s.until)))
			} else {
				line("", "%s at %s, after %s", w.BecameOf, readable.Time(*w.Until, now), readable.Duration(w.Until.Sub(w.Since)))
			}
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
