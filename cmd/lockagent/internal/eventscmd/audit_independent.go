package eventscmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

// secondOpinion keeps what was read for an independent opinion.
type secondOpinion struct {
	records []events.Record
	errs    []error
}

// besides returns a visit that does the same as another one, and keeps what was read.
func (s *secondOpinion) besides(visit events.Visit) events.Visit {
	return func(r *events.Record, err error) error {
		if err != nil {
			s.errs = append(s.errs, err)
		} else {
			s.records = append(s.records, *r)
		}
		return visit(r, err)
	}
}

// opinion judges what was read. state is what the stream had. The positions of a stream that has other messages
// as well tell nothing, and neither do the lines of a file.
func (s *secondOpinion) opinion(state *natslog.StreamState, file bool) audit.Opinion {
	var x audit.Independent
	for _, err := range s.errs {
		_ = x.Visit(nil, err)
	}
	var last uint64
	for i := range s.records {
		r := &s.records[i]
		if last = max(last, r.Position); file || state.Shared {
			r.Position = 0
		}
		_ = x.Visit(r, nil)
	}
	if !file && !state.Shared && last < state.Last {
		_ = x.Visit(nil, fmt.Errorf("message %d is missing", state.Last))
	}
	return x.Opinion()
}

// tellBoth writes a report and the second opinion. The exit code is that of the report, unless the second
// opinion finds a violation that the report neither has nor explains.
func (f *auditFlags) tellBoth(
	cmd *cobra.Command, log *eventLog, r *audit.Report, o audit.Opinion,
) error {
	disagree := o.Disagrees(r)
	var err error
	if f.format == "json" {
		err = cli.WriteJSON(cmd.OutOrStdout(), struct {
			*audit.Report
			Independent audit.Opinion `json:"independent"`
			Disagree    bool          `json:"disagree,omitempty"`
		}{r, o, disagree})
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), r.String()+o.String())
	}
	switch {
	case err != nil && !cli.Unread(err): // the exit code tells the verdict all the same
		return err
	case disagree:
		const text = "THE TWO OPINIONS DISAGREE: the audit says %s, and the second opinion says %s; " +
			"one of them is wrong, so nothing is proven"
		return &cli.Failure{
			Code: cli.ExitViolated, Err: fmt.Errorf(text, r.Verdict, o.Verdict),
			Try: "lockagent events tail --all --follow=false --format jsonl" + f.place(),
		}
	case o.Verdict == audit.Violated && r.Verdict != audit.Violated && r.Verdict != audit.Explained:
		return &cli.Failure{Code: cli.ExitViolated, Err: errors.New("not proven: the second opinion is violated")}
	}
	return f.verdictOf(log, r)
}
