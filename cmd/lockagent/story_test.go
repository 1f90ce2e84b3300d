package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventscmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// What another agent was granted later is over, though the log has no end of it.
func TestHoldersAreNotSuperseded(t *testing.T) {
	s := &logtest.Script{T: t}
	for i, agent := range []lockagent.AgentID{"a", "b"} {
		s.Add(agent, logtest.Begun, lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: lockagent.Owner("of " + agent), Tenure: 1,
			Token: lockagent.Token(100 * (i + 1)), How: lockagent.ByStore, Count: 1,
		})
	}
	callWith(t, s.Text.String(), "events", "holders", "--file", "-").expect(t, cli.ExitOK,
		[]string{`"of b"`, "1 hold, 0 requests wait"}, nil)
}

// The verbs, on a file.
func TestEventsLook(t *testing.T) {
	log := logtest.LossOf(t, time.Now().Add(-time.Hour))
	run := func(args ...string) result {
		t.Helper()
		return callWith(t, log, append(append([]string{"events"}, args...), "--file", "-")...)
	}
	run("history", "orders/42").expect(t, cli.ExitOK, []string{"orders/42: 2 holds of 2 agents", "lost (deadline)"}, nil)
	run("history", "orders/42", "--last", "1").
		expect(t, cli.ExitOK, []string{"orders/42: 1 hold of 1 agent", "released"}, nil)
	run("history", "orders/42", "--since", "1m").
		expect(t, cli.ExitEmpty, []string{"orders/42: 0 holds of 0 agents\n"}, []string{"no holds", "Try: "})
	run("history", "orders/43", "--since", "1m").expect(t, cli.ExitOK, []string{"orders/43: 1 hold of 1 agent\n"}, nil)
	run("state", "orders/43").expect(t, cli.ExitOK, []string{"held by  /8", `waiting  "joe"`}, nil)
	run("state", "orders/42", "--at", "-30m").expect(t, cli.ExitOK, []string{"nobody held it", "before   /7"}, nil)
	run("holders").expect(t, cli.ExitOK, []string{"orders/43", "1 hold, 1 request waits"}, nil)
	run("holders", "--lock", "orders/43").expect(t, cli.ExitOK, []string{"1 hold, 1 request waits"}, nil)
	run("holders", "--lock", "orders/42").expect(t, cli.ExitOK, []string{"nobody holds a lock, 0 requests wait"}, nil)

	run("holders", "--lock", "zz/>").expect(t, cli.ExitEmpty, nil, []string{`nothing of locks such as "zz/>"`, "Try: "})
	for _, verb := range []string{"holders", "tail"} {
		run(verb, "--lock", "zz/>/x").expect(t, cli.ExitUsage, nil, []string{"'>' is not the last part", "Try: "})
	}
	run("tail", "--agent", "a.b").expect(t, cli.ExitUsage, nil, []string{`no agent is named "a.b"`})

	nothing := []string{`the event log has nothing of "orders/44"`, "Try: lockagent events holders"}
	run("history", "orders/44").expect(t, cli.ExitEmpty, nil, nothing)
	run("state", "orders/44", "--at", "-1m").expect(t, cli.ExitEmpty, nil, nothing)
	callWith(t, "", "events", "holders", "--file", "-").expect(t, cli.ExitEmpty, nil,
		[]string{"the event log has nothing", "Try: "})

	var history eventscmd.HistoryView
	decodeJSON(t, run("history", "orders/42", "--format", "json"), &history)
	if h := history.Holds; history.Version != 1 || len(h) != 2 || h[0].Owner != "joe" || h[0].Process.Host != "web-1" ||
		h[0].Reason != lockagent.LostDeadline {
		t.Errorf("the history is %+v", history)
	}
	var state eventscmd.StateView
	decodeJSON(t, run("state", "orders/43", "--format", "json"), &state)
	if state.Version != 1 || len(state.Holders) != 1 || state.Holders[0].Token != 300 ||
		len(state.Waiters) != 1 || state.Waiters[0].Owner != "joe" {
		t.Errorf("the state is %+v", state)
	}
	var holders eventscmd.HoldersView
	decodeJSON(t, run("holders", "--format", "json"), &holders)
	if h := holders.Holds; holders.Version != 1 || len(h) != 1 || h[0].Hold.Lock != "orders/43" || h[0].LeaseEnd == nil ||
		holders.Waiters != 1 {
		t.Errorf("the holders are %+v", holders)
	}
}

