package audit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What was wrong in a history is named before somebody acknowledges what was found up to then, or afterwards.
func TestAcknowledgedHistories(t *testing.T) { acknowledgedHistories(t, 60) }

func acknowledgedHistories(t *testing.T, many int) {
	t.Helper()
	verdicts := make(map[Verdict]int)
	seeds(t, many, func(seed uint64, r *rand.Rand) {
		w := drawWorld(r, []evil{sound, evils}[r.IntN(2)])
		a, at := newAudit(), 1+r.IntN(len(w.stream))
		var now time.Time // the log goes on, though it seemed to have come to its end
		if r.IntN(3) > 0 {
			now = w.stream[at-1].Stored
		}
		var before Report
		for i, x := range w.stream {
			if a.Add(x); i+1 == at {
				before = a.clone().close(a.alive(now))
				a.Acknowledge(now, Acknowledgement{By: "olga"})
			}
		}
		after := a.closed()
		verdicts[after.Verdict]++
		if why := w.wrong(w.stream, bothReports(before, after)); why != "" {
			t.Errorf("seed %d, acknowledged behind record %d: %s\n%v\nbefore\n%v", seed, at, why, after, before)
		}
	})
	t.Log(verdicts)
	if verdicts[Proven] == 0 || verdicts[Incomplete] == 0 || verdicts[Violated] == 0 {
		t.Error("a verdict is missing")
	}
}

// bothReports has what two reports name.
func bothReports(before, after Report) Report {
	both := after
	if before.Verdict == Incomplete || before.Verdict == Violated {
		both.Verdict = before.Verdict
	}
	join(&both.Violations, before.Violations)
	join(&both.Explained, before.Explained)
	join(&both.Unproven.List, before.Unproven.List)
	join(&both.NotJudged, before.NotJudged)
	join(&both.RecordHoles, before.RecordHoles)
	join(&both.JudgedEarly, before.JudgedEarly)
	join(&both.Late, before.Late)
	join(&both.Joined, before.Joined)
	return both
}

func join[T Listed[T]](to *List[T], l List[T]) {
	to.Count += l.Count
	to.First = append(to.First[:len(to.First):len(to.First)], l.First...)
}
