package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// spoilt is a store whose methods a defect can replace. It stands in front of a sound store
// that answers before its methods return, as memstore does.
type spoilt struct {
	acquire        func(lockagent.AcquireRequest) (lockagent.AcquireReply, error)
	renew          func(lockagent.RenewRequest) (lockagent.RenewReply, error)
	release        func(lockagent.ReleaseRequest) (lockagent.ReleaseReply, error)
	breakLock      func(lockagent.BreakRequest) (lockagent.BreakReply, error)
	inspect        func(lockagent.Name, lockagent.LockKind) (lockagent.Inspection, error)
	latch          func(lockagent.LatchRequest) (lockagent.LatchReply, error)
	subscribe      func(lockagent.Name, lockagent.LockKind, func()) func()
	permits        func(lockagent.PermitsRequest) (lockagent.PermitsReply, error)
	listen         func(lockagent.AgentID, func(lockagent.Message)) func()
	onReset        func(func(lockagent.Reset)) func()
	time           func() (lockagent.StoreTime, error)
	identity       func() string
	remembersSince func() time.Time
	reasserted     func(incarnation string) // see keeper; nil without grace periods, as the next two
	left           func()
	onGrace        func(func(lockagent.GracePeriod)) func()
	close          func() error

	answers      atomic.Int32 // how many times done is called
	obeysContext bool
	deafInDone   bool
	deaf         atomic.Int32 // no call is answered meanwhile

	sound  *memstore.Store
	ledger *ledger // of all stores of a harness
}

var (
	_ lockagent.Store    = (*spoilt)(nil)
	_ lockagent.Messages = (*spoilt)(nil)
	_ lockagent.Queue    = (*spoilt)(nil)
	_ lockagent.Rests    = (*spoilt)(nil)
	_ lockagent.Operator = (*spoilt)(nil)
	_ lockagent.Counters = (*spoilt)(nil)
	_ lockagent.History  = (*spoilt)(nil)
	_ lockagent.Grace    = (*spoilt)(nil)
)

// newSpoilt returns a store that is not spoilt yet.
func newSpoilt(sound *memstore.Store, l *ledger) *spoilt {
	ctx := context.Background()
	s := &spoilt{
		sound: sound,
		acquire: func(req lockagent.AcquireRequest) (reply lockagent.AcquireReply, err error) {
			sound.Acquire(ctx, req, func(r lockagent.AcquireReply, e error) { reply, err = r, e })
			return reply, err
		},
		renew: func(req lockagent.RenewRequest) (reply lockagent.RenewReply, err error) {
			sound.Renew(ctx, req, func(r lockagent.RenewReply, e error) { reply, err = r, e })
			return reply, err
		},
		release: func(req lockagent.ReleaseRequest) (reply lockagent.ReleaseReply, err error) {
			sound.Release(ctx, req, func(r lockagent.ReleaseReply, e error) { reply, err = r, e })
			return reply, err
		},
		breakLock: func(req lockagent.BreakRequest) (reply lockagent.BreakReply, err error) {
			sound.Break(ctx, req, func(r lockagent.BreakReply, e error) { reply, err = r, e })
			return reply, err
		},
		inspect: func(name lockagent.Name, kind lockagent.LockKind) (seen lockagent.Inspection, err error) {
			sound.Inspect(ctx, name, kind, func(i lockagent.Inspection, e error) { seen, err = i, e })
			return seen, err
		},
		permits: func(req lockagent.PermitsRequest) (reply lockagent.PermitsReply, err error) {
			sound.Permits(ctx, req, func(r lockagent.PermitsReply, e error) { reply, err = r, e })
			return reply, err
		},
		latch: func(req lockagent.LatchRequest) (reply lockagent.LatchReply, err error) {
			sound.Latch(ctx, req, func(r lockagent.LatchReply, e error) { reply, err = r, e })
			return reply, err
		},
		subscribe: sound.Subscribe,
		listen:    sound.Listen,
		onReset:   sound.OnReset,
		time: func() (at lockagent.StoreTime, err error) {
			sound.Time(ctx, func(t lockagent.StoreTime, e error) { at, err = t, e })
			return at, err
		},
		identity:       sound.Identity,
		remembersSince: sound.RemembersSince,
		close:          sound.Close,
	}
	s.answers.Store(1)
	l.join(s)
	return s
}

func (s *spoilt) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	reply, err := s.acquire(req)
	answerSpoilt(s, ctx, done, reply, err)
}

func (s *spoilt) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	reply, err := s.renew(req)
	answerSpoilt(s, ctx, done, reply, err)
}

func (s *spoilt) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	reply, err := s.release(req)
	answerSpoilt(s, ctx, done, reply, err)
}

