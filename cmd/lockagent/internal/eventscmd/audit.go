package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

// auditFlags are the flags of the verb audit.
type auditFlags struct {
	source
	lock       string
	during     cli.TimeRange
	begin      string
	follow     bool
	checkpoint string
	ack        string
	tail       time.Duration
	patience   time.Duration
	metrics    string
	format     string
	second     bool // an independent opinion is asked for, too

	from  time.Time     // from when the log is read, zero for its beginning
	locks events.Filter // those that are judged
}

func newAudit() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove from the event log that no two holds of a lock overlapped",
		Long: `Fold the event log and show whether it proves that no two holds of a lock
overlapped, and that tokens only grew. The exit code tells the verdict.

With --since and --until the verdict is about what was held from then until then. The whole
log is read all the same. With --begin the log is read from a time on only: what was held then,
and began before, is not judged.

With --checkpoint the next audit goes on from where this one ends, also if the stream has forgotten what was before.

With --acknowledge the verdict is about what comes later. What was found stays in each
report, with who accepted it, when and why. No other audit may use the checkpoint meanwhile.

With --independent a second, much smaller program judges the log as well. It shares with the
audit how records are read, which kinds exclude, and how far clocks may differ, and nothing
else. It judges only a log of which nothing is missing. If one of them says proven and the
other one violated, the exit code is that of a violation.

With --follow it goes on until it is interrupted. It tells the verdict at the beginning, and
whenever that changes or there are more violations.`,
		Example: `  lockagent events audit
  lockagent events audit --lock 'billing/>'
  lockagent events audit --since '2026-11-24 14:00' --until '2026-11-24 15:00'
  lockagent events audit --checkpoint audit.json
  lockagent events audit --checkpoint audit.json --acknowledge "the machine of agent 7 was lost"
  lockagent events audit --follow --checkpoint audit.json --metrics 127.0.0.1:9465 --format jsonl
  lockagent events audit --independent
  lockagent events audit --file events.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.lock, "lock", "", patternUsage)
	f.during.AddFlags(cmd, "what was held")
	flags.StringVar(
		&f.begin, "begin", "", "read the log from this `time` on only, in the same forms; what was held then is not judged",
	)
	flags.BoolVar(&f.follow, "follow", false, "go on with the events to come, and tell when the verdict changes")
	flags.StringVar(
		&f.checkpoint, "checkpoint", "",
		"go on from this `file`, if it exists, and leave there from where to go on the next time",
	)
	flags.StringVar(&f.ack, "acknowledge", "", "accept what was found up to now, and say `why`; needs --checkpoint")
	flags.DurationVar(
		&f.tail, "tail", audit.DefaultTail, "how long an agent that crashed may have lived after its last sign of life",
	)
	flags.DurationVar(
		&f.patience, "patience", audit.DefaultPatience,
		fmt.Sprintf("how long an agent may be silent until it counts as dead; with --follow %v", followPatience),
	)
	flags.BoolVar(
		&f.second, "independent", false, "tell a second opinion, too, which judges only a log of which nothing is missing",
	)
	flags.StringVar(
		&f.metrics, "metrics", "", "serve metrics to Prometheus on this `address`, such as 127.0.0.1:9465; needs --follow",
	)
	flags.StringVar(&f.format, "format", "text", "`form` of the report: text or json; with --follow text or jsonl")
	f.addFlags(cmd)
	return cmd
}

func (f *auditFlags) check(cmd *cobra.Command, now time.Time) (err error) {
	try := cli.Again(cmd) + " "
	if err := f.during.Check(cmd, now); err != nil {
		return err
	}
	if f.begin != "" {
		if f.from, err = cli.ParseMoment(f.begin, now); err != nil {
			return cli.Usage(try+"--begin yesterday", "--begin: %w", err)
		}
	}
	switch {
	case f.from.After(now), !f.during.Since.IsZero() && f.from.After(f.during.Since):
		return cli.Usage(
			try+"--begin yesterday --since today", "--begin %s is later than what is to be judged", readable.Time(f.from, now),
		)
	case f.follow && !f.during.Until.IsZero():
		return cli.Usage(try+"--until 10m", "--follow and --until exclude each other, for what is to come is later")
	case f.follow && (f.dir != "" || f.file != ""):
		return cli.Usage(cli.Again(cmd), "--follow excludes --dir and --file, for nothing can be added to what they read")
	case f.metrics != "" && !f.follow:
		return cli.Usage(try+"--follow --metrics "+cli.ShellWord(f.metrics), "--metrics needs --follow")
	case f.ack != "" && (f.checkpoint == "" || f.follow):
		return cli.Usage(
			try+"--checkpoint audit.json --acknowledge "+cli.ShellWord(f.ack),
			"--acknowledge needs --checkpoint, and excludes --follow",
		)
	case f.tail < audit.DefaultTail:
		return cli.Usage(try+"--tail 1m", "--tail must be at least %v, not %v", audit.DefaultTail, f.tail)
	case f.patience < audit.DefaultTail:
		return cli.Usage(try+"--patience 5m", "--patience must be at least %v, not %v", audit.DefaultTail, f.patience)
	case f.checkpoint != "" && (f.during.Asked() || f.begin != ""):
		return cli.Usage(
			try+"--checkpoint "+cli.ShellWord(f.checkpoint),
			"--checkpoint excludes --since, --until and --begin, for a checkpoint says where to begin, and is about all that "+
				"follows",
		)
	case f.checkpoint != "" && f.lock != "":
		return cli.Usage(
			try+"--checkpoint "+cli.ShellWord(f.checkpoint),
			"--checkpoint and --lock exclude each other, for a checkpoint is about all locks",
		)
	case f.checkpoint != "" && f.file != "":
		return cli.Usage(
			cli.Again(cmd), "--checkpoint and --file exclude each other, for the lines of a file have no place in a stream",
		)
	}
	if f.second && (f.follow || f.lock != "" || f.during.Asked() || f.begin != "" || f.checkpoint != "") {
		return cli.Usage(
			try+"--independent",
			"--independent judges a whole log, so it excludes --follow, --lock, --since, --until, --begin and --checkpoint",
		)
	}
	if f.follow && f.format == "json" {
		return cli.Usage(
			try+"--follow --format jsonl", "--format must be text or jsonl with --follow, which tells more than once",
		)
	}
	second := "json"
	if f.follow {
		second = "jsonl"
	}
	if err := errors.Join(
		cli.CheckFormat(cmd, f.format, "text", second), telemetry.CheckAddress(cmd, f.metrics), f.checkCheckpoint(),
	); err != nil {
		return err
	}
	if err := f.source.check(cmd); err != nil {
		return err
	}
	f.locks, err = parsePattern(cmd, f.lock)
	return err
}

func (f *auditFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(cmd, time.Now()); err != nil {
		return err
	}
	auditor, err := f.newAudit(cmd)
	if err != nil {
		return err
	}
	log, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	if f.follow {
		return f.goOn(cmd, log, auditor)
	}
	visit, second := f.about(auditor.Visit), &secondOpinion{}
	if f.second {
		visit = second.besides(visit)
	}
	state, err := f.read(cmd.Context(), log, auditor, new(sync.Mutex), visit)
	if cmd.Context().Err() != nil {
		return f.interrupted(cmd, auditor, err)
	}
	if err != nil {
		return err
	}
	now := state.Now
	if !log.grows() {
		now = time.Time{} // all has come
	}
	if f.ack != "" && !auditor.Acknowledge(now, audit.Acknowledgement{By: operator(), Time: time.Now(), Text: f.ack}) {
		fmt.Fprintln(cmd.ErrOrStderr(), "lockagent: there is nothing to acknowledge")
	}
	saved := f.save(auditor.Snapshot)
	report := auditor.Report()
	if !now.IsZero() {
		report = auditor.ReportAt(now)
	}
	f.narrow(&report)
	if report.Kept, err = f.kept(cmd, log, &state); err != nil { // the verdict does not depend on it
		cmd.PrintErrf("lockagent: what has consequences and is older than the log was not counted: %v\n", err)
	}
	if f.second {
		return f.tellBoth(cmd, log, &report, second.opinion(&state, f.file != ""))
	}
	if err := f.write(cmd, &report); err != nil {
		return errors.Join(err, saved)
	}
	return errors.Join(f.verdictOf(log, &report), saved)
}

// kept counts what has consequences and is older than the log: see [audit.Report].Kept.
func (f *auditFlags) kept(cmd *cobra.Command, log *eventLog, state *natslog.StreamState) (map[string]int, error) {
	if f.file != "" || !f.from.IsZero() {
		return nil, nil
	}
	kept, urgent := make(map[string]int), f.locks
	urgent.Urgent = true
	err := log.replay(cmd.Context(), startAt{}, urgent, func(r *events.Record, err error) error {
		switch {
		case r.Position >= state.First:
			return errSeen
		case err == nil:
			kept[r.Kind.String()]++
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return kept, err
}

// narrow tells a report what was asked for. It makes the verdict empty if one lock was asked for, and there is
// nothing of it. Whatever else is proven, nobody has asked for it.
func (f *auditFlags) narrow(r *audit.Report) {
	r.Since = f.from
	judged := 0
	for _, s := range r.Stores {
		judged += s.Holds + s.Pending
	}
	if f.lock != "" && judged+r.Grants+r.NotJudged.Count == 0 &&
		(r.Verdict == audit.Proven || r.Verdict == audit.Explained) {
		r.Verdict = audit.Empty
	}
}

// write writes the report. If nobody reads it to its end, the exit code still tells the verdict.
func (f *auditFlags) write(cmd *cobra.Command, report *audit.Report) (err error) {
	if f.format == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), report)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), report.String())
	}
	if cli.Unread(err) {
		return nil
	}
	return err
}

// interrupted keeps and tells what an audit has found that was interrupted while it read.
func (f *auditFlags) interrupted(cmd *cobra.Command, auditor *audit.Audit, err error) error {
	if auditor.Position() == 0 {
		return err
	}
	report := auditor.ReportAt(auditor.Stored())
	f.narrow(&report)
	fmt.Fprintf(
		cmd.ErrOrStderr(), "lockagent: interrupted: the report is about the log up to position %s\n",
		readable.Number(auditor.Position()),
	)
	return errors.Join(err, f.save(auditor.Snapshot), f.write(cmd, &report))
}

// read visits what there is behind the place that the audit has reached. It returns what the stream had
// when it began. mu guards the audit, and visit locks it itself if need be.
func (f *auditFlags) read(
	ctx context.Context, log *eventLog, auditor *audit.Audit, mu sync.Locker, visit events.Visit,
) (natslog.StreamState, error) {
	from := startAt{time: f.from} // a first position behind 1 says that the log begins late
	mu.Lock()
	state, err := f.identify(ctx, log, auditor)
	mu.Unlock()
	if err != nil {
		return state, err
	}
	if f.checkpoint != "" {
		// The checkpoint may be from between two records of one message. The audit knows those
		// that it has.
		from.position = auditor.Position()
	}
	if err := log.replay(ctx, from, events.Filter{}, visit); err != nil {
		return state, err
	}
	if !state.Shared {
		mu.Lock()
		defer mu.Unlock()
		auditor.Reached(state.Last, state.Now)
	}
	return state, nil
}

// about takes out of the records what they say of other locks, when some were asked for. Their
// places in the logs of their agents stay, and so does what they tell of the clock of the store: or
// the audit would miss them.
func (f *auditFlags) about(visit events.Visit) events.Visit {
	if f.lock == "" {
		return visit
	}
	return func(r *events.Record, err error) error {
		if r.Lock != "" && !f.locks.Match(r) {
			r.Event = lockagent.Event{
				Kind: lockagent.EventRequested, Agent: r.Agent, Time: r.Time, Store: r.Store,
				StoreTime: r.StoreTime, Confirmed: r.Confirmed, Until: r.Until, Returned: r.Returned,
			}
		}
		return visit(r, err)
	}
}

// verdictOf gives a verdict its exit code.
func (f *auditFlags) verdictOf(log *eventLog, r *audit.Report) error {
	switch r.Verdict {
	case audit.Proven:
		return nil
	case audit.Explained:
		return &cli.Failure{
			Code: cli.ExitExplained,
			Err:  fmt.Errorf("proven, apart from overlaps that the event log explains: %d", r.Explained.Count),
			Try:  f.closeUp(&r.Explained.First[0].Violation),
		}
	case audit.Violated:
		return &cli.Failure{
			Code: cli.ExitViolated, Err: errors.New("not proven: violated"), Try: f.closeUp(&r.Violations.First[0]),
		}
	case audit.Empty:
		return f.nothing(log)
	}
	return &cli.Failure{Code: cli.ExitIncomplete, Err: fmt.Errorf("not proven: %s", r.Verdict)}
}

// nothing is the error of an audit that has found nothing of what it was asked for.
func (f *auditFlags) nothing(log *eventLog) error {
	const audit = "lockagent events audit"
	empty := func(try, format string, args ...any) error {
		return &cli.Failure{
			Code: cli.ExitEmpty, Err: fmt.Errorf("not proven: the event log "+format, args...), Try: try + f.place(),
		}
	}
	now := time.Now()
	switch when := f.during.Text(now); {
	case f.lock != "" && when != "":
		return empty(audit+" --lock "+cli.ShellWord(f.lock), "has no holds of %q%s", f.lock, when)
	case f.lock != "":
		return empty("lockagent events holders", "has no holds of %q", f.lock)
	case when != "":
		return empty(audit, "has no holds%s", when)
	case !f.from.IsZero():
		if latest := log.latest(); !latest.IsZero() {
			return empty(
				audit, "has no events since %s; the latest is of %s", readable.Time(f.from, now), readable.Time(latest, now),
			)
		}
	}
	return empty("lockagent events tail", "is empty")
}

// closeUp is a command that shows the lock at the time of a violation, or the agent if that is of no lock.
func (f *auditFlags) closeUp(v *audit.Violation) string {
	if v.First.Lock == "" {
		return "lockagent events tail --all --follow=false --agent " + cli.ShellWord(string(v.First.Agent)) + f.place()
	}
	at := v.First.From
	if v.Second.From.After(at) {
		at = v.Second.From
	}
	if at.IsZero() {
		return "lockagent events history " + cli.ShellWord(string(v.First.Lock)) + f.place()
	}
	return fmt.Sprintf(
		"lockagent events state %s --at %s%s", cli.ShellWord(string(v.First.Lock)),
		at.Local().Format("2006-01-02T15:04:05.000Z07:00"), f.place(),
	)
}
