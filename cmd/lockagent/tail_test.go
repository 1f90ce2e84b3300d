package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
)

// A line names the process that has a lock, if an earlier event told who that is.
func TestTailNamesTheProcess(t *testing.T) {
	shop := lockagent.Process{Host: "web-1", Program: "shop", PID: 812, User: "joe"}
	const lock, owner = "orders/42", "0/CB6X"
	s := &logtest.Script{T: t}
	at := func(seconds int) time.Time { return logtest.Begun.Add(time.Duration(seconds) * time.Second) }
	s.Add("a", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", Program: "lockagent", PID: 1},
	})
	s.Add("b", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-2", Program: "lockagent", PID: 2},
	})
	s.Add("a", at(1), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Owner: owner, Who: shop.Who(), Request: 1, Tenure: 7, Token: 100,
		How: lockagent.ByStore, Count: 1,
	})
	s.Add("a", at(2), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: lock, Owner: "0/XYZ", Request: 2, Waiters: 1, Holder: owner,
	})
	s.Add("b", at(3), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: lock, Owner: "0/ABC", Request: 1, Waiters: 1, Holder: "a:7",
	})
	s.Add("a", at(4), lockagent.Event{
		Kind: lockagent.EventUncertain, Lock: lock, Owner: owner, Tenure: 7, Token: 100, Remaining: time.Second,
		Err: "no answer",
	})
	tail := func(args ...string) []string {
		r := callWith(t, s.Text.String(), append([]string{"events", "tail", "--file", "-"}, args...)...)
		r.expect(t, cli.ExitOK, nil, nil)
		return lines(r.stdout)
	}
	all := tail()
	if len(all) != 6 {
		t.Fatalf("there are %d lines", len(all))
	}
	name := shop.Who().String()
	for i, want := range map[int]string{3: "  behind " + name, 4: "  behind " + name, 5: "  token 100  " + name + "  "} {
		if !strings.Contains(all[i], want) || strings.Contains(all[i], owner) {
			t.Errorf("the line is\n%swant\n%s", all[i], want)
		}
	}
	// Of some kinds only, the lines tell what each event tells.
	if some := tail("--kind", "queued"); len(some) != 2 || !strings.Contains(some[0], `  behind "`+owner+`"`) ||
		!strings.Contains(some[1], "  behind agent a") {
		t.Errorf("the lines are %q", some)
	}
}

// All owners in one program have one process, so a line tells the owner.
func TestTailNamesTheOwner(t *testing.T) {
	shop := lockagent.Process{Host: "web-1", Program: "shop", PID: 812, User: "joe"}
	s := &logtest.Script{T: t}
	s.Add("a", logtest.Begun, lockagent.Event{Kind: lockagent.EventAgentStarted, Process: shop})
	for i, owner := range []lockagent.Owner{"joe", "a/691", "/691"} {
		s.Add("a", logtest.Begun, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: owner, Who: shop.Who(), Request: uint64(i + 1),
			Tenure: uint64(i + 1), Token: lockagent.Token(i + 1), How: lockagent.ByStore, Count: 1,
		})
	}
	log := s.Text.String()
	who := "  " + shop.Who().String()
	for name, test := range map[string]struct {
		log  string
		args []string
		want []string
	}{
		"All": {
			log, nil, []string{`  by store  owner "joe"`, "  by store  owner /691", `  by store  owner "/691"`},
		},
		"NoProcessKnown": {
			strings.SplitN(log, "\n", 2)[1], nil, []string{who + `  owner "joe"`, who + "  owner /691", who + `  owner "/691"`},
		},
		"OfOneKind": {
			log, []string{"--kind", "granted"}, []string{who + `  owner "joe"`, who + "  owner /691", who + `  owner "/691"`},
		},
		"OfAnOwner": {log, []string{"--owner", "joe"}, []string{who + `  owner "joe"`}},
		"InFull":    {log, []string{"--owner", "a/691"}, []string{who + "  owner /691"}},
		"AsIsShown": {log, []string{"--owner", "/691"}, []string{who + "  owner /691", who + `  owner "/691"`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := callWith(t, test.log, append([]string{"events", "tail", "--file", "-"}, test.args...)...)
			r.expect(t, cli.ExitOK, nil, nil)
			got := slices.DeleteFunc(lines(r.stdout), func(line string) bool { return strings.Contains(line, "agentstarted") })
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("the lines are %q, want %q", got, test.want)
			}
		})
	}
}

// An agent that cannot be is refused with what an agent may be called, also beside one that is shortened.
func TestTailOfAnAgentThatCannotBe(t *testing.T) {
	const want = `--agent: no agent is named "a.b"; a name is 1 to 64 letters, digits, '-' and '_'`
	for _, agents := range []string{"a.b", "deadbeef,a.b"} {
		callWith(t, "", "events", "tail", "--file", "-", "--agent", agents).expect(t, cli.ExitUsage, nil, []string{want})
	}
	err := events.Filter{Agents: []lockagent.AgentID{"a.b"}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "a name is 1 to 64 letters, digits, '-' and '_'") {
		t.Error(err)
	}
	callWith(t, "", "events", "tail", "--file", "-", "--urgent", "--kind", "granted").expect(
		t, cli.ExitUsage, nil, []string{"--urgent and --kind: none of the kinds"},
	)
}
