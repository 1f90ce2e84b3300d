package eventscmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/audit"
)

// Each pair of opinions has its exit code. If one says proven and the other violated, that is said aloud.
func TestTwoOpinions(t *testing.T) {
	violated := audit.Report{Verdict: audit.Violated}
	violated.Violations.Count, violated.Violations.First = 1, make([]audit.Violation, 1)
	explained := audit.Report{Verdict: audit.Explained}
	explained.Explained.Count, explained.Explained.First = 1, make([]audit.Explanation, 1)
	proven, incomplete := audit.Report{Verdict: audit.Proven}, audit.Report{Verdict: audit.Incomplete}
	for _, test := range []struct {
		report *audit.Report
		second audit.Verdict
		code   int
		loud   bool
	}{
		{&proven, audit.Proven, cli.ExitOK, false},
		{&proven, audit.NoVerdict, cli.ExitOK, false},
		{&proven, audit.Violated, cli.ExitViolated, true},
		{&violated, audit.Proven, cli.ExitViolated, true},
		{&violated, audit.Violated, cli.ExitViolated, false},
		{&incomplete, audit.Violated, cli.ExitViolated, false},
		{&incomplete, audit.NoVerdict, cli.ExitIncomplete, false},
		{&explained, audit.Violated, cli.ExitExplained, false},
	} {
		var f auditFlags
		cmd := &cobra.Command{}
		f.addFlags(cmd)
		cmd.SetOut(new(bytes.Buffer))
		err := f.tellBoth(cmd, nil, test.report, audit.Opinion{Verdict: test.second})
		code, text := cli.ExitOK, ""
		if why, failed := errors.AsType[*cli.Failure](err); failed {
			code, text = why.Code, why.Err.Error()
		}
		if code != test.code || strings.Contains(text, "DISAGREE") != test.loud {
			t.Errorf("%s and %s: exit code %d, %q", test.report.Verdict, test.second, code, text)
		}
	}
}
