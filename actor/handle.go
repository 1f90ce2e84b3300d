package actor

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// handle stands behind a grant that only its owner can end: the lease is kept, and the owner is
// not a session. If the owner drops such a grant, its hold would never end. So the agent
// does not refer to the handle for long, and the garbage collector finds out whether the owner
// still does.
//
// A context of the grant refers to the handle. So the handle is in use as long as that context is. The channel of Done
// does not.
//
// To watch a handle costs as much as a good part of a short hold. So the agent begins with it at
// the first renewal, which short holds do not have.
type handle struct {
	*request

	// The runtime keeps the cleanups of a span of memory in a list, and walks that list to add
	// one. Larger objects make shorter lists, because fewer of them share a span: with 100,000
	// handles it takes 3 µs for each, and 15 µs without the room below.
	_ [56]byte
}

var _ lockagent.Hold = (*handle)(nil)

// Release implements [lockagent.Hold].
func (h *handle) Release(ctx context.Context) error {
	defer runtime.KeepAlive(h) // until the actor has the release
	return h.request.Release(ctx)
}

// ReleaseAsync implements [lockagent.Hold].
func (h *handle) ReleaseAsync(ctx context.Context) <-chan error {
	defer runtime.KeepAlive(h)
	return h.request.ReleaseAsync(ctx)
}

// hold returns the hold behind the grant of the request.
func (r *request) hold() lockagent.Hold {
	switch {
	case r.Session || r.Lease != 0:
		return r
	}
	r.handle = &handle{request: r}
	return r.handle
}

// endDropped ends the holds whose grants the application dropped, like grants that nobody
// received. It runs after each renewal. At the first one of a hold it adds the cleanup.
func (l *lock) endDropped() {
	for r := range l.holds {
		switch {
		case r.handle != nil:
			runtime.AddCleanup(r.handle, func(dropped *atomic.Bool) { dropped.Store(true) }, &r.dropped)
			r.handle = nil
		case r.dropped.Load():
			l.warnDropped(r, r.Owner)
			l.step(lockstate.Unclaimed{ID: r.id})
		}
	}
}

func (l *lock) warnDropped(r *request, owner lockagent.Owner) {
	l.agent.warn(&l.agent.dropped, "lockagent: a grant that nobody had any more was given back; further ones are "+
		"not logged",
		"lock", string(l.entry.name), "owner", string(owner), "token", uint64(r.token),
		"advice", "release every grant, or work under its Context")
}
