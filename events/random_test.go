package events

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func drawWorld(t *rapid.T) *world {
	return newWorld(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), worldConfig{
		length:  1000 * rapid.IntRange(20, 300).Draw(t, "seconds"),
		crashes: rapid.Bool().Draw(t, "crashes"),
		resets:  rapid.Bool().Draw(t, "resets"),
		breaks:  rapid.Bool().Draw(t, "breaks"),
	})
}

// A history of agents that speak the truth is never violated, and only a crash leaves it incomplete.
func TestTrueHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := audited(w.stream)
		switch {
		case r.Verdict == Violated, r.Verdict == Incomplete && !w.cfg.crashes, r.Verdict == Explained && !w.cfg.resets && !w.cfg.breaks:
			t.Fatalf("%v", r)
		}
		if n := len(overlaps(w.stream)); r.Verdict == Proven && n > 0 {
			t.Fatalf("%d overlaps\n%v", n, r)
		}
		if r.Gaps.Count+r.Late.Count+r.Duplicates != 0 {
			t.Fatalf("%v", r)
		}
	})
}

// What an audit says does not depend on when it has judged what, nor on a checkpoint in between.
func TestResumedAudit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		whole, parts := NewAudit(), NewAudit()
		for i, r := range w.stream {
			whole.Add(r)
			if rapid.IntRange(0, 40).Draw(t, "checkpoint") == 0 {
				text, err := parts.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				if parts, err = ResumeAudit(text); err != nil {
					t.Fatal(err)
				}
			}
			parts.Add(r)
			if i%50 == 0 {
				if a, b := whole.ReportAt(r.Stored), parts.ReportAt(r.Stored); !reflect.DeepEqual(a, b) {
					t.Fatalf("at %d\n%v\nwith checkpoints\n%v", i, a, b)
				}
			}
		}
		a, b := whole.Report(), parts.Report()
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%v\nwith checkpoints\n%v", a, b)
		}
		if c := whole.Report(); !reflect.DeepEqual(a, c) {
			t.Fatalf("%v\nagain\n%v", a, c)
		}
	})
}

// An audit that judges while it reads says the same as one that reads everything first.
func TestJudgedWhileRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		a := audited(w.stream)
		for i := range w.stream {
			w.stream[i].Position = 0
		}
		b := audited(w.stream)
		if a.Verdict != b.Verdict || a.Unproven.Count != b.Unproven.Count || a.Explained.Count > 0 != (b.Explained.Count > 0) || a.Tails.Count != b.Tails.Count {
			t.Fatalf("%s %q\n%s %q\n%v\n%v", a.Verdict, findingsOf(a), b.Verdict, findingsOf(b), a, b)
		}
	})
}
