package main

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// What a context costs by itself is no part of what a deadline costs.
func TestTheTimeOfAContextIsApart(t *testing.T) {
	s := newSeries()
	s.deadlines(100_000, 80_000, 500*time.Nanosecond) // 10 us, and 12.5 us with 0.5 us of context
	if got := s.values["d-x"][0]; math.Abs(got-1.2) > 1e-9 {
		t.Errorf("a deadline makes a grant %v times as long, want 1.2", got)
	}
	if s.values["d-rate"][0] != 80_000 || s.values["timeout"][0] != 500 {
		t.Errorf("got %v", s.values)
	}
}

func TestTimeouts(t *testing.T) {
	if got := timeouts(t.Context(), 4, 0); got <= 0 {
		t.Errorf("a context takes %v", got)
	}
}

func TestOnlyTheSecondRoundHasDeadlines(t *testing.T) {
	for _, c := range []struct {
		crowd crowd
		want  time.Duration
	}{{oneProcess, 0}, {oneProcess.withDeadlines(), patience}, {eightProcesses, 0}} {
		work := c.crowd.of(task{})
		if got := work.load(nil).deadline; got != c.want {
			t.Errorf("%s: each call has the deadline %v, want %v", c.crowd.name, got, c.want)
		}
	}
}

// A holder's context lives until its Unlock has returned, and belongs to one cycle.
func TestEachCallHasItsDeadline(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"with deadlines": 5 * time.Second, "without": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var contexts []context.Context
				c := lockFunc(func(ctx context.Context) (contender.Held, error) {
					contexts = append(contexts, ctx)
					if end, _ := ctx.Deadline(); deadline > 0 && time.Until(end) != deadline {
						t.Errorf("the deadline is in %v", time.Until(end))
					}
					time.Sleep(time.Second)
					return heldUntil{t, ctx}, nil
				})
				l := load{
					goroutines: 1, window: 2500 * time.Millisecond, deadline: deadline, grace: time.Minute,
					name: func(int, int) string { return "bench" },
				}
				if _, err := l.run(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if len(contexts) != 3 {
					t.Fatalf("%d calls, want 3", len(contexts))
				}
				if own := contexts[0] != contexts[1]; own != (deadline > 0) {
					t.Errorf("each call has a context of its own: %v", own)
				}
				for i, ctx := range contexts {
					if ctx.Err() == nil {
						t.Errorf("the context of call %d lives on", i)
					}
				}
			})
		})
	}
}

// heldUntil is a lock that has to be given back before its context ends.
type heldUntil struct {
	t   *testing.T
	ctx context.Context
}

func (h heldUntil) Unlock() error {
	if err := h.ctx.Err(); err != nil {
		h.t.Errorf("the context of a holder has ended: %v", err)
	}
	return nil
}

func (heldUntil) Lost() bool { return false }
