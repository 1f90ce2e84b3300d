package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
)

// What the verbs say of one hold is the same.
func TestVerbsAgree(t *testing.T) {
	at := func(seconds int) time.Time { return time.Now().Add(time.Duration(seconds-100) * time.Second) }
	store := func(seconds int) lockagent.StoreTime { return lockagent.StoreTime(at(seconds).UnixMicro()) }
	granted := func(tenure uint64, seconds int) lockagent.Event {
		return lockagent.Event{
			Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "joe", Request: tenure, Tenure: tenure,
			Token: lockagent.Token(store(seconds)),
			How:   lockagent.ByStore, Count: 1, Lease: 30 * time.Second, StoreTime: store(seconds),
		}
	}
	alive := func(s *logtest.Script, count int) {
		s.Add(
			"a", at(99),
			lockagent.Event{
				Kind: lockagent.EventAlive, Count: count, StoreTime: store(99), Confirmed: store(98),
				Lease: 30 * time.Second,
			},
		)
	}
	for want, log := range map[string]func(s *logtest.Script){
		"held":                      func(s *logtest.Script) { s.Add("a", at(1), granted(1, 1)); alive(s, 1) },
		"its agent is silent since": func(s *logtest.Script) { s.Add("a", at(1), granted(1, 1)) },
		"its agent ended without a release": func(s *logtest.Script) {
			s.Add("a", at(1), granted(1, 1))
			s.Restart("a", at(50))
			alive(s, 0)
		},
		"lost (closed), its lease ends at ": func(s *logtest.Script) { // it was fixed
			e := granted(1, 1)
			s.Add("a", at(1), e)
			e.Kind, e.Reason, e.Fixed = lockagent.EventLost, lockagent.LostClosed, true
			e.Count, e.Lease, e.Confirmed = 0, time.Hour, store(1)
			s.Add("a", at(2), e)
		},
	} {
		s := &logtest.Script{T: t}
		s.Add("a", at(0),
			lockagent.Event{Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", PID: 7}})
		log(s)
		for _, verb := range [][]string{{"holders"}, {"history", "orders/42"}, {"state", "orders/42"}} {
			callWith(t, s.Text.String(), slices.Concat([]string{"events"}, verb, []string{"--file", "-"})...).
				expect(t, cli.ExitOK, []string{want, `"joe"`}, nil)
		}
	}
}

// The end of a hold is something, though its grant is missing. And a line that is empty is nothing.
func TestAuditOfALockWithoutAGrant(t *testing.T) {
	s := &logtest.Script{T: t}
	s.Add("a", logtest.Begun,
		lockagent.Event{Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "web-1", PID: 7}})
	s.Seq["a"]++
	s.Add("a", logtest.Begun.Add(2*time.Second), lockagent.Event{
		Kind: lockagent.EventReleased, Lock: "orders/42", Owner: "joe", Tenure: 1, Token: 7, Held: time.Second,
		Lease:     time.Minute,
		Confirmed: lockagent.StoreTime(logtest.Begun.UnixMicro()),
		Until:     lockagent.StoreTime(logtest.Begun.Add(2 * time.Second).UnixMicro()),
	})
	callWith(t, s.Text.String(), "events", "audit", "--file", "-", "--lock", "orders/42").
		expect(t, cli.ExitIncomplete, []string{"unproven: ", "missing: "}, nil)
	callWith(t, "\n"+logtest.Overlapping(t, logtest.Begun), "events", "audit", "--file", "-").
		expect(t, cli.ExitViolated, nil, nil)
}

// What a log says does not control the terminal, and makes up no lines.
func TestNoControlFromTheLog(t *testing.T) {
	const evil = "x\x1b[31m\nproven: all is well"
	s := &logtest.Script{T: t}
	s.Add(
		"a", logtest.Begun,
		lockagent.Event{
			Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: evil, Program: evil, PID: 7},
		},
	)
	s.Add("a", logtest.Begun, lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/42", Owner: "a/" + evil, Request: 1, Tenure: 1,
		Token: lockagent.Token(logtest.Begun.UnixMicro()), How: lockagent.ByStore,
		Count: 1, Lease: time.Minute, StoreTime: lockagent.StoreTime(logtest.Begun.UnixMicro()),
	})
	s.Add("a", logtest.Begun.Add(time.Second),
		lockagent.Event{Kind: lockagent.EventStoreReset, Reset: lockagent.Reset{From: "x", To: evil, Reason: evil}})
	s.Add("a", logtest.Begun.Add(time.Second), lockagent.Event{
		Kind:  lockagent.EventGraceEnded,
		Grace: &lockagent.GracePeriod{Incarnation: evil, Reason: evil, Roll: []lockagent.AgentID{evil}},
	})
	s.Add("a", logtest.Begun.Add(time.Second), lockagent.Event{
		Kind: lockagent.EventBroken, Lock: "orders/42", Owner: "a/" + evil, Request: 1, Tenure: 1,
		Token: lockagent.Token(logtest.Begun.UnixMicro()), Operator: evil,
		Held: time.Second, Lease: time.Minute, Confirmed: lockagent.StoreTime(logtest.Begun.UnixMicro()),
		Until: lockagent.StoreTime(logtest.Begun.Add(time.Second).UnixMicro()),
	})
	s.Add(
		"a", logtest.Begun.Add(time.Second),
		lockagent.Event{
			Kind: lockagent.EventQueued, Lock: "orders/43", Owner: evil, Request: 2, Holder: evil, Err: evil,
		},
	)
	for _, verb := range [][]string{
		{"holders"}, {"history", "orders/42"}, {"state", "orders/42"}, {"audit"}, {"tail"},
	} {
		r := callWith(t, s.Text.String(), slices.Concat([]string{"events"}, verb, []string{"--file", "-"})...)
		if text := r.stdout + r.stderr; strings.Contains(text, "\x1b") || strings.Contains(text, "\nproven: all") ||
			!strings.Contains(text, "31m") {
			t.Errorf("%s writes %q", verb, text)
		}
	}
}
