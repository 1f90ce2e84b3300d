package storetest

import (
	"errors"

	"github.com/lockagent/lockagent"
)

// fencedDefects are the defects of the tokens that other programs count, too.
var fencedDefects = []defect{
	{
		"takes a plain lock for the fenced one before it",
		"Fenced/who gets the lock after a break shows its own kind",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				if first, _ := s.ledger.kinds.LoadOrStore(req.Name, req.Kind); first == lockagent.FencedLock && req.Kind != first &&
					err == nil &&
					!reply.Granted {
					err = &lockagent.KindError{Name: req.Name, Kind: req.Kind, Used: lockagent.FencedLock}
				}
				return reply, err
			}
		},
	},
	{
		"minds its own clock alone",
		"Fenced/a tenure begins above the tokens of other programs",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Granted {
				reply.Token = lockagent.Token(reply.At)
			}
		}),
	},
	{"hopes for more tokens", "Fenced/a lock without tokens is an error", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if errors.Is(err, lockagent.ErrNoTokens) {
				err = lockagent.ErrStoreUnavailable
			}
			return reply, err
		}
	}},
	{
		"does not mind the last token of a fenced lock", "Fenced/tokens ahead of the clock grow, however a tenure ends",
		ending(func(req *lockagent.ReleaseRequest) { req.Last = 0 }),
	},
	{
		"passes with the tokens of its own clock",
		"Fenced/a lock that is passed has a token above all others",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) {
			m.Token = lockagent.Token(m.At)
		}),
	},
	{
		"sets its clock by the tokens of other programs",
		"Fenced/a tenure begins above the tokens of other programs",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				_, _ = acquire(lockagent.AcquireRequest{Name: "defect", Tenure: req.Tenure, Lease: minute, Floor: reply.Token})
				return reply, err
			}
		},
	},
}
