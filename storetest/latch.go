package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
)

// countLatch calls [lockagent.Counters].Latch and waits for the reply.
func countLatch(t TB, s lockagent.Store, req lockagent.LatchRequest) (lockagent.LatchReply, error) {
	t.Helper()
	return start(t, "Latch", func(done func(lockagent.LatchReply, error)) {
		if counters, ok := lockagent.Layer[lockagent.Counters](s); ok {
			counters.Latch(context.Background(), req, done)
			return
		}
		done(lockagent.LatchReply{}, errNoLayer)
	}).await()
}

// latch makes a call about a latch. Its changes are numbered.
func (p *party) latch(op lockagent.LatchOp, count int64, change int) lockagent.LatchReply {
	p.t.Helper()
	req := lockagent.LatchRequest{Name: theLatch, Op: op, Count: count}
	if op != lockagent.LatchRead {
		req.Change = string(p.id) + "-" + strconv.Itoa(change)
	}
	reply, err := countLatch(p.t, p.store, req)
	if err != nil {
		p.t.Fatalf("Latch(%s %d): %v", op, count, err)
	}
	return reply
}

// awaiting asks whether the latch is open, for a waiter that found it closed before or did not.
func (p *party) awaiting(before bool) (open bool, err error) {
	p.t.Helper()
	req := p.wish(theLatch, 1)
	req.FoundClosed = before
	reply, err := p.try(req)
	return reply.Granted, err
}

const theLatch lockagent.Name = "ready"