func (s *spoilt) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	reply, err := s.breakLock(req)
	answerSpoilt(s, ctx, done, reply, err)
}

func (s *spoilt) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	seen, err := s.inspect(name, kind)
	answerSpoilt(s, ctx, done, seen, err)
}

func (s *spoilt) Permits(ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	reply, err := s.permits(req)
	answerSpoilt(s, ctx, done, reply, err)
}

func (s *spoilt) Time(ctx context.Context, done func(lockagent.StoreTime, error)) {
	at, err := s.time()
	answerSpoilt(s, ctx, done, at, err)
}

func answerSpoilt[R any](s *spoilt, ctx context.Context, done func(R, error), reply R, err error) {
	if s.obeysContext && ctx.Err() != nil {
		var none R
		reply, err = none, ctx.Err()
	}
	if s.deaf.Load() > 0 {
		return
	}
	for range s.answers.Load() {
		if s.deafInDone {
			s.deafly(func() { done(reply, err) })
			continue
		}
		done(reply, err)
	}
}

// deafly answers no call while f runs, as if a mutex were held.
func (s *spoilt) deafly(f func()) {
	s.deaf.Add(1)
	defer s.deaf.Add(-1)
	f()
}

func (s *spoilt) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
	return s.subscribe(name, kind, wake)
}

func (s *spoilt) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
	return s.listen(agent, hear)
}
func (s *spoilt) OnReset(f func(lockagent.Reset)) func() { return s.onReset(f) }
func (s *spoilt) Identity() string                       { return s.identity() }
func (s *spoilt) RemembersSince() time.Time              { return s.remembersSince() }
func (s *spoilt) Queues() bool                           { return !s.ledger.noQueue }
func (s *spoilt) Rests() bool                            { return !s.ledger.noQueue }
func (s *spoilt) Reasserted(incarnation string)          { s.reasserted(incarnation) }
func (s *spoilt) Left()                                  { s.left() }
func (s *spoilt) Close() error                           { return s.close() }

func (s *spoilt) OnGrace(f func(lockagent.GracePeriod)) func() { return s.onGrace(f) }

func refusingTheHolder(s *spoilt) {
	acquire := s.acquire
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		if seen, err := s.inspect(req.Name, req.Kind); err == nil && seen.Holder == req.Tenure.String() {
			return lockagent.AcquireReply{Holder: seen.Holder, Remaining: seen.Remaining}, nil
		}
		return acquire(req)
	}
}

// asking spoils the requests of Acquire.
func asking(change func(*lockagent.AcquireRequest)) func(*spoilt) {
	return func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			change(&req)
			return acquire(req)
		}
	}
}

// replyingAcquire spoils the replies of Acquire.
func replyingAcquire(change func(lockagent.AcquireRequest, *lockagent.AcquireReply)) func(*spoilt) {
	return func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if err == nil {
				change(req, &reply)
			}
			return reply, err
		}
	}
}

// ending spoils the requests of Release.
func ending(change func(*lockagent.ReleaseRequest)) func(*spoilt) {
	return func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			change(&req)
			return release(req)
		}
	}
}

// withdrawing remembers one withdrawn tenure of each agent and lock. It has refuses decide by
// that tenure whether an Acquire is withdrawn.
func withdrawing(refuses func(withdrawn, number uint64) bool) func(*spoilt) {
	return func(s *spoilt) {
		acquire := s.acquire
		var withdrawn sync.Map
		ending(func(req *lockagent.ReleaseRequest) {
			if req.Unanswered {
				withdrawn.Store(req.Tenure.Agent+lockagent.AgentID(req.Name), req.Tenure.Number)
			}
			req.Unanswered = false
		})(s)
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if last, ok := withdrawn.Load(req.Tenure.Agent + lockagent.AgentID(req.Name)); ok &&
				refuses(last.(uint64), req.Tenure.Number) {
				return lockagent.AcquireReply{}, lockagent.ErrWithdrawn
			}
			return acquire(req)
		}
	}
}

// replyingRelease spoils the replies of Release.
func replyingRelease(change func(*lockagent.ReleaseReply)) func(*spoilt) {
	return func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			reply, err := release(req)
			if err == nil {
				change(&reply)
			}
			return reply, err
		}
	}
}

// waking drops the wake-ups of a subscription for which mayPass is false.
func waking(mayPass func(nth int) bool) func(*spoilt) {
	return func(s *spoilt) {
		subscribe := s.subscribe
		s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
			var nth atomic.Int64
			return subscribe(name, kind, func() {
				if mayPass(int(nth.Add(1))) {
					wake()
				}
			})
		}
	}
}