// decodeJSON reads the output of a verb, which has no fields that are not known.
func decodeJSON(t *testing.T, r result, v any) {
	t.Helper()
	r.expect(t, cli.ExitOK, nil, nil)
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("it cannot be read: %v\n%s", err, r.stdout)
	}
}

// Of a lock that was passed, the grant names the short lease of a pass. What goes on is the lease that its
// agent keeps: a sign of life says that, and when the store confirmed it.
func passed(t *testing.T) *logtest.Script {
	s := &logtest.Script{T: t}
	at := func(seconds int) time.Time { return logtest.Begun.Add(time.Duration(seconds) * time.Second) }
	store := func(seconds int) lockagent.StoreTime { return lockagent.StoreTime(at(seconds).UnixMicro()) }
	s.Add("a", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", PID: 7},
	})
	s.Add("b", at(0), lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-2", PID: 7},
	})
	s.Add("a", at(1), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "joe", Request: 1, Tenure: 1, Token: 100,
		How: lockagent.ByStore, Count: 1, Lease: lockagent.PassLease, StoreTime: store(1),
	})
	s.Add("a", at(4), lockagent.Event{
		Kind: lockagent.EventAlive, Count: 1, StoreTime: store(4), Confirmed: store(3), Lease: 30 * time.Second,
	})
	return s
}

func TestHoldersOfALockThatWasPassed(t *testing.T) {
	log := passed(t).Text.String()
	var v eventscmd.HoldersView
	decodeJSON(t, callWith(t, log, "events", "holders", "--file", "-", "--format", "json"), &v)
	if want := logtest.Begun.Add(33 * time.Second); len(v.Holds) != 1 || v.Holds[0].LeaseEnd == nil ||
		!v.Holds[0].LeaseEnd.Equal(want) {
		t.Errorf("the holders are %+v, want a lease until %v", v.Holds, want)
	}
}

// A verb reads of a stream only what it needs. It says what it would say of all.
func TestVerbsSayTheSameOfAStreamAndOfAFile(t *testing.T) {
	t.Parallel()
	s := passed(t)
	crashed := s.Text.String()
	s.Restart("a", logtest.Begun.Add(20*time.Second))
	s.Add("a", logtest.Begun.Add(21*time.Second), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: "orders/42", Owner: "ann", Request: 1, Holder: "a:1",
	})
	s.Add("a", logtest.Begun.Add(22*time.Second), lockagent.Event{
		Kind: lockagent.EventAlive, StoreTime: 5, Confirmed: 4, Lease: time.Hour,
	})
	restarted := s.Text.String()
	s.Add("b", logtest.Begun.Add(40*time.Second), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "sue", Tenure: 1, Token: 200, How: lockagent.ByStore,
		Count: 1,
		Lease: time.Second, StoreTime: lockagent.StoreTime(logtest.Begun.Add(40 * time.Second).UnixMicro()),
	})
	for log, want := range map[string]string{
		crashed:                               `"lease_us": 30000000`,
		restarted:                             `"gone": true`,
		s.Text.String():                       `"superseded": true`,
		logtest.LossOf(t, logtest.Begun):      `"reason": "deadline"`,
		logtest.Overlapping(t, logtest.Begun): `"ended": "released"`,
	} {
		url := published(t, log)
		for _, verb := range [][]string{
			{"history", "orders/42"},
			{"state", "orders/42", "--at", logtest.Begun.Add(3 * time.Second).Format(time.RFC3339)},
		} {
			verb = append(append([]string{"events"}, verb...), "--format", "json")
			file, stream := callWith(t, log, append(verb, "--file", "-")...), call(t, append(verb, "--nats", url)...)
			if file.stdout != stream.stdout || file.code != cli.ExitOK || !strings.Contains(file.stdout, want) {
				t.Errorf("%q says of a file\n%s%s\nof a stream\n%s%s\nwant %s", verb, file.stdout, file.stderr,
					stream.stdout, stream.stderr, want)
			}
		}
	}
}

