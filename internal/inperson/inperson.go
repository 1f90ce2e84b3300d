// Package inperson lets a caller who waits for an outcome make the exchange with a server that leads to it.
//
// A call of a store is asynchronous: another goroutine makes the exchange. A caller who would only sleep meanwhile can
// make it instead. That saves two switches of goroutines, which is a good part of what a call costs that nobody
// contends with. Package actor marks the context of such a call with [Context], and package redisstore asks with [Is].
package inperson

import "context"

type key struct{}

// Context returns ctx for a call that is made by the caller who waits for its outcome, in the goroutine of that caller,
// who holds no mutex and has nothing else to do. The call may wait for the server then. If it does, it answers before
// it returns, and the end of ctx ends the wait: the outcome is unknown in that case. The context is for one call.
// Whoever makes further calls for it, or makes it in another goroutine, gives those calls the context of [Not].
func Context(ctx context.Context) context.Context { return marked{ctx, true} }

// Not returns ctx for a call that must not wait. It has the values of ctx, and does not end.
func Not(ctx context.Context) context.Context {
	if ctx = context.WithoutCancel(ctx); Is(ctx) {
		return marked{ctx, false}
	}
	return ctx
}

// Is reports whether a call may wait: its context is that of [Context], or was made from it.
func Is(ctx context.Context) bool {
	is, _ := ctx.Value(key{}).(bool)
	return is
}

type marked struct {
	context.Context
	is bool
}

func (m marked) Value(k any) any {
	if k == (key{}) {
		return m.is
	}
	return m.Context.Value(k)
}
