package storetest

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// defect is something that can be wrong with a store.
type defect struct {
	name  string // a store that ...
	found string // chapter and name of a clause that finds it out
	spoil func(s *spoilt)
}

var defects = []defect{
	{"forgets who has a lock", "Acquire/a held lock is refused, with its holder", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Holder = ""
	})},
	{"forgets how long a lock is held", "Acquire/a held lock is refused, with what is left of its lease", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Remaining = 0
	})},
	{"refuses a tenure that it has granted", "Acquire/a tenure is granted again", refusingTheHolder},
	{"grants every lock to everybody", "Concurrency/one tenure at a time has a lock", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Granted = true
	})},
	{"thinks that case does not matter", "Acquire/names are compared byte by byte", asking(func(req *lockagent.AcquireRequest) {
		req.Name = lockagent.Name(strings.ToLower(string(req.Name)))
	})},
	{"obeys the context", "Acquire/a context that ended stops no call", func(s *spoilt) { s.obeysContext = true }},
	{"answers twice", "Concurrency/done is called exactly once", func(s *spoilt) { s.answers.Store(2) }},
	{"does not answer", "Acquire/a free lock is granted", func(s *spoilt) { s.answers.Store(0) }},
	{"forgets what was withdrawn", "Tenure/a tenure that was released before is withdrawn", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			if seen, err := s.inspect(req.Name); err != nil || seen.Holder != req.Tenure.String() {
				return lockagent.ReleaseReply{At: 1}, err
			}
			return release(req)
		}
	}},
	{"releases whoever has the lock", "Release/the release of a tenure that never was harms nobody", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			_, _ = s.breakLock(req.Name)
			return release(req)
		}
	}},
	{"tells the time of a repeated release anew", "Release/a repeated release has the same reply", func(s *spoilt) {
		var calls atomic.Int64
		replyingRelease(func(reply *lockagent.ReleaseReply) {
			reply.At += lockagent.StoreTime(calls.Add(1))
		})(s)
	}},
	{"goes back in time", "Release/a release tells when", replyingRelease(func(reply *lockagent.ReleaseReply) { reply.At = 1 })},
	{"counts the agent itself among the others", "Subscribe/a release counts the others that it wakes, at least, or says that it cannot tell", replyingRelease(func(reply *lockagent.ReleaseReply) { reply.Others++ })},
	{"renews what is over", "Renew/a tenure that is over is not renewed", func(s *spoilt) {
		renew := s.renew
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			reply, err := renew(req)
			reply.Held = true
			return reply, err
		}
	}},
	{"mixes renewals up", "Renew/many renewals at once each have their own reply", func(s *spoilt) {
		renew := s.renew
		var last atomic.Pointer[lockagent.RenewReply]
		last.Store(&lockagent.RenewReply{})
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			reply, err := renew(req)
			return *last.Swap(&reply), err
		}
	}},
	{"shortens leases", "Renew/the lease is not shortened", func(s *spoilt) {
		renew, inspect := s.renew, s.inspect
		var lease atomic.Int64 // of the last renewal
		lease.Store(int64(lockagent.MaxLease))
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			lease.Store(int64(req.Lease))
			return renew(req)
		}
		s.inspect = func(name lockagent.Name) (lockagent.Inspection, error) {
			seen, err := inspect(name)
			seen.Remaining = min(seen.Remaining, time.Duration(lease.Load()))
			return seen, err
		}
	}},
	{"ends leases early", "Lease/a lock is free when its lease has run out, and not before", asking(func(req *lockagent.AcquireRequest) {
		if req.Lease >= 2*lockagent.MinLease {
			req.Lease /= 2
		}
	})},
	{"rounds leases down", "Lease/a lease is rounded up", asking(func(req *lockagent.AcquireRequest) { req.Lease = req.Lease.Truncate(time.Millisecond) })},
	{"takes any lease", "BadRequest/leases out of range", asking(func(req *lockagent.AcquireRequest) {
		req.Lease = min(max(req.Lease, lockagent.MinLease), lockagent.MaxLease)
	})},
	{"takes any number of tokens", "BadRequest/fewer than one token", asking(func(req *lockagent.AcquireRequest) { req.Tokens = max(req.Tokens, 1) })},
	{"takes any tenure", "BadRequest/tenures without a number", asking(func(req *lockagent.AcquireRequest) {
		req.Tenure.Number = max(req.Tenure.Number&(1<<63-1), 1)
	})},
	{"takes any name", "BadRequest/names that no lock can have", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name) (lockagent.Inspection, error) {
			seen, err := inspect(name)
			if errors.Is(err, lockagent.ErrBadName) {
				err = nil
			}
			return seen, err
		}
	}},
	{"has one token for all", "Token/tokens grow from grant to grant", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Token = 1
	})},
	{"reserves one token only", "Token/a range is not used again", asking(func(req *lockagent.AcquireRequest) {
		if req.Tokens > 1 {
			req.Tokens = 1
		}
	})},
	{"has the same tokens for a tenure that it grants again", "Token/a tenure that is granted again has a new range", func(s *spoilt) {
		var first sync.Map // by tenure
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Granted {
				token, _ := first.LoadOrStore(req.Tenure, reply.Token)
				reply.Token = token.(lockagent.Token)
			}
		})(s)
	}},
	{"does not mind the floor", "Token/a range begins above the floor", asking(func(req *lockagent.AcquireRequest) { req.Floor = 0 })},
	{"has tokens beyond the greatest", "Token/no token is greater than the greatest", asking(func(req *lockagent.AcquireRequest) {
		req.Floor = min(req.Floor, lockagent.MaxToken-1_000_000)
	})},
	{"says that it broke every lock", "Break/it tells whether the lock was held", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(name lockagent.Name) (bool, error) {
			_, err := breakLock(name)
			return true, err
		}
	}},
	{"counts no holds", "Inspect/of a held lock it tells the holder", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name) (lockagent.Inspection, error) {
			seen, err := inspect(name)
			seen.HoldCount = 0
			return seen, err
		}
	}},
	{"says that a free lock has a lease", "Inspect/of a free lock there is nothing to tell", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name) (lockagent.Inspection, error) {
			seen, err := inspect(name)
			seen.Remaining = max(seen.Remaining, 1)
			return seen, err
		}
	}},
	{"takes anything for a lock", "Foreign/what is no lock is not touched", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if errors.Is(err, lockagent.ErrWrongType) {
				err = nil
			}
			return reply, err
		}
	}},
	{"gives every lease an end", "Foreign/a lease without end is told as negative", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Remaining = max(reply.Remaining, 0)
	})},
	{"wakes nobody when a subscription stands", "Subscribe/wake is called once the subscription stands", waking(func(nth int) bool { return nth > 1 })},
	{"wakes nobody at a release", "Subscribe/a release wakes", waking(func(nth int) bool { return nth == 1 })},
	{"wakes nobody at a break", "Subscribe/a break wakes", func(s *spoilt) {
		breakLock := s.breakLock
		var breaking atomic.Bool
		s.breakLock = func(name lockagent.Name) (bool, error) {
			breaking.Store(true)
			defer breaking.Store(false)
			return breakLock(name)
		}
		waking(func(int) bool { return !breaking.Load() })(s)
	}},
	{"forgets that a subscription was cancelled", "Subscribe/a cancelled subscription is left in peace", func(s *spoilt) {
		subscribe := s.subscribe
		s.subscribe = func(name lockagent.Name, wake func(*lockagent.Pass)) func() {
			subscribe(name, wake)
			return func() {}
		}
	}},
	{"is one incarnation for ever", "Reset/an incarnation has a name of its own", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Incarnation = "eternal"
	})},
	{"is always another incarnation", "Reset/an incarnation has a name of its own", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Incarnation = rand.Text()
	})},
	{"tells of no reset", "Reset/a reset is told to every store", func(s *spoilt) {
		s.onReset = func(func(lockagent.Reset)) func() { return func() {} }
	}},
	{"tells of resets for ever", "Reset/a function that was cancelled is told nothing", func(s *spoilt) {
		onReset := s.onReset
		s.onReset = func(f func(lockagent.Reset)) func() {
			onReset(f)
			return func() {}
		}
	}},
	{"does not answer once it is closed", "Close/a closed store answers that it is closed", func(s *spoilt) {
		closeSound := s.close
		s.close = func() error {
			s.answers.Store(0)
			return closeSound()
		}
	}},
	{"goes on when it is closed", "Close/a closed store answers that it is closed", func(s *spoilt) {
		s.close = func() error { return nil }
	}},
	{"frees a lock when it is closed", "Close/no lock is free because a store was closed", func(s *spoilt) {
		closeSound := s.close
		s.close = func() error {
			_, _ = s.breakLock(theLock)
			return closeSound()
		}
	}},
}

func refusingTheHolder(s *spoilt) {
	acquire := s.acquire
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		if seen, err := s.inspect(req.Name); err == nil && seen.Holder == req.Tenure.String() {
			return lockagent.AcquireReply{Holder: seen.Holder, Remaining: seen.Remaining}, nil
		}
		return acquire(req)
	}
}

// asking spoils the requests that acquire.
func asking(change func(*lockagent.AcquireRequest)) func(*spoilt) {
	return func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			change(&req)
			return acquire(req)
		}
	}
}

// replyingAcquire spoils the replies to requests that acquire.
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

// replyingRelease spoils the replies to releases.
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

// waking lets only those wake-ups of a subscription through that may pass.
func waking(mayPass func(nth int) bool) func(*spoilt) {
	return func(s *spoilt) {
		subscribe := s.subscribe
		s.subscribe = func(name lockagent.Name, wake func(*lockagent.Pass)) func() {
			var nth atomic.Int64
			return subscribe(name, func(p *lockagent.Pass) {
				if mayPass(int(nth.Add(1))) {
					wake(p)
				}
			})
		}
	}
}
