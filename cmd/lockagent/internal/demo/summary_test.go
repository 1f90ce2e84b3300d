package demo

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/events"
)

// listed is a list of n things, of which it names as many as a report does.
func listed[T events.Listed[T]](n int, x T) events.List[T] {
	return events.List[T]{Count: n, First: slices.Repeat([]T{x}, min(n, 11))}
}

func TestJudge(t *testing.T) {
	complete := func(r events.Report) events.Report {
		r.Agents, r.Grants = 2, 1000
		return r
	}
	reset := &events.StoreReset{From: "one", To: "two", Reason: "emptied"}
	for name, test := range map[string]struct {
		report events.Report
		err    error
		ok     bool
		says   string // part of the text
	}{
		"proven": {report: complete(events.Report{Verdict: events.Proven}), ok: true, says: "no two of 1,000 holds overlapped"},
		"explained": {
			report: complete(events.Report{Verdict: events.Explained, Resets: listed(1, *reset), Explained: listed(1, events.Explanation{Reset: reset})}),
			ok:     true, says: `the store was reset (emptied)`,
		},
		"incomplete": {
			report: complete(events.Report{Verdict: events.Incomplete, Gaps: listed(1, events.Gap{Agent: "a", Epoch: 1, Range: events.Range{First: 3, Last: 9}})}),
			says:   "missing: records 3 to 9 of agent a, epoch 1",
		},
		"violated":   {report: complete(events.Report{Verdict: events.Violated, Violations: listed(12, events.Violation{})}), says: "       and 2 more"},
		"gaps":       {report: complete(events.Report{Verdict: events.Incomplete, Gaps: listed(12, events.Gap{Agent: "a"})}), says: "       and 2 more"},
		"unproven":   {report: complete(events.Report{Verdict: events.Incomplete, Unproven: events.UnprovenList{List: listed(1, events.Unproven{Why: "a reason"}), Reasons: []events.Reason{{Why: "a reason", Count: 1}}}}), says: "a reason"},
		"unreadable": {report: complete(events.Report{Verdict: events.Incomplete, Unreadable: listed(1, events.Note("message 7"))}), says: "message 7"},
		"open hold":  {report: complete(events.Report{Verdict: events.Proven, OpenHolds: listed(1, events.Hold{})}), says: "0 agents and 1 hold"},
		"open end":   {report: complete(events.Report{Verdict: events.Proven, Tails: listed(1, events.Tail{})}), says: "1 agent and 0 holds"},
		"no log":     {report: events.Report{Verdict: events.Proven}, says: "2 agents and 0 holds"},
		"error":      {err: errors.New("no stream"), says: "no stream"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summary{OK: true, Agents: 2}
			s.judge(test.report, test.err)
			if s.OK != test.ok || len(s.Checks) != 1 || s.Checks[0].OK != test.ok {
				t.Errorf("OK is %v, checks are %+v; want %v", s.OK, s.Checks, test.ok)
			}
			var text bytes.Buffer
			if err := s.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), test.says) {
				t.Errorf("the text does not say %q:\n%s", test.says, text.String())
			}
		})
	}
}

func TestSummaryOfTrouble(t *testing.T) {
	s := &Summary{
		Locked: true, StoreResets: []string{"emptied"}, Losses: map[string]uint64{"denied": 2, "deadline": 1}, Unconfirmed: 1,
		Events: EventCounts{Published: 10, Dropped: 2, Unpublished: 1},
	}
	s.check(s.eventCheck())
	s.check(s.counterCheck())
	var text bytes.Buffer
	if err := s.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 (deadline), 2 (denied): each holder was told",
		"1 release of which the store could not be told in time",
		"1 (emptied): the store may have come back without what it knew",
		"\x1b[31mFAIL\x1b[m event log         10 facts published, 2 dropped, 1 not confirmed in time",
		"nobody has written anything",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text does not say %q:\n%s", want, text.String())
		}
	}
}
