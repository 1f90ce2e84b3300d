package tied

import (
	"context"
	"errors"
	"testing"
)

func TestEnd(t *testing.T) {
	why := errors.New("why")
	for _, n := range []int{0, 1, 2, 10} {
		var c Contexts
		var all []context.Context
		for range n {
			ctx, cancel := context.WithCancelCause(t.Context())
			c.Add(ctx, cancel)
			all = append(all, ctx)
		}
		if c.Any() != (n > 0) {
			t.Errorf("%d contexts: Any is %t", n, c.Any())
		}
		c.End(why)
		for _, ctx := range all {
			if !errors.Is(context.Cause(ctx), why) {
				t.Errorf("one of %d ended because of %v", n, context.Cause(ctx))
			}
		}
	}
}

// A hold that lasts for long has many contexts that end before it. They do not stay, and those that go on do.
func TestContextsThatEndedBefore(t *testing.T) {
	why := errors.New("why")
	var c Contexts
	var live []context.Context
	for i := range 10_000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		c.Add(ctx, cancel)
		if i%1000 == 500 {
			live = append(live, ctx)
		} else {
			cancel(nil)
		}
		if most := 4*len(live) + 16; cap(c.more) > most {
			t.Fatalf("there is room for %d contexts, and %d go on", cap(c.more), len(live))
		}
	}
	c.End(why)
	for _, ctx := range live {
		if !errors.Is(context.Cause(ctx), why) {
			t.Errorf("a context that went on ended because of %v", context.Cause(ctx))
		}
	}
}

// foreign is a context that is not of package context, and whose code fails when a child of it ends.
type foreign struct {
	context.Context
	fails *bool
}

func (f foreign) Value(k any) any {
	if *f.fails {
		panic("a foreign context")
	}
	return f.Context.Value(k)
}

// A context whose parent fails keeps no other from its end.
func TestEndWithAParentThatFails(t *testing.T) {
	for bad := range 3 {
		fails := false
		var c Contexts
		var all []context.Context
		for i := range 3 {
			parent := t.Context()
			if i == bad {
				parent = foreign{parent, &fails}
			}
			ctx, cancel := context.WithCancelCause(parent)
			c.Add(ctx, cancel)
			all = append(all, ctx)
		}
		fails = true
		failed := func() (p any) {
			defer func() { p = recover() }()
			c.End(errors.New("why"))
			return nil
		}()
		fails = false
		if failed == nil {
			t.Error("the parent did not fail")
		}
		for i, ctx := range all {
			if ctx.Err() == nil {
				t.Errorf("context %d goes on after context %d failed", i, bad)
			}
		}
	}
}

// After many contexts have ended at once, the next few free their memory, also if they end one by one.
func TestContextsAfterABurst(t *testing.T) {
	var c Contexts
	var cancels []context.CancelCauseFunc
	for range 1000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		c.Add(ctx, cancel)
		cancels = append(cancels, cancel)
	}
	for _, cancel := range cancels {
		cancel(nil)
	}
	for range 1001 {
		ctx, cancel := context.WithCancelCause(t.Context())
		c.Add(ctx, cancel)
		cancel(nil)
	}
	if len(c.more) > 1 || cap(c.more) > 4 {
		t.Errorf("%d contexts are left, in room for %d", len(c.more), cap(c.more))
	}
}
