package storetest

import (
	"errors"
	"slices"

	"github.com/lockagent/lockagent"
)

// kindDefects are the defects of kinds.
var kindDefects = []defect{
	{"takes all kinds for one", "Kind/one name, one kind", naming(func(kind lockagent.LockKind) lockagent.LockKind {
		if slices.Contains(soundKinds, kind) {
			return lockagent.PlainLock
		}
		return kind
	})},
	{
		"takes any word for a kind",
		"Kind/a kind that the store does not have is an error",
		naming(func(kind lockagent.LockKind) lockagent.LockKind {
			if slices.Contains(soundKinds, kind) {
				return kind
			}
			return lockagent.PlainLock
		}),
	},
	{
		"wants every kind to be named",
		"Kind/a request that names no kind is for a plain lock",
		naming(func(kind lockagent.LockKind) lockagent.LockKind {
			if kind == "" {
				return "none"
			}
			return kind
		}),
	},
	{
		"does not mind as which kind somebody was passed the lock",
		"Kind/who was passed the lock shows the kind",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				if errors.Is(err, lockagent.ErrWrongKind) && !req.Queue {
					return lockagent.AcquireReply{Remaining: minute, Holder: "somebody"}, nil
				}
				return reply, err
			}
		},
	},
	{
		"keeps a name for its first kind",
		"Kind/a name that is not in use any more can be used as another kind",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				if first, _ := s.ledger.kinds.LoadOrStore(req.Name, req.Kind); first != req.Kind {
					return lockagent.AcquireReply{}, &lockagent.KindError{
						Name: req.Name, Kind: req.Kind, Used: first.(lockagent.LockKind),
					}
				}
				return acquire(req)
			}
		},
	},
}

// naming spoils the kind in all requests.
func naming(change func(lockagent.LockKind) lockagent.LockKind) func(*spoilt) {
	return func(s *spoilt) {
		renew, breakLock, inspect := s.renew, s.breakLock, s.inspect
		asking(func(req *lockagent.AcquireRequest) { req.Kind = change(req.Kind) })(s)
		ending(func(req *lockagent.ReleaseRequest) { req.Kind = change(req.Kind) })(s)
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			req.Kind = change(req.Kind)
			return renew(req)
		}
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			req.Kind = change(req.Kind)
			return breakLock(req)
		}
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			return inspect(name, change(kind))
		}
	}
}
