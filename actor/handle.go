package actor

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// handle is the hold behind a grant that only its owner can end: one that is kept, and not
// of a session. The agent does not refer to it for long, so when the owner does not either, it
// is garbage, and the hold would never end.
//
// It is in use as long as something was derived from it: a context of the grant, or the
// channel that tells of its end.
//
// To have the collector watch it costs as much as a good part of a short hold. So that
// is put off until the first renewal.
type handle struct {
	*request

	// To begin to watch an object takes as long as its span of memory has others that are watched.
	// The larger the objects, the fewer share a span.
	_ [56]byte
}

var _ lockagent.Hold = (*handle)(nil)

// Context implements [lockagent.Hold].
func (h *handle) Context() context.Context { return h.context(h) }

// OnEnd implements [lockagent.Hold].
func (h *handle) OnEnd(f func(cause error)) (stop func()) { return h.notify(&onEnd{f, h}) }

// Release implements [lockagent.Hold].
func (h *handle) Release(ctx context.Context) error {
	defer runtime.KeepAlive(h) // until the actor has been told
	return h.request.Release(ctx)
}

// ReleaseAsync implements [lockagent.Hold].
func (h *handle) ReleaseAsync(ctx context.Context) <-chan error {
	defer runtime.KeepAlive(h)
	return h.request.ReleaseAsync(ctx)
}

// hold is what stands behind the grant.
func (r *request) hold() lockagent.Hold {
	if r.Session || r.Lease != 0 {
		return r
	}
	r.handle = &handle{request: r}
	return r.handle
}

// endDropped looks after the handles when the lease has been renewed. A dropped hold ends as
// one that nobody received.
func (l *lock) endDropped() {
	for r := range l.holds.all {
		switch {
		case r.handle != nil:
			runtime.AddCleanup(r.handle, func(dropped *atomic.Bool) { dropped.Store(true) }, &r.dropped)
			r.handle = nil
		case r.dropped.Load():
			l.agent.warn(&l.agent.dropped, "lockagent: a grant that nobody had any more was given back; further ones are not logged",
				"lock", string(l.entry.name), "owner", string(r.Owner), "token", uint64(r.token),
				"advice", "release every grant, or work under its Context")
			l.step(lockstate.Unclaimed{ID: r.id})
		}
	}
}
