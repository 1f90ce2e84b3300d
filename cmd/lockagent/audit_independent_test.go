package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/events"
)

// The second opinion stands beside the report. It has no verdict on a log from which a line was removed.
func TestEventsAuditIndependent(t *testing.T) {
	t.Parallel()
	dir := kept(t)
	audit := func(stdin string, args ...string) result {
		return callWith(t, stdin, append([]string{"events", "audit", "--independent"}, args...)...)
	}
	audit("", "--dir", dir).expect(t, exitOK, []string{"proven: ", "\nsecond opinion: proven: no two of "}, nil)

	r := audit("", "--dir", dir, "--format", "json")
	var both struct {
		Verdict     events.Verdict `json:"verdict"`
		Independent events.Opinion `json:"independent"`
	}
	err := json.Unmarshal([]byte(r.stdout), &both)
	if err != nil || both.Verdict != events.Proven || both.Independent.Verdict != events.Proven {
		t.Errorf("%v\n%s", err, r.stdout)
	}

	log := call(t, "events", "tail", "--all", "--follow=false", "--format", "jsonl", "--dir", dir).stdout
	audit(log, "--file", "-").expect(t, exitOK, []string{"second opinion: proven: "}, nil)
	all := strings.SplitAfter(log, "\n")
	less := strings.Join(append(all[:len(all)/2:len(all)/2], all[len(all)/2+1:]...), "")
	audit(less, "--file", "-").expect(t, exitIncomplete, []string{"second opinion: no verdict: between records "}, nil)
	audit("", "--lock", "a").expect(t, exitUsage, nil, []string{"--independent judges a whole log"})
}

// Each pair of opinions has its exit code. If one says proven and the other violated, that is said aloud.
func TestTwoOpinions(t *testing.T) {
	violated := events.Report{Verdict: events.Violated}
	violated.Violations.Count, violated.Violations.First = 1, make([]events.Violation, 1)
	explained := events.Report{Verdict: events.Explained}
	explained.Explained.Count, explained.Explained.First = 1, make([]events.Explanation, 1)
	proven, incomplete := events.Report{Verdict: events.Proven}, events.Report{Verdict: events.Incomplete}
	for _, test := range []struct {
		report *events.Report
		second events.Verdict
		code   int
		loud   bool
	}{
		{&proven, events.Proven, exitOK, false},
		{&proven, events.NoVerdict, exitOK, false},
		{&proven, events.Violated, exitViolated, true},
		{&violated, events.Proven, exitViolated, true},
		{&violated, events.Violated, exitViolated, false},
		{&incomplete, events.Violated, exitViolated, false},
		{&incomplete, events.NoVerdict, exitIncomplete, false},
		{&explained, events.Violated, exitExplained, false},
	} {
		var f auditFlags
		cmd := &cobra.Command{}
		f.addFlags(cmd)
		cmd.SetOut(new(bytes.Buffer))
		err := f.tellBoth(cmd, nil, test.report, events.Opinion{Verdict: test.second})
		code, text := exitOK, ""
		if why, failed := errors.AsType[*failure](err); failed {
			code, text = why.code, why.err.Error()
		}
		if code != test.code || strings.Contains(text, "DISAGREE") != test.loud {
			t.Errorf("%s and %s: exit code %d, %q", test.report.Verdict, test.second, code, text)
		}
	}
}
