package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventscmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events/fold"
)

// stretch has the flags for a stretch of time, so many seconds after the beginning of the log. A negative end is open.
func stretch(since, until float64) (flags []string) {
	at := func(seconds float64) string {
		return logtest.Begun.Add(time.Duration(seconds * float64(time.Second))).Format(time.RFC3339Nano)
	}
	if since >= 0 {
		flags = append(flags, "--since", at(since))
	}
	if until >= 0 {
		flags = append(flags, "--until", at(until))
	}
	return flags
}

// ofFile runs a verb on a log in a file.
func ofFile(t *testing.T, log string, flags []string, verb ...string) result {
	t.Helper()
	return callWith(t, log, append(append([]string{"events"}, append(verb, "--file", "-")...), flags...)...)
}

// A history has the holds that were held at some time in the stretch.
func TestHistoryOfAStretch(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	for _, test := range []struct {
		since, until float64
		holds        int
	}{{-1, -1, 2}, {0, 0.5, 0}, {-1, 1, 1}, {4, 4.5, 1}, {5, 5.2, 0}, {4, 6, 2}, {6, -1, 1}, {7, -1, 0}} {
		r := ofFile(t, log, stretch(test.since, test.until), "history", "orders/42", "--format", "json")
		var v eventscmd.HistoryView
		if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || len(v.Holds) != test.holds ||
			(r.code == cli.ExitEmpty) != (test.holds == 0) {
			t.Errorf(
				"from %v to %v: %d holds, want %d; exit code %d, %v", test.since, test.until, len(v.Holds), test.holds, r.code, err,
			)
		}
	}
	ofFile(t, log, stretch(7, -1), "history", "orders/42").expect(t, cli.ExitEmpty, nil, []string{
		`the event log has no holds of "orders/42" since `,
	})
}

func TestHistoryOfAPattern(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	for _, place := range []string{"file", "nats"} {
		source, stdin := []string{"--file", "-"}, log
		if place == "nats" {
			source, stdin = []string{"--nats", published(t, log)}, ""
		}
		history := func(args ...string) result {
			return callWith(t, stdin, append(append([]string{"events", "history"}, args...), source...)...)
		}
		history("orders/>").expect(
			t, cli.ExitOK,
			[]string{
				"orders/>: 3 holds of 2 agents", "LOCK       FROM ", "orders/42  2026-11-21 14:03:01",
				"orders/43  2026-11-21 14:03:08",
			},
			nil,
		)
		history("*/43", "--last", "5").expect(t, cli.ExitOK, []string{"*/43: 1 hold of 1 agent"}, nil)
		history("billing/>").expect(t, cli.ExitEmpty, nil, []string{`the event log has nothing of locks such as "billing/>"`})
		lines := lines(history("orders/>", "--format", "jsonl").stdout)
		var locks []lockagent.Name
		for _, line := range lines {
			var of struct {
				Version int
				Hold    fold.Hold
			}
			if err := json.Unmarshal([]byte(line), &of); err != nil || of.Version != cli.JSONVersion {
				t.Errorf("%v: %s", err, line)
			}
			locks = append(locks, of.Hold.Lock)
		}
		if len(locks) != 3 || locks[0] != "orders/42" || locks[2] != "orders/43" {
			t.Errorf("the lines are about %q", locks)
		}
	}
}

