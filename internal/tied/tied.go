// Package tied keeps the contexts that end with a hold.
package tied

import (
	"context"
	"slices"
)

// Contexts are contexts that end together. The zero Contexts are none. They are not safe for concurrent use.
//
// Contexts do not keep in use what refers to a context, but the contexts themselves, and what those are made of.
type Contexts struct {
	first one // most often there is no other
	more  []one
}

type one struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Add adds a context and the function that ends it. A context that has ended before goes sooner or later: there are
// never many more of those than of others.
func (c *Contexts) Add(ctx context.Context, cancel context.CancelCauseFunc) {
	added := one{ctx, cancel}
	if c.first.ended() {
		c.first = added
		return
	}
	if len(c.more) == cap(c.more) {
		c.more = slices.DeleteFunc(c.more, one.ended)
		c.more = slices.Grow(c.more, len(c.more)+1) // so that the next look comes after as many calls at the earliest
	}
	c.more = append(c.more, added)
}

// Any reports whether there are any.
func (c *Contexts) Any() bool { return c.first.ctx != nil }

// End ends all of them.
func (c *Contexts) End(cause error) {
	if c.first.ctx != nil {
		c.first.cancel(cause)
	}
	for _, o := range c.more {
		o.cancel(cause)
	}
}

func (o one) ended() bool { return o.ctx == nil || o.ctx.Err() != nil }
