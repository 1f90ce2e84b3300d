package storetest

import (
	"crypto/rand"
	"strings"
	"sync/atomic"

	"github.com/lockagent/lockagent"
)

// factDefects are the defects of what the event log needs: identities, operators and traces.
var factDefects = []defect{
	{"forgets who broke a lock", "Break/the agent of the tenure learns who broke it", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			req.Operator = strings.TrimSpace(req.Operator)
			return breakLock(req)
		}
	}},
	{"takes an operator of any length", "BadRequest/an operator who is too long", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			req.Operator = req.Operator[:min(len(req.Operator), lockagent.MaxNameLen)]
			return breakLock(req)
		}
	}},
	{"has an identity for each agent", "Identity/it is the same for all agents", func(s *spoilt) {
		own := rand.Text()
		s.identity = func() string { return own }
	}},
	{"forgets its identity in a reset", "Identity/it survives a reset, or the store tells", func(s *spoilt) {
		identity := s.identity
		var resets atomic.Int32
		s.onReset(func(lockagent.Reset) { resets.Add(1) })
		s.identity = func() string { return strings.Repeat("x", int(resets.Load())) + identity() }
	}},
	{"tells the time at which it was opened", "Time/it is the time of the store's clock", func(s *spoilt) {
		opened, err := s.time()
		s.time = func() (lockagent.StoreTime, error) { return opened, err }
	}},
	{"is ahead when it tells the time", "Time/nothing that comes later is earlier", func(s *spoilt) {
		now := s.time
		s.time = func() (lockagent.StoreTime, error) {
			at, err := now()
			return at.Add(minute), err
		}
	}},
	{
		"forgets the trace of a pass", "Pass/a pass tells the trace of the release",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Trace = "" }),
	},
	{"takes any trace", "BadRequest/a trace that is none", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			req.Trace = ""
			return release(req)
		}
	}},
}