func TestHoldersThen(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	for name, test := range map[string]struct {
		flags []string
		says  []string
	}{
		"BeforeAll": {
			[]string{"--at", logtest.Begun.Add(time.Second / 2).Format(time.RFC3339Nano)},
			[]string{"nobody held a lock at ", "0 requests waited"},
		},
		"OneAndTwo": {
			[]string{"--at", logtest.Begun.Add(3 * time.Second).Format(time.RFC3339)},
			[]string{
				`orders/42  "joe"  2026-11-21 14:03:01`, "lost (deadline)", "1 hold at ", "2 requests waited", "granted",
				"timedout",
			},
		},
		"Another": {
			[]string{"--at", logtest.Begun.Add(8500 * time.Millisecond).Format(time.RFC3339Nano)},
			[]string{"orders/43  /8", "1 hold at ", "0 requests waited"},
		},
		"AStretch":   {stretch(4, 8.5), []string{"orders/42", "orders/43", "3 holds from ", "2 requests waited"}},
		"OnlyUntil":  {stretch(-1, 4), []string{"1 hold until ", "2 requests waited"}},
		"OnlySince":  {stretch(7.5, -1), []string{"1 hold from ", "1 request waited"}},
		"OfAPattern": {append(stretch(4, 8.5), "--lock", "*/43"), []string{"orders/43", "1 hold from "}},
		"JSONOfAPoint": {
			[]string{"--at", logtest.Begun.Add(3 * time.Second).Format(time.RFC3339), "--format", "json"},
			[]string{`"at": "`, `"became_of": "timedout"`, `"waiters": 2`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ofFile(t, log, test.flags, "holders").expect(t, cli.ExitOK, test.says, nil)
		})
	}
	var v eventscmd.HoldersView
	decodeJSON(t, ofFile(t, log, append(stretch(4, 8.5), "--format", "json"), "holders"), &v)
	waiters := make(map[lockagent.Name]int)
	for _, h := range v.Holds {
		waiters[h.Hold.Lock] = h.Waiters
	}
	if waiters["orders/42"] != 2 || waiters["orders/43"] != 0 {
		t.Errorf("so many wait: %v", waiters)
	}
	ofFile(t, log, stretch(4, 8.5), "holders", "--lock", "billing/>").expect(
		t, cli.ExitEmpty, nil, []string{`nothing of locks such as "billing/>"`},
	)
}

func TestStateOfAStretch(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	ofFile(t, log, stretch(4, 6), "state", "orders/42").expect(t, cli.ExitOK, []string{
		"orders/42 from ", `held by  "joe"`, "held by  /7", "waiting  /7", `waiting  "sue"`, "timedout at ", "after 4s",
	}, nil)
	ofFile(t, log, stretch(5.1, 5.2), "state", "orders/42").expect(
		t, cli.ExitOK, []string{"free", `before   "joe"`, "after    /7"}, nil,
	)
	var v eventscmd.StateView
	decodeJSON(t, ofFile(t, log, stretch(4, 6), "state", "orders/42", "--format", "json"), &v)
	if !v.At.IsZero() || v.Since.IsZero() || v.Until.IsZero() || len(v.Holders) != 2 || len(v.Waiters) != 2 {
		t.Errorf("the state is %+v", v)
	}
}

// The end of what is shown is when the stream took an event, or else when its agent recorded it.
func TestTailOfAStretch(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	tail := func(since, until float64) int {
		r := ofFile(t, log, stretch(since, until), "tail")
		r.expect(t, cli.ExitOK, nil, nil)
		return len(lines(r.stdout))
	}
	all := tail(-1, 100)
	if early, late := tail(-1, 5.2), tail(5.3, 100); early == 0 || late == 0 || early+late != all ||
		all != len(lines(log)) {
		t.Errorf("%d and %d of %d lines", early, late, all)
	}
	url := published(t, log) // now
	for _, test := range []struct {
		flags []string
		want  int
	}{{[]string{"--until", "1h"}, 0}, {[]string{"--since", "1h", "--until", time.Now().Format(time.RFC3339Nano)}, all}} {
		r := call(t, append([]string{"events", "tail", "--nats", url}, test.flags...)...)
		if r.expect(t, cli.ExitOK, nil, nil); len(lines(r.stdout)) != test.want {
			t.Errorf("%q shows %d lines, want %d", test.flags, len(lines(r.stdout)), test.want)
		}
	}
}

// One hold is from 0 to 4 s, and the other one from 1 to 5 s.
func TestAuditOfAStretch(t *testing.T) {
	log := logtest.Overlapping(t, logtest.Begun)
	for _, test := range []struct {
		since, until float64
		code         int
		says         string
	}{
		{-1, 0.5, cli.ExitOK, "The verdict is about what was held up to "},
		{4.5, -1, cli.ExitOK, "The verdict is about what was held since "},
		{2, 3, cli.ExitViolated, "violated: "},
		{-1, 1, cli.ExitViolated, "violated: "},
		{4, 4.1, cli.ExitViolated, "violated: "},
		{6, 7, cli.ExitEmpty, "empty: the log has no holds from "},
	} {
		ofFile(t, log, stretch(test.since, test.until), "audit").expect(t, test.code, []string{test.says}, nil)
	}
	ofFile(t, log, stretch(6, 7), "audit").expect(t, cli.ExitEmpty, nil, []string{"the event log has no holds from "})
	ofFile(t, log, stretch(6, 7), "audit", "--lock", "orders/>").expect(
		t, cli.ExitEmpty, nil, []string{`has no holds of "orders/>" from `},
	)
}

