package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// link is the stream of many claims. One goroutine reads what becomes of them, and another one does what the client
// wants.
type link struct {
	id   string
	uid  uint32
	wake chan struct{} // has a value when there may be something to tell
	room chan struct{} // has a value when something was told
	left chan struct{} // closed when the client submits nothing more
	why  error         // set before left is closed: the answer to the Submit if it was refused, or nil

	// The book calls note with its mutex held. So nothing calls the book while this mutex is held.
	mu      sync.Mutex
	linked  map[uint64]*linked       // guarded by mu
	ready   []*linked                // guarded by mu; those that may have something to tell
	answers []*lockagentv1.LinkEvent // guarded by mu
	pending int                      // guarded by mu; answers that the store has to give first
	closed  bool                     // guarded by mu
}

// linked is a claim of a link. The mutex of the link guards what changes.
type linked struct {
	ref    uint64
	stream *claims.Stream // nil until it is there
	ready  bool
}

// Bounds of a link.
const (
	maxUntold = 4096 // events that wait for the client, before its commands wait
	maxTold   = 256  // events in a message
)

func newLink(uid uint32) *link {
	return &link{
		id: rand.Text(), uid: uid, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), left: make(chan struct{}),
		linked: make(map[uint64]*linked),
	}
}

// close ends the link and its claims.
func (k *link) close() {
	k.mu.Lock()
	k.closed = true
	var left []*claims.Stream
	for _, x := range k.linked {
		if x.stream != nil {
			left = append(left, x.stream)
		}
	}
	k.linked, k.ready, k.answers = nil, nil, nil
	k.mu.Unlock()
	wake(k.room)
	for _, s := range left {
		s.Close()
	}
}

// leave notes that the client submits nothing more. If its Submit was refused, why is that answer.
func (k *link) leave(why error) {
	k.why = why
	close(k.left)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// note notes that a claim may have something to tell.
func (k *link) note(x *linked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !x.ready && !k.closed {
		x.ready = true
		k.ready = append(k.ready, x)
		wake(k.wake)
	}
}

func (k *link) answer(e *lockagentv1.LinkEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.answers = append(k.answers, e)
		wake(k.wake)
	}
}

// claim adds a claim, which make makes.
func (k *link) claim(ref uint64, make func(news func()) (*claims.Stream, error)) error {
	x := &linked{ref: ref}
	k.mu.Lock()
	switch {
	case k.closed:
		k.mu.Unlock()
		return errLinkOver
	case k.linked[ref] != nil:
		k.mu.Unlock()
		return errRef
	}
	k.linked[ref] = x
	k.mu.Unlock()
	s, err := make(func() { k.note(x) })
	k.mu.Lock()
	over := k.closed
	x.stream = s
	if err != nil {
		delete(k.linked, ref)
	}
	k.mu.Unlock()
	switch {
	case err != nil:
		k.answer(&lockagentv1.LinkEvent{Ref: ref, What: &lockagentv1.LinkEvent_Refused{Refused: failure(err)}})
	case over:
		s.Close()
	default:
		k.note(x) // it may have told something already
	}
	return nil
}

// take returns the claim with that number. It is none of the link any more if it leaves.
func (k *link) take(ref uint64, leaves bool) *claims.Stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.linked[ref]
	if x == nil {
		return nil
	}
	s := x.stream
	if leaves {
		x.stream = nil
		delete(k.linked, ref)
	}
	return s
}

// drop removes a claim that is over. The client may have released it meanwhile, and may have another one with its
// number.
func (k *link) drop(x *linked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.linked[x.ref] == x {
		x.stream = nil
		delete(k.linked, x.ref)
	}
}

// release ends a claim. The answer is the last that the client hears of it.
func (k *link) release(ref uint64, lost lockagent.LossReason) {
	told := func(err error) {
		if !errors.Is(err, lockagent.ErrClosed) { // the next daemon answers, over another link
			k.answer(&lockagentv1.LinkEvent{Ref: ref, What: &lockagentv1.LinkEvent_Released{Released: failure(err)}})
		}
	}
	s := k.take(ref, true)
	if s == nil {
		told(nil) // its end has been told
		return
	}
	done := s.Release(lost)
	select {
	case err := <-done:
		told(err)
	default:
		k.later(func() { told(<-done) })
	}
}

// extend extends a lease. It may wait for the store.
func (k *link) extend(ctx context.Context, ref, id uint64, extend func(*claims.Stream) (claims.Deadline, error)) {
	told := func(at claims.Deadline, err error) {
		if errors.Is(err, lockagent.ErrClosed) { // the next daemon answers, over another link
			return
		}
		e := &lockagentv1.Extended{Id: id, Deadline: deadline(at)}
		if err != nil {
			e.Failure = failure(err)
		}
		k.answer(&lockagentv1.LinkEvent{Ref: ref, What: &lockagentv1.LinkEvent_Extended{Extended: e}})
	}
	s := k.take(ref, false)
	if s == nil {
		told(0, lockagent.ErrNotHeld)
		return
	}
	k.later(func() { told(extend(s)) })
}

// later answers when the store has answered.
func (k *link) later(answer func()) {
	k.mu.Lock()
	k.pending++
	k.mu.Unlock()
	go func() {
		answer()
		k.mu.Lock()
		k.pending--
		k.mu.Unlock()
		wake(k.room)
	}()
}

// next waits for what there is to tell, and returns it. Its error is how the call of the link ends. If the Submit was
// refused, the link ends with the same refusal: the client cannot tell in which order the two calls ended.
func (k *link) next(ctx context.Context) ([]*lockagentv1.LinkEvent, error) {
	for {
		if events := k.collect(); len(events) > 0 {
			return events, nil
		}
		select {
		case <-k.wake:
		case <-k.left:
			return nil, cmp.Or(k.why, wire.Refuse(errLinkOver))
		case <-ctx.Done():
			return nil, wire.Refuse(context.Cause(ctx))
		}
	}
}

// collect returns what there is to tell, without waiting.
func (k *link) collect() []*lockagentv1.LinkEvent {
	k.mu.Lock()
	n := min(len(k.answers), maxTold)
	events := k.answers[:n:n]
	k.answers = k.answers[n:]
	n = min(len(k.ready), maxTold)
	ready := k.ready[:n:n]
	k.ready = k.ready[n:]
	streams := make([]*claims.Stream, n)
	for i, x := range ready {
		x.ready = false
		streams[i] = x.stream
	}
	if len(k.answers)+len(k.ready) > 0 {
		wake(k.wake)
	}
	k.mu.Unlock()
	wake(k.room)
	for i, s := range streams {
		if s == nil {
			continue // it was released, or its stream is about to come
		}
		for {
			e, err := s.Take()
			if err != nil {
				k.drop(ready[i])
				break
			}
			if e == nil {
				break
			}
			events = append(events, &lockagentv1.LinkEvent{
				Ref: ready[i].ref, What: &lockagentv1.LinkEvent_Event{Event: message(e)},
			})
		}
	}
	return events
}

// await waits until not too much waits for the client.
func (k *link) await(ctx context.Context) error {
	for {
		k.mu.Lock()
		closed, room := k.closed, len(k.answers)+len(k.ready)+k.pending < maxUntold
		k.mu.Unlock()
		switch {
		case closed:
			return errLinkOver
		case room:
			return nil
		}
		select {
		case <-k.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
