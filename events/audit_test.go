package events

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

func audited(records []Record) Report {
	a := NewAudit()
	for _, r := range records {
		a.Add(r)
	}
	return a.Report()
}

func told(stories []*story) (all []Record) {
	for _, s := range stories {
		all = append(all, s.records...)
	}
	return all
}

// verdicts are logs and what an audit has to say of each.
type verdicts map[string]struct {
	stories []*story
	verdict Verdict
	lines   []string // of the report, after the first two
}

func (v verdicts) check(t *testing.T) {
	for name, test := range v {
		t.Run(name, func(t *testing.T) {
			records := told(test.stories)
			report := audited(records)
			lines := strings.Split(strings.TrimSuffix(report.String(), "\n"), "\n")
			if report.Verdict != test.verdict || !slices.Equal(lines[2:], test.lines) {
				t.Errorf("got\n%v\nwant %s\n%s", report, test.verdict, strings.Join(test.lines, "\n"))
			}
			if report.OK() != (test.verdict != Violated) {
				t.Errorf("OK is %v", report.OK())
			}
			if _, err := json.Marshal(report); err != nil {
				t.Error(err)
			}
			// Neither the order of arrival nor repetition matters.
			rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
			again := audited(append(records, records...))
			again.Duplicates -= len(records)
			if !reflect.DeepEqual(again, report) {
				t.Errorf("shuffled:\n%v\nin order:\n%v", again, report)
			}
		})
	}
}