// emptyStream makes a stream without events.
func emptyStream(t *testing.T) (url string, js jetstream.JetStream) {
	t.Helper()
	url = natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
	js = jetStream(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: natslog.DefaultStream, Subjects: []string{events.AllSubjects},
	}); err != nil {
		t.Fatal(err)
	}
	return url, js
}

// published makes a stream of a log.
func published(t *testing.T, log string) (url string) {
	t.Helper()
	url, js := emptyStream(t)
	for line := range strings.Lines(log) {
		var r events.Record
		err := events.ReadLines(strings.NewReader(line), func(read *events.Record, err error) error {
			r = *read
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		subject := string(events.AppendSubject(nil, events.DefaultPrefix, r.Agent, r.Kind, r.Lock))
		if _, err := js.Publish(t.Context(), subject, []byte(strings.TrimSpace(line))); err != nil {
			t.Fatal(err)
		}
	}
	return url
}

// A report tells of a hold what the history tells of it.
func TestAuditTellsOfAHoldWhatHistoryTells(t *testing.T) {
	s := &logtest.Script{T: t}
	for i, kind := range []lockagent.EventKind{lockagent.EventHeld, lockagent.EventGranted} {
		agent, from := lockagent.AgentID([]string{"a", "b"}[i]), logtest.Begun.Add(time.Duration(i+1)*time.Second)
		until := from.Add(4 * time.Second)
		began, ended := lockagent.StoreTime(from.UnixMicro()), lockagent.StoreTime(until.UnixMicro())
		hold := lockagent.Event{
			Kind: kind, Lock: "orders/42", Owner: "me", Request: 1, Tenure: 1, Token: lockagent.Token(began),
			Lease: 10 * time.Second,
			How:   lockagent.ByStore, StoreTime: began, Held: 4 * time.Second, Confirmed: began, Until: ended,
			Who: lockagent.Process{Program: "backup.sh", PID: 4711 + i, User: "root", Host: "db3"}.Who(),
		}
		s.Add(agent, from, lockagent.Event{
			Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web", PID: 7},
		})
		if kind == lockagent.EventGranted {
			granted := hold
			granted.Count, granted.Held, granted.Confirmed, granted.Until = 1, 0, 0, 0
			s.Add(agent, from, granted)
			hold.Kind, hold.How, hold.StoreTime, hold.Reason = lockagent.EventLost, 0, 0, lockagent.LostDenied
			from = until
		}
		s.Add(agent, from, hold)
		s.Add(agent, until, lockagent.Event{Kind: lockagent.EventAgentStopped})
	}
	log := s.Text.String()
	var report audit.Report
	if err := json.Unmarshal(
		[]byte(callWith(t, log, "events", "audit", "--file", "-", "--format", "json").stdout), &report,
	); err != nil {
		t.Fatal(err)
	}
	var history eventscmd.HistoryView
	decodeJSON(t, callWith(t, log, "events", "history", "orders/42", "--file", "-", "--format", "json"), &history)
	if len(report.Violations.First) != 1 || len(history.Holds) != 2 {
		t.Fatalf("the report is %+v, the history %+v", report, history)
	}
	v := report.Violations.First[0]
	for i, told := range []fold.Hold{v.First, v.Second} {
		want := history.Holds[i]
		if i == 1 { // of the second the audit tells how it began
			want.Ended, want.Reason, want.Until, want.Held, want.End = told.Ended, told.Reason, told.Until, told.Held, told.End
		}
		// An audit does not remember these.
		want.How, want.Request, want.Grants = told.How, told.Request, told.Grants
		if told != want {
			t.Errorf("the report says\n%+v\nthe history\n%+v", told, want)
		}
	}
}
