package events

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

func drawWorld(t *rapid.T) *world {
	return newWorld(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), worldConfig{
		length:  1000 * rapid.IntRange(20, 150).Draw(t, "seconds"),
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
		if w.rand.IntN(2) == 0 { // holes go through a checkpoint as well
			i := w.rand.IntN(len(w.stream))
			w.stream = slices.Delete(w.stream, i, i+1)
		}
		whole, parts := NewAudit(), NewAudit()
		for i, r := range w.stream {
			whole.Add(r)
			if w.rand.IntN(40) == 0 {
				text, err := parts.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				if parts, err = ResumeAudit(text); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					parts.Add(w.stream[i-1]) // the message is read once more
				}
			}
			parts.Add(r)
			if i%100 == 0 {
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
		// The order of a log tells when an agent began that died before it told of a time.
		same := a.Verdict == b.Verdict && a.Unproven.Count == b.Unproven.Count
		fewer := a.Tails.Count > 0 && b.Verdict == Incomplete && a.Unproven.Count < b.Unproven.Count
		if !same && !fewer || a.Explained.Count > 0 != (b.Explained.Count > 0) || a.Tails.Count != b.Tails.Count {
			t.Fatalf("%s %q\n%s %q\n%v\n%v", a.Verdict, findingsOf(a), b.Verdict, findingsOf(b), a, b)
		}
	})
}

// corruptions change one record of a log. Each returns false if it cannot change that one.
var corruptions = map[string]func(r *rand.Rand, log []Record, i int) ([]Record, bool){
	"removed": func(_ *rand.Rand, log []Record, i int) ([]Record, bool) {
		return slices.Delete(log, i, i+1), true
	},
	"doubled": func(r *rand.Rand, log []Record, i int) ([]Record, bool) {
		return slices.Insert(log, i+1+r.IntN(min(20, len(log)-i)), log[i]), true
	},
	"twice with another content": func(r *rand.Rand, log []Record, i int) ([]Record, bool) {
		other := log[i]
		other.Held += time.Millisecond
		return slices.Insert(log, i+1+r.IntN(min(20, len(log)-i)), other), true
	},
	"token":       change(func(r *rand.Rand, e *lockagent.Event) { e.Token += lockagent.Token(jump(r)) }, func(e *lockagent.Event) bool { return e.Token != 0 }),
	"tenure":      change(func(r *rand.Rand, e *lockagent.Event) { e.Tenure += 1 + r.Uint64N(3) }, func(e *lockagent.Event) bool { return e.Tenure != 0 }),
	"store time":  change(func(r *rand.Rand, e *lockagent.Event) { e.StoreTime += jump(r) }, func(e *lockagent.Event) bool { return e.StoreTime != 0 }),
	"until":       change(func(r *rand.Rand, e *lockagent.Event) { e.Until += jump(r) }, func(e *lockagent.Event) bool { return e.Until != 0 }),
	"confirmed":   change(func(r *rand.Rand, e *lockagent.Event) { e.Confirmed += jump(r) }, func(e *lockagent.Event) bool { return e.Confirmed != 0 }),
	"returned":    change(func(r *rand.Rand, e *lockagent.Event) { e.Returned += jump(r) }, func(e *lockagent.Event) bool { return e.Returned != 0 }),
	"held":        change(func(r *rand.Rand, e *lockagent.Event) { e.Held += time.Duration(jump(r)) * time.Microsecond }, func(e *lockagent.Event) bool { return e.Held != 0 }),
	"lease":       change(func(r *rand.Rand, e *lockagent.Event) { e.Lease = time.Duration(r.IntN(20)) * time.Second }, func(e *lockagent.Event) bool { return e.Lease != 0 }),
	"count":       change(func(r *rand.Rand, e *lockagent.Event) { e.Count++ }, func(e *lockagent.Event) bool { return e.Token != 0 }),
	"no count":    change(func(r *rand.Rand, e *lockagent.Event) { e.Count = 0 }, func(e *lockagent.Event) bool { return e.Kind == lockagent.EventReleased && e.Count > 0 }),
	"lock":        change(func(r *rand.Rand, e *lockagent.Event) { e.Lock += "x" }, func(e *lockagent.Event) bool { return e.Lock != "" }),
	"other lock":  change(func(r *rand.Rand, e *lockagent.Event) { e.Lock = "a" }, func(e *lockagent.Event) bool { return e.Lock != "" && e.Lock != "a" }),
	"mode":        change(func(r *rand.Rand, e *lockagent.Event) { e.Mode = lockagent.Shared }, func(e *lockagent.Event) bool { return e.Mode == lockagent.Exclusive }),
	"exclusive":   change(func(r *rand.Rand, e *lockagent.Event) { e.Mode = lockagent.Exclusive }, func(e *lockagent.Event) bool { return e.Mode == lockagent.Shared }),
	"store":       change(func(r *rand.Rand, e *lockagent.Event) { e.Store = "other" }, func(e *lockagent.Event) bool { return true }),
	"kind":        change(func(r *rand.Rand, e *lockagent.Event) { e.Kind = lockagent.EventRequested }, func(e *lockagent.Event) bool { return e.Lock != "" }),
	"wall clock":  change(func(r *rand.Rand, e *lockagent.Event) { e.Time = e.Time.Add(-time.Hour) }, func(e *lockagent.Event) bool { return true }),
	"owner":       change(func(r *rand.Rand, e *lockagent.Event) { e.Owner += "x" }, func(e *lockagent.Event) bool { return e.Owner != "" }),
	"reason":      change(func(r *rand.Rand, e *lockagent.Event) { e.Reason = lockagent.LostDenied }, func(e *lockagent.Event) bool { return e.Kind.EndsHold() && e.Token != 0 }),
	"incarnation": change(func(r *rand.Rand, e *lockagent.Event) { e.Incarnation += "x" }, func(e *lockagent.Event) bool { return e.Incarnation != "" }),
	"number": func(r *rand.Rand, log []Record, i int) ([]Record, bool) {
		log[i].Seq += 1 + r.Uint64N(5)
		return log, true
	},
	"agent": func(r *rand.Rand, log []Record, i int) ([]Record, bool) {
		log[i].Agent += "x"
		return log, true
	},
}