func TestAudit(t *testing.T) {
	reset := lockagent.Reset{From: "x", To: "y", Reason: "emptied", After: 110, Before: 140}
	verdicts{
		"Nothing": {nil, Incomplete, nil},
		"OneAfterTheOther": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 160).returned(1, 150).granted(2, 300, 300).released(2, 300, 310).stop(),
				agent("B").granted(1, 200, 150).released(1, 200, 220).returned(1, 210).stop(),
			},
			Proven, nil,
		},
		"PassedOn": { // each tenure begins at the very instant at which the one before ends
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 160).returned(1, 150).granted(2, 300, 200).released(2, 300, 230).returned(2, 200).stop(),
				agent("B").granted(1, 200, 150).released(1, 200, 220).returned(1, 200).stop(),
				agent("C").granted(1, 400, 200).released(1, 400, 210).returned(1, 205).stop(),
			},
			Proven, nil,
		},
		"PassedOnBeforeTheEnd": { // one instant too early
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 160).returned(1, 151).stop(),
				agent("B").granted(1, 200, 150).released(1, 200, 220).returned(1, 200).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 200 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 151 us, released)`,
			},
		},
		"HandOffsAndReentry": {
			[]*story{
				agent("A").granted(1, 100, 100).reentered(1, 100).released(1, 100, 120).handedOff(1, 101, 110).released(1, 101, 145).returned(1, 140).stop(),
				agent("B").granted(1, 200, 140).released(1, 200, 150).stop(),
			},
			Proven, nil,
		},
		"LaterEndBoundsEarlierOne": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 180).handedOff(1, 101, 100).lost(lockagent.LostDeadline, 1, 101, 150).stop(),
				agent("B").granted(1, 200, 160).released(1, 200, 220).stop(),
			},
			Proven,
			[]string{"lost (deadline): 1"},
		},
		"LossesAreCounted": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDeadline, 1, 100, 120).
					granted(2, 200, 130).ended(lockagent.EventExpired, 0, 2, 200, 140).
					granted(3, 300, 150).ended(lockagent.EventBroken, lockagent.LostBroken, 3, 300, 160).
					granted(4, 400, 170).ended(lockagent.EventUnclaimed, 0, 4, 400, 180).
					granted(5, 500, 190).lost(lockagent.LostDeadline, 5, 500, 200).stop(),
			},
			Proven,
			[]string{"lost (broken): 1", "lost (deadline): 2", "lost (expired): 1", "lost (unclaimed): 1"},
		},
		"StillHeldAndStillRunning": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 120).returned(1, 110).granted(2, 200, 200),
				agent("B").of("b").granted(1, 7, 50).stop(),
			},
			Proven,
			[]string{
				`still held: "a": token 200 (agent A, epoch 1, event 4, tenure 2, from 200 us)`,
				`still held: "b": token 7 (agent B, epoch 1, event 1, tenure 1, from 50 us)`,
				"not stopped: agent A, epoch 1: last event 4",
			},
		},
		"Overlap": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDeadline, 1, 100, 160).foundOver(1, 200),
				agent("B").granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (deadline): 1",
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (deadline))`,
				"not stopped: agent A, epoch 1: last event 3",
			},
		},
		"OverlapWithADeniedHold": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160),
				agent("B").granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied))`,
				"not stopped: agent A, epoch 1: last event 2",
			},
		},
		"OverlapWithNotTheLast": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 300).stop(),
				agent("B").granted(1, 200, 400).released(1, 200, 410).stop(),
				agent("C").granted(1, 500, 250).released(1, 500, 510).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 500 (agent C, epoch 1, event 1, tenure 1, from 250 us, until 510 us, released) began before the end of token 200 (agent B, epoch 1, event 1, tenure 1, from 400 us, until 410 us, released)`,
			},
		},
		"OverlapAcrossEpochs": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDeadline, 1, 100, 160).stop(),
				agent("A").in(2).granted(2, 200, 150).released(2, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (deadline): 1",
				`violation: "a": token 200 (agent A, epoch 2, event 1, tenure 2, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (deadline))`,
			},
		},
		"ReturnedBeforeTheEnd": { // the store was told before the owner
			[]*story{
				agent("A").granted(1, 100, 100).returned(1, 110).released(1, 100, 160).stop(),
				agent("B").granted(1, 200, 120).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 120 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, released)`,
			},
		},
		"OverlapWithinAnAgent": {
			[]*story{agent("A").granted(1, 100, 100).handedOff(1, 101, 100).released(1, 100, 120).released(1, 101, 130).stop()},
			Violated,
			[]string{
				`violation: "a": token 101 (agent A, epoch 1, event 2, tenure 1, from 100 us, until 130 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 120 us, released)`,
			},
		},
		"NeverEndedWithinAnAgent": {
			[]*story{agent("A").granted(1, 100, 100).handedOff(1, 101, 100).released(1, 101, 130).stop()},
			Violated,
			[]string{
				`violation: "a": token 101 (agent A, epoch 1, event 2, tenure 1, from 100 us, until 130 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us)`,
			},
		},
		"HandOffAfterTheTenureOfAnother": { // and both ended at the same time before
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 150).handedOff(1, 130, 100).released(1, 130, 170).stop(),
				agent("B").granted(1, 120, 150).released(1, 120, 150).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 130 (agent A, epoch 1, event 3, tenure 1, from 100 us, until 170 us, released) began before the end of token 120 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 150 us, released)`,
			},
		},
		"OverlapWithAHoldOfUnknownStart": {
			[]*story{
				agent("A").granted(1, 100, 0).released(1, 100, 160).reset(reset).stop(),
				agent("B").granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, until 160 us, released)`,
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, until 160 us, released): the log does not say when the store began its tenure`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
			},
		},
		"TokenRepeated": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 110).returned(1, 110).stop(),
				agent("B").granted(1, 100, 200).released(1, 100, 210).returned(1, 210).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 100 (agent B, epoch 1, event 1, tenure 1, from 200 us, until 210 us, released) has the token of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 110 us, released)`,
			},
		},
		"TokenFellWithinAnAgent": {
			[]*story{agent("A").granted(1, 100, 100).released(1, 100, 110).returned(1, 110).granted(2, 99, 120).released(2, 99, 130).stop()},
			Violated,
			[]string{
				`violation: "a": token 99 (agent A, epoch 1, event 4, tenure 2, from 120 us, until 130 us, released) came after token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 110 us, released)`,
			},
		},
		"TokenFellBetweenEpochs": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 110).stop(),
				agent("A").in(2).granted(2, 99, 99).released(2, 99, 100).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 99 (agent A, epoch 2, event 1, tenure 2, from 99 us, until 100 us, released) came after token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 110 us, released)`,
			},
		},
		"TokenFellBetweenAgents": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 110).stop(),
				agent("B").granted(1, 99, 120).released(1, 99, 130).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 99 (agent B, epoch 1, event 1, tenure 1, from 120 us, until 130 us, released) came after token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 110 us, released)`,
			},
		},
		"StrayReentry": {
			[]*story{agent("A").granted(1, 100, 100).reentered(1, 101).released(1, 100, 110).reentered(1, 100).stop()},
			Violated,
			[]string{
				`violation: "a": re-entry without a hold: token 101 (agent A, epoch 1, event 2, tenure 1)`,
				`violation: "a": re-entry without a hold: token 100 (agent A, epoch 1, event 4, tenure 1)`,
			},
		},
		"Gap": {
			[]*story{agent("A").missing(2).granted(1, 100, 100).missing(1).released(1, 100, 110).missing(3).stop()},
			Incomplete,
			[]string{
				"missing: agent A, epoch 1: events 1 to 2",
				"missing: agent A, epoch 1: events 4 to 4",
				"missing: agent A, epoch 1: events 6 to 8",
			},
		},
		"EndInAGap": {
			[]*story{
				agent("A").granted(1, 100, 100).missing(1).granted(2, 300, 300).released(2, 300, 310).returned(2, 320).stop(),
				agent("B").granted(1, 200, 200).released(1, 200, 220).returned(1, 210).stop(),
			},
			Incomplete,
			[]string{
				"missing: agent A, epoch 1: events 2 to 2",
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us): the log does not have its end; it may be among the missing events from 2 on`,
			},
		},
		"ReturnInAGap": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 160).missing(1).stop(),
				agent("B").granted(1, 200, 150).released(1, 200, 220).returned(1, 210).stop(),
			},
			Incomplete,
			[]string{
				"missing: agent A, epoch 1: events 3 to 3",
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, released): token 200 was granted at 150 us, and what could tell that it had ended by then may be missing`,
			},
		},
		"ReturnIsYetToCome": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 160),
				agent("B").granted(1, 200, 150).released(1, 200, 220).returned(1, 210).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, released): token 200 was granted at 150 us, and what could tell that it had ended by then may be missing`,
				"not stopped: agent A, epoch 1: last event 2",
			},
		},
		"HolderDied": {
			[]*story{
				agent("A").granted(1, 100, 100),
				agent("B").granted(1, 200, 200).released(1, 200, 220).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us): the log does not have its end`,
				"not stopped: agent A, epoch 1: last event 1",
			},
		},
		"EndWithoutAGrant": {
			[]*story{agent("A").released(1, 100, 110).stop()},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, released): the log has its end, but not its grant`,
			},
		},
		"HandOffWithoutABeginning": {
			[]*story{agent("A").handedOff(1, 100, 100).released(1, 100, 110).stop()},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 110 us, released): the log does not have the grant that began its tenure`,
			},
		},
		"NoTimes": {
			[]*story{
				agent("A").granted(1, 100, 0).released(1, 100, 110).stop(),
				agent("B").granted(1, 200, 200).released(1, 200, 0).stop(),
				agent("C").granted(1, 300, 300).released(1, 300, 299).stop(),
				agent("D").granted(1, 400, 400).released(1, 400, 410).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, until 110 us, released): the log does not say when the store began its tenure`,
				`unproven: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 200 us, released): its end has no bound on the clock of the store`,
				`unproven: "a": token 300 (agent C, epoch 1, event 1, tenure 1, from 300 us, until 299 us, released): its end is said to be before its start`,
			},
		},
		"ExplainedByAnOperator": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").broke(140).granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 200 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied)): an operator broke the lock at 140 us`,
			},
		},
		"ABreakExplainsNoTokens": {
			[]*story{
				agent("A").granted(1, 200, 100).released(1, 200, 105).stop(),
				agent("B").broke(120).granted(1, 150, 130).released(1, 150, 139).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 150 (agent B, epoch 1, event 2, tenure 1, from 130 us, until 139 us, released) came after token 200 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 105 us, released)`,
			},
		},
		"AStepOfTheClockExplainsNothing": {
			[]*story{
				agent("A").on("x").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").on("x").reset(lockagent.Reset{From: "x", To: "x", Reason: "clock stepped", After: 110, Before: 155}).granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 200 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied))`,
				`reset: the clock of the store "x" was set between 110 and 155 us`,
			},
		},
		"BrokenTooLate": {
			[]*story{
				agent("A").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").granted(1, 200, 150).broke(155).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied))`,
			},
		},
	}.check(t)
}

