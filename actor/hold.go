package actor

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/tied"
	"github.com/lockagent/lockagent/internal/warning"
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

// holds iterates over the requests that are granted and not over. yield may forget the one that it gets.
func (l *lock) holds(yield func(*request) bool) {
	for r := range l.requests.all {
		if r.granted() && !yield(r) {
			return
		}
	}
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

// extendMsg asks for a longer fixed lease of a hold.
type extendMsg struct {
	counted
	request *request
	lease   time.Duration
	done    chan error
}

// extension is an extension that the store has not confirmed.
type extension struct {
	until  lockstate.Instant
	done   chan error
	longer *extension // the next one of the same hold, or nil
}

// ExtendAsync starts the fixed lease of the hold anew: it ends d from now, but never earlier
// than before. While the store is silent the agent goes on trying. The channel delivers
//
//   - nil when the store has confirmed the lease, or if the lease is kept because of another hold of the session,
//   - a [*lockagent.LostError] if the hold is lost before that,
//   - [lockagent.ErrNotHeld] if the hold is released before that,
//   - an [*lockagent.OptionError] if d is no lease, or if the request has a kept one.
//
// The channel has capacity 1 and delivers one value. Then the agent closes it. ctx carries
// values only.
func (r *request) ExtendAsync(_ context.Context, d time.Duration) <-chan error {
	m := &extendMsg{request: r, lease: d, done: make(chan error, 1)}
	err := lockagent.CheckLease(d)
	switch {
	case r.Lease == 0:
		err = &lockagent.OptionError{Option: "lease", Reason: "the lease of this hold is kept; it needs no extension"}
	case err == nil && !r.entry.pin(): // an actor with a hold has not retired
		err = r.overError()
	}
	if err != nil {
		answer(m.done, err)
	} else {
		send(r.entry, m)
	}
	return m.done
}

func answer(done chan error, err error) {
	done <- err
	close(done)
}

func (l *lock) extend(m *extendMsg) {
	r := m.request
	if l.requests.get(r.id) != r {
		answer(m.done, r.overError())
		return
	}
	last := &r.extensions
	for *last != nil {
		last = &(*last).longer
	}
	x := &extension{until: math.MaxInt64, done: m.done} // not known yet
	*last = x
	l.step(lockstate.Extend{ID: r.id, Lease: m.lease})
	x.until = lockstate.Instant(r.fixed.Load())
	r.confirmExtensions()
}

// confirmExtensions answers the extensions that end no later than the deadline of their hold, and all of a lease that
// is kept: it counts when the lease is kept no more.
func (l *lock) confirmExtensions() {
	for r := range l.holds {
		r.confirmExtensions()
	}
}

func (r *request) confirmExtensions() {
	deadline := lockstate.Instant(r.deadline.Load())
	for x := r.extensions; x != nil && (r.fixed.Load() == 0 || x.until <= deadline); x = x.longer {
		answer(x.done, nil)
		r.extensions = x.longer
	}
}

// refuseExtensions answers the extensions that are not confirmed when the hold is over.
func (r *request) refuseExtensions() {
	for x := r.extensions; x != nil; x = x.longer {
		answer(x.done, r.overError())
	}
	r.extensions = nil
}

// warnings are what a holder can wait for while it has the lock. A hold has none until somebody asks. They are guarded
// by the mutex of the hold's [finish].
type warnings struct{ wanted, uncertain warning.Warning }

// warn changes the warnings of a hold. If nobody has asked for them, they do not matter.
func (r *request) warn(change func(*warnings)) {
	r.mu.Lock()
	var before, after warnings
	if r.finish.warnings != nil {
		before = *r.finish.warnings
		change(r.finish.warnings)
		after = *r.finish.warnings
	}
	r.mu.Unlock()
	wanted, uncertain := after.wanted.Given(), after.uncertain.Given()
	if r.Watch != nil && (wanted != before.wanted.Given() || uncertain != before.uncertain.Given()) {
		r.watched(func(w Watcher) { w.Warned(wanted, uncertain) })
	}
}

// warning returns a channel of a hold. The actor has to learn of the first who asks. A hold that is over has no
// warnings any more.
func (r *request) warning(which func(*warnings) *warning.Warning) <-chan struct{} {
	r.mu.Lock()
	if r.finish.warnings == nil {
		r.finish.warnings = new(warnings)
	}
	w := which(r.finish.warnings)
	first := !w.Asked() && r.why == nil
	c := w.Channel()
	r.mu.Unlock()
	if first {
		send(r.entry, &watchMsg{request: r})
	}
	return c
}

// Wanted implements [lockagent.Hold].
func (r *request) Wanted() <-chan struct{} {
	return r.warning(func(w *warnings) *warning.Warning { return &w.wanted })
}

// Uncertain implements [lockagent.Hold].
func (r *request) Uncertain() <-chan struct{} {
	return r.warning(func(w *warnings) *warning.Warning { return &w.uncertain })
}

// watchFor begins to tell a hold whether others want the lock, and tells what is known now.
func (l *lock) watchFor(r *request) {
	if l.requests.get(r.id) != r || !r.granted() {
		return
	}
	wanted, uncertain := l.state.Wanted(), l.state.Uncertain(r.id)
	r.warn(func(w *warnings) {
		if w.wanted.Asked() && !r.watches {
			r.watches = true
			l.watching++
		}
		if wanted && w.wanted.Asked() {
			w.wanted.Set(true)
		}
		w.uncertain.Set(uncertain)
	})
	l.wanted = wanted
}

// tellWanted tells the holds that ask when others begin to want the lock. A hold that was told stays so.
func (l *lock) tellWanted() {
	if l.watching == 0 {
		return
	}
	before := l.wanted
	l.wanted = l.state.Wanted()
	if !l.wanted || before {
		return
	}
	for r := range l.holds {
		if r.watches {
			r.warn(func(w *warnings) { w.wanted.Set(true) })
		}
	}
}

// tellUncertain tells the holds of a tenure whether they are uncertain.
func (l *lock) tellUncertain(e *lockstate.Event) {
	for r := range l.holds {
		if r.tenure == e.Tenure {
			uncertain := l.state.Uncertain(r.id)
			r.warn(func(w *warnings) { w.uncertain.Set(uncertain) })
		}
	}
}
