package actor

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// extendMsg asks that the fixed lease of a hold begin anew.
type extendMsg struct {
	counted
	request *request
	lease   time.Duration
	done    chan error
}

// extension is one that the store has not confirmed.
type extension struct {
	until  lockstate.Instant
	done   chan error
	longer *extension
}

// ExtendAsync has the fixed lease of the hold begin anew, now, for d. It never ends earlier for
// that. While the store is silent the agent goes on trying. The channel delivers
//
//   - nil when the store has confirmed it,
//   - a [*lockagent.LostError] if the hold ends before that, or has ended,
//   - [lockagent.ErrNotHeld] if it is released before that, or was,
//   - an [*lockagent.OptionError] if d is no lease, or if the lease is kept.
//
// It has capacity 1, delivers one value and is closed by the agent. ctx carries values only.
func (r *request) ExtendAsync(_ context.Context, d time.Duration) <-chan error {
	m := &extendMsg{request: r, lease: d, done: make(chan error, 1)}
	err := lockagent.CheckLease(d)
	switch {
	case r.Lease == 0:
		err = &lockagent.OptionError{Option: "lease", Reason: "the lease of this hold is kept; it needs no extension"}
	case err == nil && !r.entry.pin(): // an actor with a hold has not retired
		err = r.releasedTwice()
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
		answer(m.done, r.releasedTwice())
		return
	}
	l.step(lockstate.Extend{ID: r.id, Lease: m.lease})
	if r.cause() != nil { // it was due
		answer(m.done, r.releasedTwice())
		return
	}
	last := &r.extensions
	for *last != nil {
		last = &(*last).longer
	}
	*last = &extension{until: lockstate.Instant(r.fixed.Load()), done: m.done}
	l.confirmExtensions()
}

// confirmExtensions answers those who extended their holds as far as the deadline has come.
func (l *lock) confirmExtensions() {
	for r := range l.holds.all {
		for x := r.extensions; x != nil && x.until <= lockstate.Instant(r.deadline.Load()); x = x.longer {
			answer(x.done, nil)
			r.extensions = x.longer
		}
	}
}

// refuseExtensions answers those that were not confirmed before the hold was over.
func (r *request) refuseExtensions() {
	for x := r.extensions; x != nil; x = x.longer {
		answer(x.done, r.releasedTwice())
	}
	r.extensions = nil
}