var latchClauses = []clause{
	{
		name: "a latch is set once, and counted down to 0",
		says: "LatchSet sets the count, if there is no latch of the name.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			expect := func(what string, got lockagent.LatchReply, count int64, changed bool) {
				t.Helper()
				if got.Count != count || got.Changed != changed || got.At <= 0 {
					t.Errorf("%s: %+v, want count %d, changed %t", what, got, count, changed)
				}
			}
			expect("read", one.latch(lockagent.LatchRead, 0, 0), 0, false)
			expect("down, of none", one.latch(lockagent.LatchDown, 0, 1), 0, false)
			expect("set", one.latch(lockagent.LatchSet, 2, 2), 2, true)
			expect("set again", two.latch(lockagent.LatchSet, 5, 1), 2, false)
			expect("down", two.latch(lockagent.LatchDown, 0, 2), 1, true)
			expect("read", one.latch(lockagent.LatchRead, 0, 0), 1, false)
			expect("down", one.latch(lockagent.LatchDown, 0, 3), 0, true)
			expect("down, after the end", one.latch(lockagent.LatchDown, 0, 4), 0, false)
			expect("set, after the end", one.latch(lockagent.LatchSet, lockagent.MaxLatch, 5), lockagent.MaxLatch, true)
			expect("delete", two.latch(lockagent.LatchDelete, 0, 3), 0, true)
			expect("delete again", two.latch(lockagent.LatchDelete, 0, 4), 0, false)
		},
	},
	{
		name: "a change is made once, however often it is asked for",
		says: "The same change made again within a minute has no further effect, and is answered with Changed.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for range 2 {
				if r := one.latch(lockagent.LatchSet, 3, 1); !r.Changed || r.Count != 3 {
					t.Errorf("set: %+v", r)
				}
			}
			for range 3 {
				if r := one.latch(lockagent.LatchDown, 0, 2); !r.Changed || r.Count != 2 {
					t.Errorf("down: %+v", r)
				}
			}
			for range 2 {
				if r := one.latch(lockagent.LatchDelete, 0, 3); !r.Changed || r.Count != 0 {
					t.Errorf("delete: %+v", r)
				}
			}
			if r := one.latch(lockagent.LatchSet, 3, 1); !r.Changed || r.Count != 0 {
				t.Errorf("the first change, repeated after the others: %+v", r)
			}
		},
	},
	{
		name: "a latch is open while there is none",
		says: "Acquire asks whether the latch is open, that is: whether there is none of that name.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for i, c := range []struct {
				op   lockagent.LatchOp
				open bool
			}{
				{lockagent.LatchRead, true}, {lockagent.LatchSet, false}, {lockagent.LatchDown, false}, {lockagent.LatchDown, true},
			} {
				one.latch(c.op, 2, i)
				if open, err := two.awaiting(false); open != c.open || err != nil {
					t.Errorf("after %s it is open: %t, %v", c.op, open, err)
				}
			}
			if open, err := two.awaiting(true); !open || err != nil {
				t.Errorf("to a waiter that has waited it is open: %t, %v", open, err)
			}
		},
	},
	{
		name: "a latch that was deleted is gone for its waiters",
		says: "The store remembers for a minute that a latch was counted down.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.latch(lockagent.LatchSet, 1, 1)
			one.latch(lockagent.LatchDown, 0, 2)
			one.latch(lockagent.LatchSet, 1, 3)
			if open, err := two.awaiting(true); open || err != nil {
				t.Errorf("open: %t, %v", open, err)
			}
			one.latch(lockagent.LatchDelete, 0, 4)
			if open, err := two.awaiting(true); open || !errors.Is(err, lockagent.ErrLatchGone) {
				t.Errorf("open: %t, %v; want ErrLatchGone", open, err)
			}
			if open, err := two.awaiting(false); !open || err != nil {
				t.Errorf("for those who come later it is open: %t, %v", open, err)
			}
		},
	},
	{
		name: "a latch that the store forgot is gone for its waiters",
		says: "somebody deleted it, it expired, or the store lost its data.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.latch(lockagent.LatchSet, 1, 1)
			h.reset(t)
			if open, err := one.awaiting(true); open || !errors.Is(err, lockagent.ErrLatchGone) {
				t.Errorf("open: %t, %v; want ErrLatchGone", open, err)
			}
		},
	},
	{
		name: "the waiters are woken at the end of a latch",
		says: "The latch is gone when the count is 0, and its waiters are woken.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			for i, end := range []lockagent.LatchOp{lockagent.LatchDown, lockagent.LatchDelete} {
				one.latch(lockagent.LatchSet, 2, 10*i+1)
				one.latch(lockagent.LatchDown, 0, 10*i+2)
				sub := subscribe(t, two.store, theLatch, lockagent.Latch)
				one.latch(end, 0, 10*i+3)
				if !sub.Await() {
					t.Errorf("%s woke nobody", end)
				}
				sub.Cancel()
			}
		},
	},
	{
		name: "nobody holds a latch",
		says: "Renew, Release, Break and Inspect of a latch end with an [*OptionError].",
		prove: func(t *testing.T, h *Harness) {
			h.agent(t).fails(theLatch, lockagent.ErrBadOption)
		},
	},
	{
		name: "what is no latch stays as it is",
		says: "If what the store has under the name shows that the name is in use as another kind, Acquire, Break and " +
			"Inspect end with a [*KindError].",
		prove: func(t *testing.T, h *Harness) {
			for _, kind := range h.kinds {
				if kind == lockagent.Latch {
					continue
				}
				name, one, holder := "of a "+lockagent.Name(kind), h.agent(t), h.agent(t)
				if holder.kind = kind; !slices.Contains(exclusive, kind) {
					set := user{holder}.request(lockagent.TrySetPermits, 3)
					set.Name = name
					user{holder}.changes(set)
				}
				holder.acquire(name, 1)
				want := lockagent.KindError{Name: name, Kind: lockagent.Latch, Used: kind}
				refused := func(what string, err error) {
					t.Helper()
					told, _ := errors.AsType[*lockagent.KindError](err)
					if told == nil || *told != want {
						t.Errorf("%s: error %v; want %v", what, err, &want)
					}
				}
				for _, op := range []lockagent.LatchOp{
					lockagent.LatchRead, lockagent.LatchSet, lockagent.LatchDown, lockagent.LatchDelete,
				} {
					req := lockagent.LatchRequest{Name: name, Op: op, Count: 1}
					if op != lockagent.LatchRead {
						req.Change = op.String()
					}
					_, err := countLatch(t, one.store, req)
					refused(op.String(), err)
				}
				req := one.wish(name, 1)
				_, err := one.try(req)
				refused("Acquire", err)
				holder.release(name, 1, true)

				// And the reverse: no semaphore has so many permits.
				one.latch(lockagent.LatchSet, lockagent.MaxLatch, 1)
				_, err = holder.try(holder.wish(theLatch, 2))
				if !errors.Is(err, lockagent.ErrWrongKind) && !errors.Is(err, lockagent.ErrWrongType) {
					t.Errorf("Acquire of a latch as %s: error %v", kind, err)
				}
			}
		},
	},
	{
		name: "bad requests about latches have no effect",
		says: "Change identifies a change: 1 to 64 ASCII letters, digits, '-' or '_'.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for what, req := range map[string]lockagent.LatchRequest{
				"no name":         {Op: lockagent.LatchRead},
				"no change":       {Name: theLatch, Op: lockagent.LatchDown},
				"a bad change":    {Name: theLatch, Op: lockagent.LatchDown, Change: "a.b"},
				"count 0":         {Name: theLatch, Op: lockagent.LatchSet, Change: "a"},
				"count below 0":   {Name: theLatch, Op: lockagent.LatchSet, Change: "a", Count: -1},
				"count too great": {Name: theLatch, Op: lockagent.LatchSet, Change: "a", Count: lockagent.MaxLatch + 1},
				"no operation":    {Name: theLatch, Op: 77, Change: "a"},
			} {
				_, err := countLatch(t, one.store, req)
				if !errors.Is(err, lockagent.ErrBadOption) && !errors.Is(err, lockagent.ErrBadName) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if r := one.latch(lockagent.LatchRead, 0, 0); r.Count != 0 {
				t.Errorf("the count is %d", r.Count)
			}
		},
	},
}
