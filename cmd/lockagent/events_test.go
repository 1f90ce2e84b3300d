package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// logged starts a NATS server and lets a demo fill its event log.
func logged(t *testing.T) (url string) {
	t.Helper()
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	r := call(t, "demo", "--nats", server.URL(), "--duration", "200ms", "--locks", "2")
	r.expect(t, cli.ExitOK, []string{"Event log: in NATS."}, nil)
	return server.URL()
}

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

func TestEventsTail(t *testing.T) {
	t.Parallel()
	url := logged(t)
	all := call(t, "events", "tail", "--nats", url, "--all", "--follow=false")
	all.expect(t, cli.ExitOK, []string{"agentstarted", "held", "token ", "by store", "agentstopped"}, nil)

	since := call(t, "events", "tail", "--nats", url, "--since", "1h", "--follow=false")
	if since.stdout != all.stdout {
		t.Errorf("the last hour has %d lines, want all %d", len(lines(since.stdout)), len(lines(all.stdout)))
	}

	some := call(t, "events", "tail", "--nats", url, "--all", "--follow=false",
		"--lock", "lockagent/demo/2", "--kind", "granted,released")
	some.expect(t, cli.ExitOK, nil, nil)
	for _, line := range lines(some.stdout) {
		// A hold that was over soon is one event, which tells of the grant and the release.
		kind := regexp.MustCompile(`  (granted|released|held)  `)
		if !strings.Contains(line, "  lockagent/demo/2  ") || !kind.MatchString(line) {
			t.Fatalf("not asked for: %s", line)
		}
	}
	if n, m := len(lines(some.stdout)), len(lines(all.stdout)); n == 0 || n >= m {
		t.Errorf("%d of %d lines are selected", n, m)
	}

	jsonl := call(t, "events", "tail", "--nats", url, "--all", "--follow=false", "--format", "jsonl")
	jsonl.expect(t, cli.ExitOK, nil, nil)
	if n, m := len(lines(jsonl.stdout)), len(lines(all.stdout)); n != m {
		t.Errorf("%d lines of JSON for %d events", n, m)
	}
	var agent lockagent.AgentID
	err := events.ReadLines(strings.NewReader(jsonl.stdout), func(r *events.Record, err error) error {
		agent = r.Agent
		return err
	})
	if err != nil {
		t.Fatalf("the lines cannot be read back: %v", err)
	}
	one := call(t, "events", "tail", "--nats", url, "--all", "--follow=false",
		"--format", "jsonl", "--agent", string(agent))
	for _, line := range lines(one.stdout) {
		if !strings.Contains(line, string(agent)) {
			t.Fatalf("not asked for: %s", line)
		}
	}
	short := call(t, "events", "tail", "--nats", url, "--all", "--follow=false",
		"--format", "jsonl", "--agent", string(agent[:8]))
	if short.stdout != one.stdout {
		t.Errorf("the beginning of its identity gives %d lines, want %d",
			len(lines(short.stdout)), len(lines(one.stdout)))
	}
	if n := strings.Count(one.stdout, "agent.stopped"); n != 1 {
		t.Errorf("%d agents, want 1", n)
	}
}

func TestEventsTailFollows(t *testing.T) {
	url := logged(t)
	t.Setenv("LOCKAGENT_NATS", url)
	r := start(t, "events", "tail", "--all")
	r.await(t, "what there was", func(text string) bool { return strings.Count(text, "agentstopped") == 3 })
	call(t, "demo", "--duration", "100ms", "--agents", "2").expect(t, cli.ExitOK, []string{"Event log: in NATS."}, nil)
	r.await(t, "what came", func(text string) bool { return strings.Count(text, "agentstopped") == 5 })
	r.interrupt(t).expect(t, cli.ExitOK, nil, nil)
}

// Whoever begins to follow before anything has happened sees all of it.
func TestEventsTailWaitsForTheFirstAgent(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	t.Setenv("LOCKAGENT_NATS", server.URL())
	r := start(t, "events", "tail")
	r.stderr.await(t, "that it waits", func(text string) bool {
		return strings.Contains(text, "waiting for the first agent")
	})
	call(t, "demo", "--duration", "100ms", "--agents", "2").expect(t, cli.ExitOK, nil, nil)
	r.await(t, "what came", func(text string) bool {
		return strings.Count(text, "agentstarted") == 2 && strings.Count(text, "agentstopped") == 2
	})
	r.interrupt(t).expect(t, cli.ExitOK, nil, nil)
}

