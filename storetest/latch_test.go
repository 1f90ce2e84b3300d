package storetest

import (
	"context"
	"errors"
	"strconv"

	"github.com/lockagent/lockagent"
)

func (s *spoilt) Latch(ctx context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	reply, err := s.latch(req)
	answerSpoilt(s, ctx, done, reply, err)
}

var latchDefects = []defect{
	{"says that it set a latch that was set", "Latch/a latch is set once, and counted down to 0", func(s *spoilt) {
		latch := s.latch
		s.latch = func(req lockagent.LatchRequest) (lockagent.LatchReply, error) {
			reply, err := latch(req)
			reply.Changed = reply.Changed || req.Op == lockagent.LatchSet
			return reply, err
		}
	}},
	{
		"makes a change as often as it is asked for",
		"Latch/a change is made once, however often it is asked for",
		func(s *spoilt) {
			latch, calls := s.latch, 0
			s.latch = func(req lockagent.LatchRequest) (lockagent.LatchReply, error) {
				if calls++; req.Op != lockagent.LatchRead {
					req.Change = strconv.Itoa(calls)
				}
				return latch(req)
			}
		},
	},
	{
		"takes every latch for open",
		"Latch/a latch is open while there is none",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Granted = true
		}),
	},
	{"takes a latch that was deleted for open", "Latch/a latch that was deleted is gone for its waiters", forgivingLatch},
	{
		"takes a latch that it forgot for open", "Latch/a latch that the store forgot is gone for its waiters",
		forgivingLatch,
	},
	{
		"wakes nobody at the end of a latch", "Latch/the waiters are woken at the end of a latch",
		waking(func(nth int) bool { return nth == 1 }),
	},
	{"renews what nobody holds", "Latch/nobody holds a latch", func(s *spoilt) {
		s.renew = func(lockagent.RenewRequest) (lockagent.RenewReply, error) { return lockagent.RenewReply{}, nil }
	}},
	{"counts down what is no latch", "Latch/what is no latch stays as it is", latchWithout(lockagent.ErrWrongKind)},
	{
		"takes any request about a latch", "Latch/bad requests about latches have no effect",
		latchWithout(lockagent.ErrBadOption),
	},
}

// forgivingLatch does not tell the waiters of a latch that it is gone.
func forgivingLatch(s *spoilt) {
	acquire := s.acquire
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		req.FoundClosed = false
		return acquire(req)
	}
}

// latchWithout answers calls about latches without an error.
func latchWithout(without error) func(*spoilt) {
	return func(s *spoilt) {
		latch := s.latch
		s.latch = func(req lockagent.LatchRequest) (lockagent.LatchReply, error) {
			reply, err := latch(req)
			if errors.Is(err, without) {
				err = nil
			}
			return reply, err
		}
	}
}
