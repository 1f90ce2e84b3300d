package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/events/audit"
)

// The second opinion stands beside the report. It has no verdict on a log from which a line was removed.
func TestEventsAuditIndependent(t *testing.T) {
	t.Parallel()
	dir := kept(t)
	auditor := func(stdin string, args ...string) result {
		return callWith(t, stdin, append([]string{"events", "audit", "--independent"}, args...)...)
	}
	auditor("", "--dir", dir).expect(t, exitOK, []string{"proven: ", "\nsecond opinion: proven: no two of "}, nil)

	r := auditor("", "--dir", dir, "--format", "json")
	var both struct {
		Verdict     audit.Verdict `json:"verdict"`
		Independent audit.Opinion `json:"independent"`
	}
	err := json.Unmarshal([]byte(r.stdout), &both)
	if err != nil || both.Verdict != audit.Proven || both.Independent.Verdict != audit.Proven {
		t.Errorf("%v\n%s", err, r.stdout)
	}

	log := call(t, "events", "tail", "--all", "--follow=false", "--format", "jsonl", "--dir", dir).stdout
	auditor(log, "--file", "-").expect(t, exitOK, []string{"second opinion: proven: "}, nil)
	all := strings.SplitAfter(log, "\n")
	less := strings.Join(append(all[:len(all)/2:len(all)/2], all[len(all)/2+1:]...), "")
	auditor(less, "--file", "-").expect(t, exitIncomplete, []string{"second opinion: no verdict: between records "}, nil)
	auditor("", "--lock", "a").expect(t, exitUsage, nil, []string{"--independent judges a whole log"})
}

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
		{&proven, audit.Proven, exitOK, false},
		{&proven, audit.NoVerdict, exitOK, false},
		{&proven, audit.Violated, exitViolated, true},
		{&violated, audit.Proven, exitViolated, true},
		{&violated, audit.Violated, exitViolated, false},
		{&incomplete, audit.Violated, exitViolated, false},
		{&incomplete, audit.NoVerdict, exitIncomplete, false},
		{&explained, audit.Violated, exitExplained, false},
	} {
		var f auditFlags
		cmd := &cobra.Command{}
		f.addFlags(cmd)
		cmd.SetOut(new(bytes.Buffer))
		err := f.tellBoth(cmd, nil, test.report, audit.Opinion{Verdict: test.second})
		code, text := exitOK, ""
		if why, failed := errors.AsType[*failure](err); failed {
			code, text = why.code, why.err.Error()
		}
		if code != test.code || strings.Contains(text, "DISAGREE") != test.loud {
			t.Errorf("%s and %s: exit code %d, %q", test.report.Verdict, test.second, code, text)
		}
	}
}
