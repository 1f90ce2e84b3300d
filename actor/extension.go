package actor

import (
	"context"
	"math"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

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
