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
