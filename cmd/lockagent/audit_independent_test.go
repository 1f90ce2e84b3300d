package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/audit"
)

// The second opinion stands beside the report. It has no verdict on a log from which a line was removed.
func TestEventsAuditIndependent(t *testing.T) {
	t.Parallel()
	dir := kept(t)
	auditor := func(stdin string, args ...string) result {
		return callWith(t, stdin, append([]string{"events", "audit", "--independent"}, args...)...)
	}
	auditor("", "--dir", dir).expect(t, cli.ExitOK, []string{"proven: ", "\nsecond opinion: proven: no two of "}, nil)

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
	auditor(log, "--file", "-").expect(t, cli.ExitOK, []string{"second opinion: proven: "}, nil)
	all := strings.SplitAfter(log, "\n")
	less := strings.Join(append(all[:len(all)/2:len(all)/2], all[len(all)/2+1:]...), "")
	auditor(less, "--file", "-").expect(
		t, cli.ExitIncomplete, []string{"second opinion: no verdict: between records "}, nil,
	)
	auditor("", "--lock", "a").expect(t, cli.ExitUsage, nil, []string{"--independent judges a whole log"})
}
