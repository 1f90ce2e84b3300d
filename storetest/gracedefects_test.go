package storetest

import (
	"context"
	"errors"

	"github.com/lockagent/lockagent"
)

// graceDefects are the defects of grace periods.
var graceDefects = []defect{
	{"grants in a grace period", "Grace/nothing new is granted", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (reply lockagent.AcquireReply, err error) {
			reply, err = acquire(req)
			if errors.Is(err, lockagent.ErrGrace) && req.Name == "of nobody" {
				s.sound.Acquire(context.Background(), req, func(r lockagent.AcquireReply, e error) { reply, err = r, e })
			}
			return reply, err
		}
	}},
	{"breaks in a grace period", "Grace/nobody breaks a lock", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			reply, err := breakLock(req)
			if errors.Is(err, lockagent.ErrGrace) {
				err = nil
			}
			return reply, err
		}
	}},
	{
		"puts back tenures of a moment", "Grace/a holder comes back with its hold",
		renewing(func(req *lockagent.RenewRequest) {
			if req.Last > 0 {
				req.Lease = lockagent.MinLease
			}
		}),
	},
	{
		"puts back nothing", "GraceReadWrite/tenures that share a lock come back together",
		renewing(func(req *lockagent.RenewRequest) { req.Last = 0 }),
	},
	{"does not release what was put back", "Grace/a hold that ended meanwhile is over", func(s *spoilt) {
		release, renew := s.release, s.renew
		back := make(map[lockagent.Tenure]bool)
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			back[req.Tenure] = true
			return renew(req)
		}
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			if back[req.Tenure] {
				return lockagent.ReleaseReply{Released: true}, nil
			}
			return release(req)
		}
	}},
	{
		"takes the release of an unanswered tenure for a loss",
		"Grace/a hold that is released before it has come back was not lost", losing(
			func(req lockagent.ReleaseRequest) bool { return req.Unanswered },
		),
	},
	{
		"takes each release of a period for a loss",
		"GraceReadWrite/a shared hold that is released before it has come back was not lost", losing(
			func(lockagent.ReleaseRequest) bool { return true },
		),
	},
	{
		"takes no release of a period for a loss",
		"GracePermits/permits that are released before they have come back were not lost", func(s *spoilt) {
			release := s.release
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				reply, err := release(req)
				reply.Released = err == nil
				return reply, err
			}
		},
	},
	{
		"puts back what had no holds", "Grace/a tenure without holds does not come back",
		renewing(func(req *lockagent.RenewRequest) { req.Last = max(req.Last, 1) }),
	},
	{"believes who comes last", "Grace/the greater token decides", func(s *spoilt) {
		n := lockagent.Token(0)
		renewing(func(req *lockagent.RenewRequest) {
			n++
			req.Last += n << 40
		})(s)
	}},
	{"believes who comes first", "Grace/the greater token decides", func(s *spoilt) {
		n := lockagent.Token(1000)
		renewing(func(req *lockagent.RenewRequest) {
			n--
			req.Last += n << 40
		})(s)
	}},
	{
		"takes no look at tokens", "GraceReadWrite/a reader and a writer are not put back together",
		renewing(func(req *lockagent.RenewRequest) { req.Last = min(req.Last, 1) }),
	},
	{"waits for the first agent only", "Grace/it ends when all have come back", func(s *spoilt) {
		reasserted := s.reasserted
		s.reasserted = func(incarnation string) {
			reasserted(incarnation)
			s.ledger.keeper.waitForNobody()
		}
	}},
	{
		"waits for nobody who is gone",
		"Grace/it waits for an agent that does not come, until the longest lease of that agent is over",
		func(s *spoilt) {
			closing := s.close
			s.close = func() error {
				s.left()
				return closing()
			}
		},
	},
	{
		"waits for agents that have left", "Grace/it does not wait for an agent that has left",
		func(s *spoilt) { s.left = func() {} },
	},
	{
		"does not know who goes on",
		"Grace/an agent that goes on with the tenures of another process comes back",
		func(s *spoilt) {
			reasserted := s.reasserted
			s.reasserted = func(incarnation string) {
				if incarnation != lockagent.PresentIncarnation {
					reasserted(incarnation)
				}
			}
		},
	},
	{
		"takes any incarnation for the present one",
		"Grace/an agent that was there before has to say to what it has come back",
		func(s *spoilt) {
			reasserted := s.reasserted
			s.reasserted = func(string) { reasserted(s.ledger.keeper.now) }
		},
	},
	{
		"does not tell who has not come",
		"Grace/it waits for an agent that does not come, until the longest lease of that agent is over",
		tellingOfGrace(func(p *lockagent.GracePeriod) { p.Roll = nil }),
	},
	{
		"tells no reason", "Grace/its beginning and its end are told",
		tellingOfGrace(func(p *lockagent.GracePeriod) { p.Reason = "" }),
	},
	{
		"tells of the same incarnation", "Grace/its beginning and its end are told",
		tellingOfGrace(func(p *lockagent.GracePeriod) { p.Incarnation = "the only one" }),
	},
	{
		"forgets how many permits there were", "GracePermits/the latest number of permits counts",
		renewing(func(req *lockagent.RenewRequest) { req.Total = min(req.Total, 2) }),
	},
	{
		"puts one permit back", "GracePermits/permits come back, and their number",
		renewing(func(req *lockagent.RenewRequest) { req.Permits = min(req.Permits, 1) }),
	},
	{"changes permits in a grace period", "GracePermits/no number is changed", func(s *spoilt) {
		permits := s.permits
		s.permits = func(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
			reply, err := permits(req)
			if errors.Is(err, lockagent.ErrGrace) && req.Op == lockagent.DeletePermits {
				reply, err = lockagent.PermitsReply{At: 1}, nil
			}
			return reply, err
		}
	}},
	{"grants permits in a grace period", "GracePermits/nothing new is granted", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if errors.Is(err, lockagent.ErrGrace) && req.Kind == lockagent.Semaphore {
				reply, err = lockagent.AcquireReply{Remaining: -1, NotSet: true}, nil
			}
			return reply, err
		}
	}},
}

// renewing spoils the requests of Renew.
func renewing(change func(*lockagent.RenewRequest)) func(*spoilt) {
	return func(s *spoilt) {
		renew := s.renew
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			change(&req)
			return renew(req)
		}
	}
}

// losing takes some releases for losses.
func losing(which func(lockagent.ReleaseRequest) bool) func(*spoilt) {
	return func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			reply, err := release(req)
			reply.Released = reply.Released && !which(req)
			return reply, err
		}
	}
}

// tellingOfGrace spoils what is told of grace periods.
func tellingOfGrace(change func(*lockagent.GracePeriod)) func(*spoilt) {
	return func(s *spoilt) {
		onGrace := s.onGrace
		s.onGrace = func(f func(lockagent.GracePeriod)) func() {
			return onGrace(func(p lockagent.GracePeriod) {
				change(&p)
				f(p)
			})
		}
	}
}
