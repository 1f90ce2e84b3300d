package channelapi_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// farStore is a store that takes a second to answer, and that can be cut off. It
// is for bubbles.
type farStore struct {
	*memstore.Store
	cut atomic.Bool
}

const roundTrip = time.Second

func newFarStore() *farStore { return &farStore{Store: memstore.New()} }

// call makes a call after half of the round trip, and answers it after the other half. A call
// or an answer that is cut off by then never arrives.
func (s *farStore) call(arrive func() (answer func()), fail func(error)) {
	time.AfterFunc(roundTrip/2, func() {
		answer := func() { fail(lockagent.ErrStoreUnavailable) }
		if !s.cut.Load() {
			answer = arrive()
		}
		time.AfterFunc(roundTrip/2, answer)
	})
}

func (s *farStore) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	s.call(func() (answer func()) {
		s.Store.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.AcquireReply{}, err) })
}

func (s *farStore) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	s.call(func() (answer func()) {
		s.Store.Renew(ctx, req, func(r lockagent.RenewReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.RenewReply{}, err) })
}

func (s *farStore) Release(
	ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error),
) {
	s.call(func() (answer func()) {
		s.Store.Release(ctx, req, func(r lockagent.ReleaseReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.ReleaseReply{}, err) })
}

func (s *farStore) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	s.call(func() (answer func()) {
		s.Store.Break(ctx, req, func(r lockagent.BreakReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.BreakReply{}, err) })
}

func (s *farStore) Permits(
	ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error),
) {
	s.call(func() (answer func()) {
		s.Store.Permits(ctx, req, func(r lockagent.PermitsReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.PermitsReply{}, err) })
}

func (s *farStore) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	s.call(func() (answer func()) {
		s.Store.Inspect(ctx, name, lockagent.PlainLock, func(i lockagent.Inspection, err error) {
			answer = func() { done(i, err) }
		})
		return answer
	}, func(err error) { done(lockagent.Inspection{}, err) })
}

func (s *farStore) Latch(ctx context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	s.call(func() (answer func()) {
		s.Store.Latch(ctx, req, func(r lockagent.LatchReply, err error) { answer = func() { done(r, err) } })
		return answer
	}, func(err error) { done(lockagent.LatchReply{}, err) })
}
