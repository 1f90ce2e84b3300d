package eventscmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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

// eventsTopFlags are the flags of the verb top.
type eventsTopFlags struct {
	lookFlags
	during cli.TimeRange
	lock   string
	limit  int
}

func newTop() *cobra.Command {
	var f eventsTopFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what was waited for, held and lost the most",
		Long: `Show the locks that were waited for the longest, the longest waits, the longest holds,
and from which hosts how many holds were lost.

--since and --until select a stretch of time, by the clocks of the agents. A wait counts if it ended in the stretch. A
wait that went on at the end of the stretch counts up to there. A loss counts if it was in the stretch. A hold counts if
an owner had it at some time in the stretch.

The verb counts the waits of 20,000 locks at most. If programs waited for more locks, the verb forgets the locks with
the shortest waits so far. Then its output says that some locks may be missing.`,
		Example: `  lockagent events top --since 1h
  lockagent events top --since yesterday --until today --lock 'billing/>' --limit 3
  lockagent events top --since 24h --format jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.during.AddFlags(cmd, "what happened")
	cmd.Flags().StringVar(&f.lock, "lock", "", patternUsage)
	cmd.Flags().IntVar(&f.limit, "limit", 10, "this `number` of rows of each list")
	f.lookFlags.addFlags(cmd, "jsonl")
	return cmd
}

func (f *eventsTopFlags) run(cmd *cobra.Command) (err error) {
	now := time.Now()
	filter, err := parsePattern(cmd, f.lock)
	if err != nil {
		return err
	}
	if f.limit <= 0 {
		return cli.Usage(cli.Again(cmd)+" --limit 10", "--limit must be at least 1, not %d", f.limit)
	}
	if err := errors.Join(f.during.Check(cmd, now), f.check(cmd)); err != nil {
		return err
	}
	log, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	t := newTopList(filter, f.during.Since, f.during.End(now), f.limit)
	// All of it: what goes on in that time may have begun long before.
	if err := log.replay(cmd.Context(), startAt{}, events.Filter{}, t.visit); err != nil {
		return err
	}
	t.finish()
	if t.empty() {
		what := "the event log has nothing that was waited for, held or lost" + f.during.Text(now)
		try := "lockagent events top" + f.place()
		switch {
		case f.lock != "":
			what += fmt.Sprintf(", of locks such as %q", f.lock)
		case !f.during.Asked():
			try = "lockagent demo --keep demo.log"
		}
		return log.nothing(what, try)
	}
	log.warn()
	view := t.view(&f.during)
	switch f.format {
	case "json":
		return cli.WriteJSON(cmd.OutOrStdout(), view)
	case "jsonl":
		return cli.WriteLines(cmd.OutOrStdout(), view.lines())
	}
	_, err = io.WriteString(cmd.OutOrStdout(), view.text(now, f.during.Text(now)))
	return err
}

// mostLoads bounds the locks that were waited for. If there are twice as many, the half that was waited for the least
// is forgotten.
const mostLoads = 10_000

// topList is what was waited for, held and lost the most in a stretch of time. Its memory is bounded by what goes on at
// once, by the bound above, and by the number of hosts.
type topList struct {
	filter       events.Filter
	since, until time.Time
	limit        int

	fold   *fold.Fold
	loads  map[lockagent.Name]*lockLoad
	forgot bool // some of the loads
	waits  []waitRow
	holds  []holdRow
	losses map[string]*lossRow // by host
}

// lockLoad is how much a lock was waited for.
type lockLoad struct {
	Lock    lockagent.Name `json:"lock"`
	Waits   int            `json:"waits"`
	GaveUp  int            `json:"gave_up"` // of the waits: those that were in vain
	Waited  time.Duration  `json:"-"`
	Longest time.Duration  `json:"-"`

	WaitedUS  int64 `json:"waited_us"`
	LongestUS int64 `json:"longest_us"`
}

// waitRow is a request that waited.
type waitRow struct {
	Lock     lockagent.Name    `json:"lock"`
	Owner    lockagent.Owner   `json:"owner,omitempty"`
	Who      fold.Who          `json:"who,omitzero"`
	Agent    lockagent.AgentID `json:"agent"`
	Process  fold.Process      `json:"process,omitzero"`
	Since    time.Time         `json:"since"`
	WaitedUS int64             `json:"waited_us"`

	// BecameOf is granted, or the kind of the event that ended the request. It is missing while the request waits.
	BecameOf string `json:"became_of,omitempty"`

	waited time.Duration
}

// holdRow is a hold, and for how long it was held up to the end of the time.
type holdRow struct {
	Hold   fold.Hold `json:"hold"`
	HeldUS int64     `json:"held_us"`

	held time.Duration
}

// lossRow is how many holds were lost on a host.
type lossRow struct {
	Host    string         `json:"host,omitempty"` // empty if the log does not tell it
	Losses  int            `json:"losses"`
	Reasons map[string]int `json:"reasons"`
}

func newTopList(filter events.Filter, since, until time.Time, limit int) *topList {
	return &topList{
		fold: fold.New(), filter: filter, since: since, until: until, limit: limit,
		loads: make(map[lockagent.Name]*lockLoad), losses: make(map[string]*lossRow),
	}
}

// within reports whether something happened in the time.
func (t *topList) within(at time.Time) bool { return !at.Before(t.since) && !at.After(t.until) }

func (t *topList) visit(r *events.Record, err error) error {
	if err != nil || r.Lock != "" && !t.filter.Match(r) {
		return nil // the audit tells of what is no event
	}
	switch r.Kind {
	case lockagent.EventGranted, lockagent.EventHeld:
		t.waited(r, lockagent.EventGranted)
	case lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
		t.waited(r, r.Kind)
	}
	for _, c := range t.fold.Apply(*r) {
		if c.Kind == fold.HoldEnded || c.Kind == fold.HoldForgotten {
			t.ended(hold{Hold: *c.Hold})
		}
	}
	return nil
}

// waited notes a request that has waited, and what became of it.
func (t *topList) waited(r *events.Record, became lockagent.EventKind) {
	w := waitRow{
		Lock: r.Lock, Owner: r.Owner, Who: fold.Who{Who: r.Who}, Agent: r.Agent, Since: r.Time.Add(-r.Waited),
		BecameOf: became.String(), waited: r.Waited,
	}
	if r.Time.After(t.until) { // it went on then
		w.BecameOf, w.waited = "", t.until.Sub(w.Since)
	}
	if w.waited > 0 && !r.Time.Before(t.since) {
		t.addWait(w)
	}
}

func (t *topList) addWait(w waitRow) {
	l := t.loads[w.Lock]
	if l == nil {
		if len(t.loads) >= 2*mostLoads {
			t.forgetLoads()
		}
		l = &lockLoad{Lock: w.Lock}
		t.loads[w.Lock] = l
	}
	l.Waits++
	l.Waited += w.waited
	l.Longest = max(l.Longest, w.waited)
	if w.BecameOf != "" && w.BecameOf != lockagent.EventGranted.String() {
		l.GaveUp++
	}
	if a, known := t.fold.Agent(w.Agent); known {
		w.Process = a.Process
	}
	w.WaitedUS = w.waited.Microseconds()
	t.waits = keepMost(t.waits, w, t.limit, func(a, b waitRow) int {
		return cmp.Or(cmp.Compare(b.waited, a.waited), a.Since.Compare(b.Since), cmp.Compare(a.Lock, b.Lock))
	})
}

// forgetLoads forgets the locks that were waited for the least.
func (t *topList) forgetLoads() {
	t.forgot = true
	for _, l := range t.sortedLoads()[mostLoads:] {
		delete(t.loads, l.Lock)
	}
}

// sortedLoads are all loads, the greatest first.
func (t *topList) sortedLoads() []*lockLoad {
	return slices.SortedFunc(maps.Values(t.loads), func(a, b *lockLoad) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Waits, a.Waits), cmp.Compare(a.Lock, b.Lock))
	})
}

// ended notes a hold that is over.
func (t *topList) ended(h hold) {
	t.held(h, min(h.Held, t.until.Sub(h.From)))
	switch h.Ended {
	case 0, lockagent.EventReleased, lockagent.EventHeld:
		return
	}
	if !t.within(h.Until) {
		return
	}
	row := t.losses[h.Process.Host]
	if row == nil {
		row = &lossRow{Host: h.Process.Host, Reasons: make(map[string]int)}
		t.losses[row.Host] = row
	}
	why := h.Ended.String()
	if h.Reason != 0 {
		why = h.Reason.String()
	}
	row.Losses++
	row.Reasons[why]++
}

// held notes a hold that was held for so long.
func (t *topList) held(h hold, held time.Duration) {
	if held <= 0 || !h.heldWithin(t.since, t.until) {
		return
	}
	row := holdRow{Hold: h.Hold, HeldUS: held.Microseconds(), held: held}
	t.holds = keepMost(t.holds, row, t.limit, func(a, b holdRow) int {
		return cmp.Or(cmp.Compare(b.held, a.held), a.Hold.From.Compare(b.Hold.From), cmp.Compare(a.Hold.Lock, b.Hold.Lock))
	})
}

// keepMost adds one to the first few in an order.
func keepMost[T any](all []T, one T, most int, compare func(a, b T) int) []T {
	i, _ := slices.BinarySearchFunc(all, one, compare)
	if i >= most {
		return all
	}
	all = slices.Insert(all, i, one)
	return all[:min(len(all), most)]
}

// finish notes what goes on.
func (t *topList) finish() {
	for l := range t.fold.Locks() {
		for _, w := range l.Waiters {
			if waited := t.until.Sub(w.Since); waited > 0 {
				t.addWait(waitRow{
					Lock: l.Lock, Owner: w.Owner, Who: w.Who, Agent: w.Agent, Since: w.Since, waited: waited,
				})
			}
		}
		for _, h := range l.Now() {
			t.held(hold{Hold: h}, t.until.Sub(h.From))
		}
	}
}

func (t *topList) empty() bool { return len(t.loads)+len(t.holds)+len(t.losses) == 0 }

// TopView is the JSON of the lists.
type TopView struct {
	Version int        `json:"version"`
	Since   time.Time  `json:"since,omitzero"`
	Until   time.Time  `json:"until,omitzero"`
	Locks   []lockLoad `json:"locks"`
	Waits   []waitRow  `json:"waits"`
	Holds   []holdRow  `json:"holds"`
	Losses  []lossRow  `json:"losses"`

	// Forgot says that some locks were forgotten that were waited for the least: others may be in their place.
	Forgot bool `json:"forgot,omitempty"`
}

func (t *topList) view(during *cli.TimeRange) TopView {
	v := TopView{
		Version: cli.JSONVersion, Since: during.Since, Until: during.Until, Forgot: t.forgot,
		Locks: []lockLoad{}, Losses: []lossRow{},
		Waits: append([]waitRow{}, t.waits...), Holds: append([]holdRow{}, t.holds...),
	}
	loads := t.sortedLoads()
	for _, l := range loads[:min(len(loads), t.limit)] {
		l.WaitedUS, l.LongestUS = l.Waited.Microseconds(), l.Longest.Microseconds()
		v.Locks = append(v.Locks, *l)
	}
	losses := slices.SortedFunc(maps.Values(t.losses), func(a, b *lossRow) int {
		return cmp.Or(cmp.Compare(b.Losses, a.Losses), cmp.Compare(a.Host, b.Host))
	})
	for _, l := range losses[:min(len(losses), t.limit)] {
		v.Losses = append(v.Losses, *l)
	}
	return v
}

// lines are all rows. Each names its list as TopView does.
func (v *TopView) lines() (all []any) {
	type head struct {
		Version int    `json:"version"`
		List    string `json:"list"`
	}
	for i := range v.Locks {
		all = append(all, struct {
			head
			lockLoad
		}{head{cli.JSONVersion, "locks"}, v.Locks[i]})
	}
	for i := range v.Waits {
		all = append(all, struct {
			head
			waitRow
		}{head{cli.JSONVersion, "waits"}, v.Waits[i]})
	}
	for i := range v.Holds {
		all = append(all, struct {
			head
			holdRow
		}{head{cli.JSONVersion, "holds"}, v.Holds[i]})
	}
	for i := range v.Losses {
		all = append(all, struct {
			head
			lossRow
		}{head{cli.JSONVersion, "losses"}, v.Losses[i]})
	}
	return all
}

// text is the lists for people. Those that are empty are left out.
func (v *TopView) text(now time.Time, when string) string {
	var b strings.Builder
	section(&b, "Locks that were waited for the longest"+when, v.Locks,
		[]string{"LOCK", "WAITED", "WAITS", "LONGEST", "IN VAIN"},
		func(l *lockLoad) []string {
			return []string{
				string(l.Lock), readable.Duration(l.Waited), readable.Number(l.Waits), readable.Duration(l.Longest),
				readable.Number(l.GaveUp),
			}
		})
	if v.Forgot {
		b.WriteString("So many locks were waited for that some may be missing here.\n")
	}
	section(&b, "Longest waits"+when, v.Waits,
		[]string{"LOCK", "OWNER", "SINCE", "WAITED", "BECAME OF IT", "AGENT"},
		func(w *waitRow) []string {
			return []string{
				string(w.Lock), fold.WhoText(w.Who, w.Owner, w.Agent, w.Process), readable.Time(w.Since, now),
				readable.Duration(w.waited), cmp.Or(w.BecameOf, "waits"), fold.AgentText(w.Agent, w.Process),
			}
		})
	section(&b, "Longest holds"+when, v.Holds,
		[]string{"LOCK", "OWNER", "SINCE", "HELD", "ENDED", "AGENT"},
		func(row *holdRow) []string {
			h := hold{Hold: row.Hold}
			return []string{
				string(h.Lock), fold.WhoText(h.Who, h.Owner, h.Agent, h.Process), readable.Time(h.From, now),
				readable.Duration(row.held), h.ended(now), fold.AgentText(h.Agent, h.Process),
			}
		})
	section(&b, "Holds that were lost"+when, v.Losses,
		[]string{"HOST", "LOST", "REASONS"},
		func(l *lossRow) []string {
			var reasons []string
			for _, why := range slices.Sorted(maps.Keys(l.Reasons)) {
				reasons = append(reasons, fmt.Sprintf("%s: %d", why, l.Reasons[why]))
			}
			return []string{l.Host, readable.Number(l.Losses), strings.Join(reasons, ", ")}
		})
	return b.String()
}

// section adds a list under its title, unless the list is empty.
func section[T any](b *strings.Builder, title string, list []T, columns []string, cells func(row *T) []string) {
	if len(list) == 0 {
		return
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	rows := cli.NewTable(columns...)
	for i := range list {
		rows.Add(cells(&list[i])...)
	}
	b.WriteString(title + ":\n" + rows.String())
}
