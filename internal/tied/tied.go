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
	left  int // how many were left when those that had ended were removed from more
	added int // since then
}

type one struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Add adds a context and the function that ends it. A context that has ended before is removed when as many have been
// added as were left the last time.
func (c *Contexts) Add(ctx context.Context, cancel context.CancelCauseFunc) {
	if c.added++; c.added > c.left {
		c.more = slices.DeleteFunc(c.more, one.ended)
		if len(c.more) < cap(c.more)/4 {
			c.more = slices.Clone(c.more)
		}
		c.left, c.added = len(c.more), 0
	}
	added := one{ctx, cancel}
	if c.first.ended() {
		c.first = added
		return
	}
	c.more = append(c.more, added)
}

// Any reports whether there are any.
func (c *Contexts) Any() bool { return c.first.ctx != nil }

// End ends all of them. That runs code of their parents, if these are not of package context. If such code panics,
// the other contexts end all the same.
func (c *Contexts) End(cause error) {
	if c.first.ctx == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			endAll(c.more, cause)
		}
	}()
	c.first.cancel(cause)
	returned = true
	endAll(c.more, cause)
}

func endAll(all []one, cause error) {
	for i := range all {
		returned := false
		func() {
			defer func() {
				if !returned {
					endAll(all[i+1:], cause)
				}
			}()
			all[i].cancel(cause)
			returned = true
		}()
	}
}

func (o one) ended() bool { return o.ctx == nil || o.ctx.Err() != nil }
