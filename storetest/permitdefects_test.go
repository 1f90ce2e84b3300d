package storetest

import (
	"errors"
	"time"

	"github.com/lockagent/lockagent"
)

// permitDefects are the defects of semaphores.
var permitDefects = []defect{
	{
		"takes one permit for several", "Permits/permits are granted while enough are free",
		asking(func(req *lockagent.AcquireRequest) { req.Permits = min(req.Permits, 1) }),
	},
	{
		"takes what there is for too many", "PermitIDs/a request for more permits than there are has no place",
		asking(func(req *lockagent.AcquireRequest) { req.Permits = min(req.Permits, 5) }),
	},
	{"takes permits at every Acquire", "Permits/a repeated Acquire has its permits once", func(s *spoilt) {
		granted, acquire := make(map[lockagent.Tenure]bool), s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if reply.Granted && granted[req.Tenure] {
				_, _ = s.permits(lockagent.PermitsRequest{
					Name: req.Name, Kind: req.Kind, Op: lockagent.AddPermits, N: -1,
					Change: string(lockagent.NewAgentID()),
				})
			}
			granted[req.Tenure] = reply.Granted
			return reply, err
		}
	}},
	{"has any number of permits", "Permits/a number of permits has its bounds", forgiving(lockagent.ErrBadOption)},
	{"changes permits of every kind", "Permits/the other kind is refused", forgiving(lockagent.ErrWrongKind)},
	{"renews what was deleted", "Permits/a tenure of a semaphore that is another kind by now is over", func(s *spoilt) {
		renew := s.renew
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			reply, err := renew(req)
			reply.Held = true
			return reply, err
		}
	}},
	{
		"renews without a look at the others",
		"Permits/a renewal gives back the permits of others whose leases are over, and tells those who wait",
		func(s *spoilt) {
			s.renew = func(lockagent.RenewRequest) (lockagent.RenewReply, error) {
				return lockagent.RenewReply{Held: true}, nil
			}
		},
	},
	{"does not tell how many permits there are", "Permits/permits are granted while enough are free", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			reply.Total = 0
			return reply, err
		}
	}},
	{
		"releases permits after it has passed them on",
		"Permits/a release passes permits in order, as far as they suffice",
		func(s *spoilt) {
			release := s.release
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				reply, err := release(req)
				reply.At = reply.At.Add(time.Second)
				return reply, err
			}
		},
	},
	{"adds permits after it has passed them on", "Permits/permits that are added reach the waiters", func(s *spoilt) {
		permits := s.permits
		s.permits = func(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
			reply, err := permits(req)
			reply.At = reply.At.Add(time.Second)
			return reply, err
		}
	}},
	{"forgets that a tenure was withdrawn", "Permits/a withdrawn tenure gets no permits", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			req.Unanswered = false
			return release(req)
		}
	}},
	{
		"keeps permits for a minute", "Permits/permits come back at the end of a lease",
		asking(func(req *lockagent.AcquireRequest) { req.Lease = max(req.Lease, minute) }),
	},
	{"sets what nobody has set", "Permits/a semaphore that nobody has set is waited for", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			_, _ = s.permits(lockagent.PermitsRequest{
				Name: req.Name, Kind: req.Kind, Op: lockagent.TrySetPermits, N: 1,
				Change: string(lockagent.NewAgentID()),
			})
			return acquire(req)
		}
	}},
	{
		"does not tell that nobody has set a semaphore",
		"Permits/a semaphore that nobody has set is waited for",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				reply.NotSet = false
				return reply, err
			}
		},
	},
	{
		"adds in place of setting",
		"Permits/the number is set once and may be changed",
		changing(func(req *lockagent.PermitsRequest) {
			if req.Op == lockagent.TrySetPermits || req.Op == lockagent.SetPermits {
				req.Op = lockagent.AddPermits
			}
		}),
	},
	{"counts a change each time", "Permits/a repeated change counts once", changing(func(req *lockagent.PermitsRequest) {
		if req.Change != "" {
			req.Change = string(lockagent.NewAgentID())
		}
	})},
	{"breaks one semaphore in two", "Permits/a break ends all tenures", func(s *spoilt) {
		breaks, n := s.breakLock, 0
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			if n++; n%2 == 0 {
				return breaks(req)
			}
			return lockagent.BreakReply{}, nil
		}
	}},
	{"does not name the other kind", "Permits/the other kind is refused", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if errors.Is(err, lockagent.ErrWrongKind) {
				err = lockagent.ErrWrongType
			}
			return reply, err
		}
	}},
	{
		"takes any number", "Permits/wrong numbers are refused",
		changing(func(req *lockagent.PermitsRequest) { req.N = max(req.N, 0) }),
	},
	{"drains nothing", "Semaphore/a drain takes what is free", reading(lockagent.DrainPermits)},
	{"does not know ids", "PermitIDs/a permit is released by its id", reading(lockagent.ReleasePermit)},
	{"extends nothing", "PermitIDs/a permit is extended by its id", reading(lockagent.ExtendPermit)},
	{
		"ends the lease that it is to extend by less",
		"PermitIDs/an extension shortens no lease",
		changing(func(req *lockagent.PermitsRequest) {
			if req.Op == lockagent.ExtendPermit && req.Lease < minute {
				req.Op = lockagent.ReleasePermit
			}
		}),
	},
}

// morePermitFindings is moreFindings for semaphores.
var morePermitFindings = []finding{
	{"adds in place of setting", "PermitIDs/the size is set"},
	{"does not know ids", "PermitIDs/the rest of a tenure comes back with its release"},
	{"does not know ids", "PermitIDs/permits of other programs"},
	{"extends nothing", "PermitIDs/a permit without a lease gets one"},
	{"has no queue", "Permits/a release passes permits in order, as far as they suffice"},
	{"has no queue", "Permits/a large request that is given up lets smaller ones in"},
	{"tells nobody to stand by", "Permits/permits reach all who wait, however many they are"},
	{"has no queue", "Permits/permits that are added reach the waiters"},
	{"has no queue", "PermitIDs/a request that becomes too large lets others in"},
	{"wakes nobody at a release", "PermitIDs/permits that are added wake all, also if none is free"},
	{"wakes nobody at a release", "Permits/a semaphore that is deleted tells its waiters"},
	{"has no queue", "PermitIDs/requests that are too large keep nobody out, however many they are"},
	{"does not name the other kind", "Permits/a lock is no semaphore"},
}

// forgiving says that a change was made when it was refused for a reason.
func forgiving(reason error) func(*spoilt) {
	return func(s *spoilt) {
		permits := s.permits
		s.permits = func(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
			reply, err := permits(req)
			if errors.Is(err, reason) {
				reply.Done, err = true, nil
			}
			return reply, err
		}
	}
}

// changing alters the requests that read or change permits.
func changing(how func(*lockagent.PermitsRequest)) func(*spoilt) {
	return func(s *spoilt) {
		permits := s.permits
		s.permits = func(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
			how(&req)
			return permits(req)
		}
	}
}

// reading makes an operation change nothing.
func reading(op lockagent.PermitsOp) func(*spoilt) {
	return changing(func(req *lockagent.PermitsRequest) {
		if req.Op == op {
			req.Op = lockagent.ReadPermits
		}
	})
}