func TestReportForPeople(t *testing.T) {
	report := audited(told([]*story{
		agent("A").granted(1, 100, 100).released(1, 100, 120).handedOff(1, 101, 100).released(1, 101, 130).stop(),
		agent("B").of("b").granted(1, 1, 1).released(1, 1, 2).stop(),
	}))
	report.Duplicates = 3
	want := "proven: no two holds overlapped\n8 events (3 repeated) of 2 agents on 2 locks: 3 grants, 1 of them hand-offs\n"
	if got := report.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnreadableIsReported(t *testing.T) {
	a := NewAudit()
	for n := range uint64(maxUnreadable + 2) {
		if err := a.Visit(Record{}, &DecodeError{Position: n + 1, Err: errEnough}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(a.Report().String(), "\n")
	if len(lines) != 2+maxUnreadable+2 || lines[2] != "unreadable: events: line 1: enough" || lines[2+maxUnreadable] != "unreadable: 2 more" {
		t.Errorf("got %q", lines)
	}
}

func TestReportAsJSON(t *testing.T) {
	text, err := json.Marshal(audited(told([]*story{agent("A").missing(1).granted(1, 100, 100)})))
	const want = `{"verdict":"incomplete","events":1,"duplicates":0,"agents":1,"locks":1,"grants":1,"hand_offs":0,` +
		`"gaps":[{"agent":"A","epoch":1,"first":1,"last":1}],` +
		`"open_holds":[{"lock":"a","hold":{"agent":"A","epoch":1,"seq":2,"tenure":1,"token":100,"start_us":100}}],` +
		`"open_ends":[{"agent":"A","epoch":1,"last":2}],"unreadable":0}`
	if err != nil || string(text) != want {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ranges
		seen := make(map[uint64]bool)
		const most = 40
		for _, n := range rapid.SliceOfN(rapid.Uint64Range(1, most), 1, 60).Draw(t, "numbers") {
			if r.add(n) == seen[n] {
				t.Fatalf("add %d: new is %v", n, seen[n])
			}
			seen[n] = true
		}
		last := r.last()
		holes := make(map[uint64]bool)
		for _, hole := range r.holes() {
			for n := hole.First; n <= hole.Last; n++ {
				holes[n] = true
			}
		}
		for n := uint64(1); n <= last; n++ {
			if holes[n] == seen[n] {
				t.Fatalf("%d: in the set %v, in a hole %v", n, seen[n], holes[n])
			}
		}
		after := rapid.Uint64Range(0, last-1).Draw(t, "after")
		before := rapid.Uint64Range(after+1, last).Draw(t, "before")
		var want Range
		for n := after + 1; n < before; n++ {
			if !seen[n] {
				if want.First == 0 {
					want.First = n
				}
				want.Last = n
			} else if want.First != 0 {
				break
			}
		}
		if got, ok := r.hole(after, before); got != want || ok != (want.First != 0) {
			t.Fatalf("%v: hole between %d and %d: %v, %v; want %v", r, after, before, got, ok, want)
		}
	})
}

func BenchmarkAudit(b *testing.B) {
	const holds = 10_000
	a, s := agent("A"), agent("B")
	for i := range uint64(holds) {
		who := a
		if i%2 == 1 {
			who = s
		}
		at := lockagent.StoreTime(i*100 + 100)
		who.granted(i+1, lockagent.Token(at), at).released(i+1, lockagent.Token(at), at+99).returned(i+1, at+90)
	}
	records := told([]*story{a.stop(), s.stop()})
	b.ReportAllocs()
	for b.Loop() {
		if report := audited(records); report.Verdict != Proven {
			b.Fatal(report)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(records)), "ns/event")
}