func TestAuditOfAPattern(t *testing.T) {
	log := logtest.Overlapping(t, logtest.Begun)
	ofFile(t, log, nil, "audit", "--lock", "orders/*").expect(t, cli.ExitViolated, []string{"violated: "}, nil)
	ofFile(t, log, nil, "audit", "--lock", "billing/>").expect(
		t, cli.ExitEmpty, nil, []string{`has no holds of "billing/>"`},
	)
}

func TestEventsTop(t *testing.T) {
	log := logtest.LossOf(t, logtest.Begun)
	ofFile(t, log, stretch(-1, 10), "top").expect(t, cli.ExitOK, []string{
		"Locks that were waited for the longest until ", "orders/42  7.5s    2      4s       1",
		"orders/43  1s      1      1s       0",
		"Longest waits until ", `orders/42  "sue"  2026-11-21 14:03:02`, "timedout", `orders/43  "joe"  2026-11-21 14:03:09`,
		"waits",
		"Longest holds until ", `orders/42  "joe"  2026-11-21 14:03:01`, "4s ", "orders/43  /8", "2s ",
		"Holds that were lost until ", "web-1  1     deadline: 1",
	}, nil)
	var v eventscmd.TopView
	decodeJSON(t, ofFile(t, log, stretch(5.2, 7), "top", "--format", "json"), &v)
	if len(v.Locks) != 1 || v.Locks[0].Waits != 2 || v.Locks[0].WaitedUS != 7_500_000 || v.Locks[0].GaveUp != 1 ||
		len(v.Losses) != 0 || len(v.Holds) != 1 || v.Holds[0].HeldUS != 1_500_000 {
		t.Errorf("the lists are %+v", v)
	}
	some := lines(ofFile(t, log, stretch(-1, 10), "top", "--limit", "1", "--format", "jsonl").stdout)
	if text := strings.Join(some, ""); len(some) != 4 ||
		!strings.Contains(text, `{"version":1,"list":"locks","lock":"orders/42"`) ||
		!strings.Contains(text, `"list":"losses","host":"web-1","losses":1,"reasons":{"deadline":1}`) {
		t.Errorf("the lines are\n%s", text)
	}
	ofFile(t, log, nil, "top", "--lock", "billing/>").expect(t, cli.ExitEmpty, nil, []string{
		"nothing that was waited for, held or lost", `locks such as "billing/>"`,
	})
	// What went on at the end counts up to there, whatever became of it later.
	ofFile(t, log, stretch(-1, 3), "top").expect(t, cli.ExitOK, []string{
		"orders/42  2s      2      1s       0", `1s      waits `, `orders/42  "joe"  2026-11-21 14:03:01.000Z  2s `,
	}, nil)
	ofFile(t, log, stretch(-1, 0.5), "top").expect(
		t, cli.ExitEmpty, nil, []string{"lost until ", "Try: lockagent events top"},
	)
	// The command to try is not the same again.
	ofFile(t, "", nil, "top").expect(t, cli.ExitEmpty, nil, []string{"held or lost\nTry: lockagent demo"})
}

// A verb that is about a lock refuses a pattern that cannot be one, and says what a pattern is like.
func TestPatternOfOneLock(t *testing.T) {
	for _, verb := range []string{"history", "state"} {
		ofFile(t, "", nil, verb, "orders/>/x").expect(t, cli.ExitUsage, nil,
			[]string{"lockagent: '>' is not the last part", "Try: lockagent events " + verb + " 'orders/>' --file -\n"})
	}
}

// What a name has in it does not control the terminal.
func TestNameThatControlsTheTerminal(t *testing.T) {
	const name = "orders/\x1b[31m42"
	s := &logtest.Script{T: t}
	s.Add("a", logtest.Begun, lockagent.Event{Kind: lockagent.EventAgentStarted})
	s.Add("a", logtest.Begun.Add(time.Second), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: name, Owner: "joe", Request: 1, Tenure: 1, Token: 1,
	})
	for _, verb := range []string{"history", "state"} {
		r := ofFile(t, s.Text.String(), nil, verb, name)
		if r.expect(t, cli.ExitOK, []string{"orders/\ufffd[31m42"}, nil); strings.Contains(r.stdout, "\x1b") {
			t.Errorf("%s: %q", verb, r.stdout)
		}
	}
}
