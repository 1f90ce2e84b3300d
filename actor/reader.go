package actor

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// reader is the hold of a reader that passed a [gate].
type reader struct {
	finish
	gate    *gate
	owner   lockagent.Owner
	passage *passage
	at      int // the place in the list of the passage; guarded by its mutex

	handle  *readerHandle // nil after the first renewal; only the actor refers to it
	dropped atomic.Bool   // nothing refers to the handle any more
}

// readerHandle stands behind the grant of a reader. It is to a reader as a [handle] is to a request.
type readerHandle struct {
	*reader
	_ [56]byte // see handle
}

var _ lockagent.Hold = (*readerHandle)(nil)

// grant is the grant of the reader.
func (h *readerHandle) grant() lockagent.Grant {
	r := h.gate.request
	return lockagent.NewGrant(r.entry.name, h.owner, r.token, 1, h)
}

// Done implements [lockagent.Hold].
func (h *readerHandle) Done() <-chan struct{} { return h.done(h) }

// OnEnd implements [lockagent.Hold].
func (h *readerHandle) OnEnd(f func(cause error)) (stop func()) {
	return h.notify(&onEnd{call: f, of: h})
}

// Release implements [lockagent.Hold].
func (h *readerHandle) Release(ctx context.Context) error {
	defer runtime.KeepAlive(h)
	return h.release(func(r *request) error { return r.release(ctx, h.owner) })
}

// ReleaseAsync implements [lockagent.Hold].
func (h *readerHandle) ReleaseAsync(ctx context.Context) <-chan error {
	defer runtime.KeepAlive(h)
	var last <-chan error
	err := h.release(func(r *request) error {
		last = r.releaseAsync(ctx, h.owner)
		return nil
	})
	if last != nil && err == nil {
		return last
	}
	done := make(chan error, 1)
	answer(done, err)
	return done
}

// release ends the hold because its owner wants it. The last one to leave the gate releases the grant of the
// gate. A reader that comes too late leaves, too: a renewal may yet let the others go on.
func (r *reader) release(last func(*request) error) (err error) {
	late := r.late()
	if !r.over(cmp.Or(late, lockagent.ErrReleased)) {
		return r.overError()
	}
	defer func() { // a callback may end the goroutine
		if r.gate.leave(r) {
			err = last(r.gate.request)
		}
		err = cmp.Or(late, err)
	}()
	r.tell(r.gate.request.agent)
	return nil
}

// late is the loss of a reader whose deadline has passed, or nil. A process that was suspended may release a hold before its
// tick.
func (r *reader) late() error {
	of := r.gate.request
	if of.Remaining() > 0 {
		return nil
	}
	return lostBy(r.owner, cmp.Or(of.Cause(), error(of.lost(lockagent.LostDeadline))))
}

// lose ends the hold, and reports false if it was over before. Then its owner may be about to release it. But whoever
// waits for the end of the hold has to learn of it before the actor goes on.
func (r *reader) lose(why error) (first bool) {
	first = r.over(lostBy(r.owner, why))
	r.tell(r.gate.request.agent)
	return first
}

// lostBy is an error about the grant of a gate, as one about the hold of a reader behind it.
func lostBy(owner lockagent.Owner, err error) error {
	lost, _ := errors.AsType[*lockagent.LostError](err)
	if lost == nil || lost.Owner == owner {
		return err
	}
	its := *lost
	its.Owner = owner
	return &its
}

// Remaining implements [lockagent.Hold].
func (r *reader) Remaining() time.Duration {
	if r.Cause() != nil {
		return 0
	}
	return r.gate.request.Remaining()
}

// ExtendAsync implements [lockagent.Hold]: the lease is kept.
func (r *reader) ExtendAsync(ctx context.Context, d time.Duration) <-chan error {
	return r.gate.request.ExtendAsync(ctx, d)
}

// Taken is as for a request.
func (r *reader) Taken() (lockagent.Tenure, int) { return r.gate.request.Taken() }

// Replicas is as for a request.
func (r *reader) Replicas() int { return r.gate.request.Replicas() }