func change(do func(*rand.Rand, *lockagent.Event), fits func(*lockagent.Event) bool) func(*rand.Rand, []Record, int) ([]Record, bool) {
	return func(r *rand.Rand, log []Record, i int) ([]Record, bool) {
		if !fits(&log[i].Event) {
			return nil, false
		}
		do(r, &log[i].Event)
		return log, true
	}
}

// jump is a time by which another one is wrong, in microseconds.
func jump(r *rand.Rand) lockagent.StoreTime {
	d := []lockagent.StoreTime{1, 1000, 100_000, 5_000_000, 40_000_000}[r.IntN(5)]
	if r.IntN(2) == 0 {
		return -d
	}
	return d
}

// One record that is changed, missing or doubled is either found, or what the log says is still a
// history in which no holds overlapped and no record is missing.
func TestCorruptedHistories(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(corruptions)) {
		t.Run(name, func(t *testing.T) {
			caught, harmless, violated := 0, 0, 0
			for range 60 {
				seed := source.Uint64()
				r := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(r, worldConfig{length: 60_000})
				log, ok := corruptions[name](r, slices.Clone(w.stream), r.IntN(len(w.stream)))
				if !ok {
					continue
				}
				for i := range log {
					log[i].Position = uint64(i) + 1
				}
				report := audited(log)
				if report.Verdict == Proven {
					harmless++
					if pairs := overlaps(log); len(pairs) > 0 {
						t.Fatalf("seed %d: proven, but %+v", seed, pairs)
					}
					if gone := absent(log); gone > 0 {
						t.Fatalf("seed %d: proven, but %d records are missing", seed, gone)
					}
					continue
				}
				caught++
				if report.Verdict == Violated {
					violated++
				}
			}
			t.Logf("%d were found, %d of them as violations; %d were harmless", caught, violated, harmless)
			if always := name == "removed" || name == "twice with another content" || name == "token" || name == "no count"; always && caught == 0 {
				t.Error("none was found")
			}
			if never := name == "doubled" || name == "wall clock" || name == "owner"; never && caught > 0 {
				t.Error("something harmless was found")
			}
		})
	}
}

// absent counts the numbers that are missing between the first and the last record of each agent.
func absent(log []Record) (n int) {
	numbers := make(map[lockagent.AgentID]map[uint64]bool)
	last := make(map[lockagent.AgentID]uint64)
	for _, r := range log {
		if numbers[r.Agent] == nil {
			numbers[r.Agent] = make(map[uint64]bool)
		}
		numbers[r.Agent][r.Seq] = true
		last[r.Agent] = max(last[r.Agent], r.Seq)
	}
	for agent, seen := range numbers {
		n += int(last[agent]) - len(seen)
	}
	return n
}
