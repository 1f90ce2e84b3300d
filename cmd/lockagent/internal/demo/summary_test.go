package demo

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
)

// listed is a list of n things, of which it names as many as a report does.
func listed[T audit.Listed[T]](n int, x T) audit.List[T] {
	return audit.List[T]{Count: n, First: slices.Repeat([]T{x}, min(n, 11))}
}

func TestJudge(t *testing.T) {
	complete := func(r audit.Report) audit.Report {
		r.Agents, r.Grants = 2, 1000
		return r
	}
	reset := &audit.StoreReset{From: "one", To: "two", Reason: "emptied"}
	for name, test := range map[string]struct {
		report audit.Report
		err    error
		ok     bool
		says   string // part of the text
	}{
		"proven": {report: complete(audit.Report{Verdict: audit.Proven}), ok: true, says: "no two of 1,000 holds overlapped"},
		"explained": {
			report: complete(audit.Report{
				Verdict: audit.Explained, Resets: listed(1, *reset), Explained: listed(1, audit.Explanation{Reset: reset}),
			}),
			ok: true, says: `the store was reset (emptied)`,
		},
		"grace": {
			report: complete(audit.Report{Verdict: audit.Proven, Graces: audit.List[audit.Grace]{Count: 3, First: []audit.Grace{
				{Reason: "first start", Began: 1_000_000, Ended: 3_000_000},
				{Reason: "emptied", Began: 5_000_000, Ended: 35_000_000, Missing: []lockagent.AgentID{"a", "b"}, More: 1},
				{Reason: "restarted", Began: 5_000_000},
			}}}),
			ok: true,
			says: "grace        3 periods in which the store waited for its holders: 2s (first start), 30s (emptied; a, b and " +
				"1 more did not come back), its end is not in the event log (restarted)\n",
		},
		"incomplete": {
			report: complete(audit.Report{
				Verdict:     audit.Incomplete,
				RecordHoles: listed(1, audit.RecordHole{Agent: "a", Epoch: 1, Range: events.Range{First: 3, Last: 9}}),
			}),
			says: "missing: records 3 to 9 of agent a, epoch 1",
		},
		"violated": {
			report: complete(audit.Report{Verdict: audit.Violated, Violations: listed(12, audit.Violation{})}),
			says:   "       and 2 more",
		},
		"gaps": {
			report: complete(audit.Report{Verdict: audit.Incomplete, RecordHoles: listed(12, audit.RecordHole{Agent: "a"})}),
			says:   "       and 2 more",
		},
		"unproven": {
			report: complete(audit.Report{
				Verdict: audit.Incomplete,
				Unproven: audit.UnprovenList{
					List: listed(1, audit.Unproven{Why: "a reason"}), Reasons: []audit.Reason{{Why: "a reason", Count: 1}},
				},
			}),
			says: "a reason",
		},
		"unreadable": {
			report: complete(audit.Report{Verdict: audit.Incomplete, Unreadable: listed(1, audit.Note("message 7"))}),
			says:   "message 7",
		},
		"open hold": {
			report: complete(audit.Report{Verdict: audit.Proven, OpenHolds: listed(1, audit.NamedHold{})}),
			says:   "0 agents and 1 hold",
		},
		"open end": {
			report: complete(audit.Report{Verdict: audit.Proven, Tails: listed(1, audit.Tail{})}), says: "1 agent and 0 holds",
		},
		"no log": {report: audit.Report{Verdict: audit.Proven}, says: "2 agents and 0 holds"},
		"error":  {err: errors.New("no stream"), says: "no stream"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summary{OK: true, Agents: 2, Locked: true}
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
