package actor

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/tied"
)

// finish is the end of a hold, and all that waits for it. The zero finish is that of a hold that is not over.
// It does not refer to the handle of the hold.
type finish struct {
	mu       sync.Mutex    // guards what follows
	ended    chan struct{} // made at the first call of Done
	contexts tied.Contexts // that end with the hold; none any more when they were told
	why      error         // why the hold ended, or nil

	warnings *warnings // nil until somebody asks
}

// Done implements [lockagent.Hold].
func (f *finish) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		if f.why != nil {
			return closedChannel
		}
		f.ended = make(chan struct{})
	}
	return f.ended
}

// closedChannel is the channel of a hold that was over before anybody wanted to wait for that.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// EndWith implements [lockagent.Hold].
func (f *finish) EndWith(ctx context.Context, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	why := f.why
	if why == nil {
		f.contexts.Add(ctx, cancel)
	}
	f.mu.Unlock()
	if why != nil {
		cancel(why)
	}
}

// close notes that the hold is over. It reports false if the hold was over before: then nothing changes.
func (f *finish) close(why error) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return false
	}
	f.why = why
	return true
}

// Cause implements [lockagent.Hold].
func (f *finish) Cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// overError is the answer to a call about a hold that is over.
func (f *finish) overError() error {
	if cause := f.Cause(); !errors.Is(cause, lockagent.ErrReleased) {
		return cause
	}
	return lockagent.ErrNotHeld
}

// tell tells those who wait for the end, and reports whether there were any. The actor calls it once.
func (f *finish) tell(a *Agent) (some bool) {
	f.mu.Lock()
	ended, contexts, why := f.ended, f.contexts, f.why
	f.contexts = tied.Contexts{}
	f.mu.Unlock()
	if ended != nil {
		close(ended)
	}
	some = ended != nil || contexts.Any()
	returned := false
	defer a.survive("the parent of a grant's context", &returned)
	contexts.End(why)
	returned = true
	return some
}

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
	var dropped []*request
	for r := range l.holds {
		switch {
		case r.handle != nil:
			runtime.AddCleanup(r.handle, func(dropped *atomic.Bool) { dropped.Store(true) }, &r.dropped)
			r.handle = nil
		case r.dropped.Load():
			dropped = append(dropped, r)
		}
	}
	for _, r := range dropped { // a step changes what the lock holds
		l.agent.warn(&l.agent.dropped, "lockagent: a grant that nobody had any more was given back; further ones are "+
			"not logged",
			"lock", string(l.entry.name), "owner", string(r.Owner), "token", uint64(r.token),
			"advice", "release every grant, or work under its Context")
		l.step(lockstate.Unclaimed{ID: r.id})
	}
}

// holds iterates over the requests that are granted and not over. yield may forget the one that it gets.
func (l *lock) holds(yield func(*request) bool) {
	for r := range l.requests.all {
		if r.granted() && !yield(r) {
			return
		}
	}
}

// oldestHold is the hold of a tenure that was granted first, or nil if there is none.
func (l *lock) oldestHold(tenure uint64) (oldest *request) {
	for r := range l.holds {
		if r.tenure == tenure && (oldest == nil || r.token < oldest.token) {
			oldest = r
		}
	}
	return oldest
}

// releasable is the youngest hold whose grant the owner has received. A grant that the owner
// has not received is not released: its receiver would not know. hidden tells that all holds
// of the owner are such. Holds of another mode do not count, unless the mode is empty.
func (l *lock) releasable(owner lockagent.Owner, mode lockagent.Mode) (found *request, hidden bool) {
	l.state.Grants(owner, func(id lockstate.RequestID) bool {
		switch r := l.requests.get(id); {
		case mode != "" && modeIn(r.Mode) != modeIn(mode):
		case r.isReceived():
			found = r
		default:
			hidden = true
		}
		return found == nil
	})
	return found, hidden && found == nil
}