func TestEventsWithoutNATS(t *testing.T) {
	server := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"})
	for _, args := range [][]string{{"tail", "--all", "--follow=false"}, {"audit"}} {
		call(t, append([]string{"events"}, append(args, "--nats", server.URL())...)...).expect(t, cli.ExitEmpty, nil,
			[]string{"no such stream", natslog.DefaultStream, "Try: "})
	}
	url := server.URL()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"tail", "audit"} {
		call(t, "events", verb, "--nats", url).expect(t, cli.ExitUnavailable, nil, []string{"NATS", "Try: "})
	}
}

func TestEventsAudit(t *testing.T) {
	t.Parallel()
	url := logged(t)
	call(t, "events", "audit", "--nats", url).expect(t, cli.ExitOK,
		[]string{"proven: nothing overlapped that must not\n", " of 3 agents on 2 locks: "}, nil)
	call(t, "events", "audit", "--nats", url, "--lock", "lockagent/demo/1").expect(t, cli.ExitOK,
		[]string{"proven: ", " of 3 agents on 1 lock: "}, nil)
	call(t, "events", "audit", "--nats", url, "--since", "1h").expect(t, cli.ExitOK, []string{"proven: "}, nil)
	r := call(t, "events", "audit", "--nats", url, "--format", "json")
	r.expect(t, cli.ExitOK, nil, nil)
	var report audit.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Verdict != audit.Proven ||
		report.Grants == 0 {
		t.Errorf("the report is wrong: %v\n%s", err, r.stdout)
	}
}

func TestEventsAuditOfAFile(t *testing.T) {
	t.Parallel()
	url := logged(t)
	log := call(t, "events", "tail", "--nats", url, "--all", "--follow=false", "--format", "jsonl").stdout
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	call(t, "events", "audit", "--file", file(log)).expect(t, cli.ExitOK, []string{"proven: "}, nil)
	callWith(t, log, "events", "audit", "--file", "-").expect(t, cli.ExitOK, []string{"proven: "}, nil)
	callWith(t, log, "events", "audit", "--file", "-", "--since", "1h").expect(t, cli.ExitOK, []string{"proven: "}, nil)

	all := lines(log)
	i := slices.IndexFunc(all, func(line string) bool { return strings.Contains(line, "lock.held") })
	missing := strings.Join(slices.Delete(slices.Clone(all), i, i+1), "")
	callWith(t, missing, "events", "audit", "--file", "-").expect(t, cli.ExitIncomplete,
		[]string{"incomplete: ", "missing: "}, []string{"not proven: incomplete"})

	all[i] = "{}\n"
	callWith(t, strings.Join(all, ""), "events", "audit", "--file", "-").expect(t, cli.ExitIncomplete,
		[]string{"unreadable: "}, []string{"not proven"})
}

func TestEventsAuditFindsAnOverlap(t *testing.T) {
	log := logtest.Overlapping(t, logtest.Begun)
	auditor := func(args ...string) result {
		return callWith(t, log, append([]string{"events", "audit", "--file", "-"}, args...)...)
	}
	at := logtest.Begun.Add(time.Second).Format("2006-01-02T15:04:05.000Z07:00")
	auditor().expect(t, cli.ExitViolated,
		[]string{
			"violated: ", `"orders/42": two holds overlapped for up to 3s`, `"me", token `, "agent a\n",
			"agent b\n",
		},
		[]string{"not proven: violated", "Try: lockagent events state orders/42 --at " + at + " --file -\n"})
	auditor("--lock", "orders/42").expect(t, cli.ExitViolated, []string{"violated: "}, nil)
	auditor("--lock", "orders/43").expect(t, cli.ExitEmpty, nil, []string{`has no holds of "orders/43"`})
}

