package eventscmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventtext"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// holdersFlags are the flags of the verb holders.
type holdersFlags struct {
	lookFlags
	atFlag
	lock string
}

func newHolders() *cobra.Command {
	var f holdersFlags
	cmd := &cobra.Command{
		Use:   "holders",
		Short: "Show who holds which lock, now or at a time",
		Long: `Show who holds which lock now, as far as the event log tells. With --at show who held
which lock at a time, and who waited; with --since and --until, at some time from then until then.

An agent that has crashed cannot say so. Its holds stay in the list with the time at which
their leases end, until another agent is granted the lock. A lease that a program has left
in the store when it closed its locks is told of below the list.`,
		Example: `  lockagent events holders
  lockagent events holders --lock 'orders/>' --format json
  lockagent events holders --at '2026-11-24 14:05'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.lock, "lock", "", patternUsage)
	f.atFlag.addFlags(cmd)
	f.lookFlags.addFlags(cmd)
	return cmd
}

func (f *holdersFlags) run(cmd *cobra.Command) (err error) {
	filter, err := parsePattern(cmd, f.lock)
	if err != nil {
		return err
	}
	since, until, err := f.when(cmd, time.Now())
	if err != nil {
		return err
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.at != "" || f.during.Asked() {
		return f.past(cmd, since, until)
	}
	log, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	folded, records, locks := fold.New(), 0, 0
	// Filtered by the server, the records would not tell whether the agents live.
	err = log.replay(cmd.Context(), startAt{}, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil && (r.Lock == "" || filter.Match(r)) {
			records++
			if r.Lock != "" {
				locks++
			}
			folded.Apply(*r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if records == 0 {
		return log.nothing("the event log has nothing", "lockagent demo --keep demo.log")
	}
	if f.lock != "" && locks == 0 {
		return log.nothing(
			fmt.Sprintf("the event log has nothing of locks such as %q", f.lock), "lockagent events holders"+f.place(),
		)
	}
	log.warn()
	now := time.Now()
	view := heldNow(folded, now)
	if f.format == "json" {
		return cli.WriteJSON(cmd.OutOrStdout(), view)
	}
	return view.write(cmd.OutOrStdout(), now)
}

// HoldersView is the JSON of who holds what, at one time or in a stretch of time.
type HoldersView struct {
	Version int        `json:"version"`
	At      time.Time  `json:"at,omitzero"`
	Since   time.Time  `json:"since,omitzero"`
	Until   time.Time  `json:"until,omitzero"`
	Holds   []heldView `json:"holds"`
	Left    []heldView `json:"left,omitempty"` // nobody holds the lock, but a lease stays in the store
	Waiters int        `json:"waiters"`        // of all locks
	Waiting []waitView `json:"waiting"`        // likewise, those that have waited longest
}

// waitView is a request that waits.
type waitView struct {
	Lock lockagent.Name `json:"lock"`
	fold.Waiter
	Process *fold.Process `json:"process,omitempty"`   // of its agent
	Seen    time.Time     `json:"agent_seen,omitzero"` // the last event of its agent, if it waits now

	// Of a request that waited at a time: until when, and how that ended.
	Until    time.Time `json:"until,omitzero"`
	BecameOf string    `json:"became_of,omitempty"`
}

// state says whether a request can be relied upon to wait.
func (w *waitView) state(now time.Time) string {
	if of := (hold{seen: w.Seen}); of.silent(now) {
		return "its agent is silent since " + readable.Time(w.Seen, now)
	}
	return "waits"
}

// mostWaiting bounds how many of the requests that wait are shown.
const mostWaiting = 20

// heldView is a hold that goes on.
type heldView struct {
	Hold     fold.Hold  `json:"hold"`
	LeaseEnd *time.Time `json:"lease_end,omitempty"` // on the clock of the store, unless there is another renewal
	Seen     time.Time  `json:"agent_seen,omitzero"` // the last event of the agent, if it goes on
	Waiters  int        `json:"waiters"`             // for this lock
}

func (v heldView) compare(other heldView) int {
	a, b := &v.Hold, &other.Hold
	return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Store, b.Store), cmp.Compare(a.Token, b.Token))
}

// heldNow is who holds what after all that was folded.
func heldNow(folded *fold.Fold, now time.Time) HoldersView {
	v := HoldersView{Version: cli.JSONVersion, At: now, Holds: []heldView{}, Waiting: []waitView{}}
	for l := range folded.Locks() {
		v.Waiters += len(l.Waiters)
		for _, w := range l.Waiters {
			wait := waitView{Lock: l.Lock, Waiter: w}
			a, _ := folded.Agent(w.Agent)
			if wait.Seen = a.Time; a.Process != (fold.Process{}) {
				wait.Process = &a.Process
			}
			v.Waiting = append(v.Waiting, wait)
		}
		view := func(h fold.Hold) heldView {
			agent, _ := folded.Agent(h.Agent) // it has granted the hold
			held := heldView{Hold: h, Seen: agent.Time, Waiters: len(l.Waiters)}
			if end := h.LeaseEnd(); end != 0 {
				held.LeaseEnd = moment(time.UnixMicro(int64(end)))
			}
			return held
		}
		for _, h := range l.Now() {
			v.Holds = append(v.Holds, view(h))
		}
		for _, h := range l.Left {
			if left := view(h); left.LeaseEnd != nil && left.LeaseEnd.After(now) {
				v.Left = append(v.Left, left)
			}
		}
	}
	slices.SortFunc(v.Holds, heldView.compare)
	slices.SortFunc(v.Left, heldView.compare)
	slices.SortFunc(v.Waiting, func(a, b waitView) int {
		return cmp.Or(
			a.Since.Compare(b.Since), cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Agent, b.Agent),
			cmp.Compare(a.Request, b.Request),
		)
	})
	v.Waiting = v.Waiting[:min(len(v.Waiting), mostWaiting)]
	return v
}

func (v *HoldersView) write(out io.Writer, now time.Time) error {
	text := "nobody holds a lock"
	if len(v.Holds) > 0 {
		rows := cli.NewTable("LOCK", "OWNER", "SINCE", "FOR", "TOKEN", "WAITING", "STATE", "AGENT")
		for i := range v.Holds {
			held := &v.Holds[i]
			h := &held.Hold
			rows.Add(
				string(h.Lock), fold.WhoText(h.Who, h.Owner, h.Agent, h.Process), readable.Time(h.From, now),
				readable.Duration(now.Sub(h.From)), fmt.Sprint(h.Token), fmt.Sprint(held.Waiters), held.state(now),
				fold.AgentText(h.Agent, h.Process),
			)
		}
		text = rows.String() + "\n" + readable.Counted(len(v.Holds), "hold", "holds")
	}
	text = fmt.Sprintf("%s, %s\n", text, readable.Counted(v.Waiters, "request waits", "requests wait"))
	for i := range v.Left {
		left := &v.Left[i]
		h := &left.Hold
		text += cli.OneLine(
			fmt.Sprintf(
				"%s: nobody holds it; %s: %s", h.Lock, fold.WhoText(h.Who, h.Owner, h.Agent, h.Process), left.state(now),
			),
		) + "\n"
	}
	if len(v.Waiting) > 0 {
		text += "\n" + v.waiting(now)
	}
	_, err := io.WriteString(out, text)
	return err
}

// waiting is the table of those who wait.
func (v *HoldersView) waiting(now time.Time) string {
	rows := cli.NewTable("LOCK", "OWNER", "WAITS SINCE", "FOR", "BEHIND", "STATE", "AGENT")
	for i := range v.Waiting {
		w := &v.Waiting[i]
		behind, process := "", fold.Process{}
		if w.Behind != nil {
			behind = eventtext.PartyText(*w.Behind)
		}
		if w.Process != nil {
			process = *w.Process
		}
		rows.Add(
			string(w.Lock), fold.WhoText(w.Who, w.Owner, w.Agent, process), readable.Time(w.Since, now),
			readable.Duration(now.Sub(w.Since)), behind, w.state(now), fold.AgentText(w.Agent, process),
		)
	}
	text := rows.String()
	if more := v.Waiters - len(v.Waiting); more > 0 {
		text += fmt.Sprintf("and %s more\n", readable.Number(more))
	}
	return text
}

// state says whether a hold can be relied upon.
func (v *heldView) state(now time.Time) string {
	h := hold{v.Hold, v.Seen}
	return h.ended(now)
}