// A violation that is of no lock is shown by the events of its agent.
func TestEventsAuditOfAContradiction(t *testing.T) {
	s := &logtest.Script{T: t}
	s.Add("a", logtest.Begun, lockagent.Event{Kind: lockagent.EventAgentStarted})
	for i := range 4 {
		at := logtest.Begun.Add(time.Duration(i) * 10 * time.Second)
		s.Add("a", at, lockagent.Event{
			Kind: lockagent.EventAlive, Count: min(i, 1), StoreTime: lockagent.StoreTime(at.UnixMicro()),
		})
	}
	log := s.Text.String()
	const try = "tail --all --follow=false --agent a --file -"
	callWith(t, log, "events", "audit", "--file", "-").expect(
		t, cli.ExitViolated, []string{"violation: agent a: contradiction"}, []string{"Try: lockagent events " + try + "\n"},
	)
	callWith(t, log, append([]string{"events"}, strings.Fields(try)...)...).expect(t, cli.ExitOK, []string{"alive"}, nil)
}

// A log whose events are all older than what is asked for is not empty.
func TestEventsAuditOfTheTimeSince(t *testing.T) {
	t.Parallel()
	log := logtest.Overlapping(t, logtest.Begun)
	url := published(t, log)
	unused, _ := emptyStream(t)
	const none = "; the latest is of "
	for name, test := range map[string]struct {
		log        string
		args, want []string
	}{
		"File": {log, []string{"--file", "-"}, []string{
			none + readable.Time(logtest.Begun.Add(5*time.Second), time.Now()) + "\n", "Try: lockagent events audit --file -\n",
		}},
		"Stream": {
			"",
			[]string{"--nats", url},
			[]string{none, "Try: lockagent events audit --nats " + url + "\n"},
		},
		"EmptyFile":   {"", []string{"--file", "-"}, []string{"the event log is empty"}},
		"EmptyStream": {"", []string{"--nats", unused}, []string{"the event log is empty"}},
		"Lock": {
			log,
			[]string{"--file", "-", "--lock", "orders/42"},
			[]string{`the event log has no holds of "orders/42"` + "\n", "Try: lockagent events holders"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"events", "audit", "--begin", "1ns"}, test.args...)
			callWith(t, test.log, args...).expect(t, cli.ExitEmpty, []string{"empty: there are no records since 2"},
				test.want)
		})
	}
	var report audit.Report
	recent := logtest.Overlapping(t, time.Now().Add(-time.Minute))
	r := callWith(t, recent, "events", "audit", "--file", "-",
		"--begin", "1h", "--lock", "orders/41", "--format", "json")
	r.expect(t, cli.ExitEmpty, nil, []string{`no holds of "orders/41"`})
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if ago := time.Since(report.Since); ago < time.Hour || !strings.HasPrefix(report.Summary(), "no hold began since 2") {
		t.Errorf("the log was read from %v on: %s", report.Since, report.Summary())
	}
}

// Whatever a verb shows of an agent's identity selects its events, and tells the daemons of two hosts apart.
func TestShortAgent(t *testing.T) {
	const made = "7da413f3-4969-83d3-a471-6d22f76c89bc"
	for id, want := range map[lockagent.AgentID]string{
		made: "7da413f3", "webserver-1-" + made: "webserver-1-7da413f3", "vm-" + made: "vm-7da413f3",
		"agent-number-1": "agent-number-1", "a": "a", "deadbeef": "deadbeef",
	} {
		s := &logtest.Script{T: t}
		s.Add(id, logtest.Begun, lockagent.Event{Kind: lockagent.EventAgentStarted})
		s.Add("another", logtest.Begun, lockagent.Event{Kind: lockagent.EventAgentStarted})
		s.Add(id, logtest.Begun, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "joe", Request: 1, Tenure: 1, Token: 1,
		})
		callWith(t, s.Text.String(), "events", "history", "orders/42", "--file", "-").expect(
			t, cli.ExitOK, []string{"  " + want + "\n"}, nil,
		)
		for _, asked := range []string{want, string(id)} {
			r := callWith(t, s.Text.String(), "events", "tail", "--file", "-", "--agent", asked)
			r.expect(t, cli.ExitOK, []string{"Z  " + want + " #"}, nil)
			if n := len(lines(r.stdout)); n != 2 {
				t.Errorf("%s selects %d lines:\n%s", asked, n, r.stdout)
			}
		}
	}
}
