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

// defect is a way in which a store can break the contract.
type defect struct {
	name  string // a store that ...
	found string // chapter and name of a clause that finds it out
	spoil func(s *spoilt)
}

var defects = []defect{
	{
		"forgets who has a lock",
		"Acquire/a held lock is refused, with its holder",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Holder = ""
		}),
	},
	{
		"forgets how long a lock is held",
		"Acquire/a held lock is refused, with what is left of its lease",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Remaining = 0
		}),
	},
	{"refuses a tenure that it has granted", "Acquire/a tenure is granted again", refusingTheHolder},
	{
		"grants every lock to everybody",
		"Concurrency/one tenure at a time has a lock",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Granted = true
		}),
	},
	{
		"thinks that case does not matter",
		"Acquire/names are compared byte by byte",
		asking(func(req *lockagent.AcquireRequest) {
			req.Name = lockagent.Name(strings.ToLower(string(req.Name)))
		}),
	},
	{"obeys the context", "Acquire/a context that ended stops no call", func(s *spoilt) { s.obeysContext = true }},
	{"answers twice", "Concurrency/done is called exactly once", func(s *spoilt) { s.answers.Store(2) }},
	{"does not answer", "Acquire/a free lock is granted", func(s *spoilt) { s.answers.Store(0) }},
	{
		"does not answer calls made by done", "Acquire/calls made by done are answered",
		func(s *spoilt) { s.deafInDone = true },
	},
	{"does not answer calls made by wake", "Subscribe/calls made by wake are answered", func(s *spoilt) {
		subscribe := s.subscribe
		s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
			return subscribe(name, kind, func() { s.deafly(wake) })
		}
	}},
	{"does not answer calls made by hear", "Listen/calls made by hear are answered", func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			return listen(agent, func(message lockagent.Message) { s.deafly(func() { hear(message) }) })
		}
	}},
	{"does not answer calls made in a reset", "Reset/calls made by a function that is told are answered", func(s *spoilt) {
		onReset := s.onReset
		s.onReset = func(f func(lockagent.Reset)) func() {
			return onReset(func(reset lockagent.Reset) { s.deafly(func() { f(reset) }) })
		}
	}},
	{"takes the tenures of an agent for one", "Tenure/the tenures of an agent exclude each other", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if holder, ok := s.holder(req.Name, req.Kind); ok && holder.Agent == req.Tenure.Agent {
				req.Tenure = holder
			}
			return acquire(req)
		}
	}},
	{"grants a tenure one lock only", "Tenure/the numbers of one lock mean nothing for another", func(s *spoilt) {
		acquire := s.acquire
		var locks sync.Map // by tenure
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if name, _ := locks.LoadOrStore(req.Tenure, req.Name); name != req.Name {
				return lockagent.AcquireReply{Holder: req.Tenure.String()}, nil
			}
			return acquire(req)
		}
	}},
	{
		"says that it released, and does not",
		"Release/a lock that is released is free",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			if reply.Released {
				_, _ = s.acquire(lockagent.AcquireRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure, Lease: minute})
			}
		}),
	},
	{"brings back what it renewed", "Renew/a release may overtake a renewal", func(s *spoilt) {
		renew := s.renew
		var renewed sync.Map
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			renewed.Store(req.Tenure, true)
			return renew(req)
		}
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, _ *lockagent.ReleaseReply) {
			if _, ok := renewed.Load(req.Tenure); ok {
				_, _ = s.acquire(lockagent.AcquireRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure, Lease: minute})
			}
		})(s)
	}},
	{
		"forgets what was withdrawn", "Tenure/a late call of a tenure that was withdrawn has no effect",
		ending(func(req *lockagent.ReleaseRequest) { req.Unanswered = false }),
	},
	{
		"forgets what is withdrawn when it is over",
		"Tenure/a late call of a tenure that has been over is refused",
		func(s *spoilt) {
			acquire, release := s.acquire, s.release
			var begun sync.Map
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				if reply.Granted {
					begun.Store(req.Tenure, true)
				}
				return reply, err
			}
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				if _, known := begun.Load(req.Tenure); known {
					req.Unanswered = false
				}
				return release(req)
			}
		},
	},
	{
		"withdraws every tenure", "Tenure/a tenure of which every call was answered is not withdrawn",
		ending(func(req *lockagent.ReleaseRequest) { req.Unanswered = true }),
	},
	{
		"withdraws older tenures too", "Tenure/only that tenure is withdrawn",
		withdrawing(func(withdrawn, number uint64) bool { return number <= withdrawn }),
	},
	{
		"remembers only the last that was withdrawn", "Tenure/several tenures are withdrawn",
		withdrawing(func(withdrawn, number uint64) bool { return number == withdrawn }),
	},
	{
		"withdraws only what does not have the lock",
		"Tenure/a late call of a tenure that was released is refused",
		func(s *spoilt) {
			release := s.release
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				if holder, _ := s.holder(req.Name, req.Kind); holder == req.Tenure {
					req.Unanswered = false
				}
				return release(req)
			}
		},
	},
	{
		"releases whoever has the lock",
		"Release/the release of a tenure that is over, or never was, finds nothing",
		func(s *spoilt) {
			release := s.release
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				_, _ = s.breakLock(lockagent.BreakRequest{Name: req.Name, Kind: req.Kind})
				return release(req)
			}
		},
	},
	{
		"remembers what it released",
		"Release/the release of a tenure that is over, or never was, finds nothing",
		func(s *spoilt) {
			release := s.release
			var released sync.Map
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				if first, again := released.Load(req); again {
					return first.(lockagent.ReleaseReply), nil
				}
				reply, err := release(req)
				if reply.Released {
					released.Store(req, reply)
				}
				return reply, err
			}
		},
	},
	{
		"goes back in time", "Release/a release tells when",
		replyingRelease(func(reply *lockagent.ReleaseReply) { reply.At = 1 }),
	},
	{
		"counts the agent itself among the others",
		"Subscribe/a release counts the others that it wakes, at least, or says that it cannot tell",
		replyingRelease(func(reply *lockagent.ReleaseReply) { reply.Others++ }),
	},
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
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			seen.Remaining = min(seen.Remaining, time.Duration(lease.Load()))
			return seen, err
		}
	}},
	{
		"ends leases early",
		"Lease/a lock is free when its lease has run out, and not before",
		asking(func(req *lockagent.AcquireRequest) {
			if req.Lease >= 2*lockagent.MinLease {
				req.Lease /= 2
			}
		}),
	},
	{
		"rounds leases down", "Lease/a lease is rounded up",
		asking(func(req *lockagent.AcquireRequest) { req.Lease = req.Lease.Truncate(time.Millisecond) }),
	},
	{"takes any lease", "BadRequest/leases out of range", asking(func(req *lockagent.AcquireRequest) {
		req.Lease = min(max(req.Lease, lockagent.MinLease), lockagent.MaxLease)
	})},
	{
		"takes any last token", "BadRequest/a last token that is none",
		ending(func(req *lockagent.ReleaseRequest) { req.Last = 0 }),
	},
	{"takes any tenure", "BadRequest/tenures without a number", asking(func(req *lockagent.AcquireRequest) {
		req.Tenure.Number = max(req.Tenure.Number&lockagent.MaxTenure, 1)
	})},
	{"takes any name", "BadRequest/names that no lock can have", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			if errors.Is(err, lockagent.ErrBadName) {
				err = nil
			}
			return seen, err
		}
	}},
	{
		"has one token for all",
		"Token/tokens grow from grant to grant",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Token = 1
		}),
	},
	{"counts tokens from 1", "Token/tokens are times", func(s *spoilt) {
		var tokens atomic.Uint64
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Granted {
				reply.Token = lockagent.Token(tokens.Add(1))
			}
		})(s)
	}},
	{
		"has the same token for a tenure that it grants again",
		"Token/a tenure that is granted again begins again",
		func(s *spoilt) {
			var first sync.Map // by tenure
			replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
				if reply.Granted {
					token, _ := first.LoadOrStore(req.Tenure, reply.Token)
					reply.Token = token.(lockagent.Token)
				}
			})(s)
		},
	},
	{
		"does not mind the last token", "Token/tokens grow over a release, which tells the last",
		ending(func(req *lockagent.ReleaseRequest) { req.Last = 0 }),
	},
	{"has tokens below the clock after a lease has run out", "Token/tokens grow over the end of a lease", func(s *spoilt) {
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Granted && !s.ledger.token.CompareAndSwap(0, uint64(reply.Token)) {
				reply.Token = lockagent.Token(s.ledger.token.Add(1))
			}
		})(s)
	}},
	{
		"does not mind the floor", "Token/tokens begin above the floor",
		asking(func(req *lockagent.AcquireRequest) { req.Floor = 0 }),
	},
	{"takes any floor", "Token/no token is greater than the greatest", asking(func(req *lockagent.AcquireRequest) {
		if req.Floor >= lockagent.MaxToken {
			req.Floor = 0
		}
	})},
	{"uses up all tokens for a wrong floor", "Token/no token is greater than the greatest", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if s.ledger.exhausted.Load() || req.Floor == lockagent.MaxToken-1 {
				s.ledger.exhausted.Store(true)
				return lockagent.AcquireReply{}, lockagent.ErrNotPermitted
			}
			return acquire(req)
		}
	}},
	{
		"has one name for all clocks",
		"Token/clocks are named",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Clock = "clock"
		}),
	},
	{
		"names its clock anew each time",
		"Token/clocks are named",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Clock = rand.Text()
		}),
	},
	{
		"says that it broke a lock, and does not",
		"Break/a break tells when, and whether the lock was held",
		func(s *spoilt) {
			s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
				seen, err := s.inspect(req.Name, req.Kind)
				return lockagent.BreakReply{Broken: seen.Held, At: 1}, err
			}
		},
	},
	{"says that it broke every lock", "Break/a break tells when, and whether the lock was held", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			reply, err := breakLock(req)
			reply.Broken = true
			return reply, err
		}
	}},
	{"forgets when it found a lock free", "Break/a break tells when, and whether the lock was held", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			reply, err := breakLock(req)
			if !reply.Broken {
				reply.At = 0
			}
			return reply, err
		}
	}},
	{"counts no holds", "Inspect/it tells the holder of a held lock", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			seen.HoldCount = 0
			return seen, err
		}
	}},
	{"says that a free lock has a lease", "Inspect/of a free lock there is nothing to tell", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			seen.Remaining = max(seen.Remaining, 1)
			return seen, err
		}
	}},
	{"takes anything for a lock", "Foreign/a value that is no lock is not touched", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if errors.Is(err, lockagent.ErrWrongType) {
				err = nil
			}
			return reply, err
		}
	}},
	{"takes a hash for a lock", "Foreign/a value that only looks like a lock is not touched", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			if errors.Is(err, lockagent.ErrWrongType) {
				err = nil
			}
			return seen, err
		}
	}},
	{
		"answers like the call before it, if that met an error",
		"Foreign/an error of one lock does not touch the others",
		func(s *spoilt) {
			release := s.release
			var before atomic.Value
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				_, err := s.inspect(req.Name, req.Kind)
				wrong, _ := before.Swap(errors.Is(err, lockagent.ErrWrongType)).(bool)
				if wrong {
					return lockagent.ReleaseReply{}, lockagent.ErrWrongType
				}
				return release(req)
			}
		},
	},
	{"breaks tenures only", "Foreign/the lock of another program can be broken", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			if seen, err := s.inspect(req.Name, req.Kind); err == nil && seen.Holder == stranger {
				return lockagent.BreakReply{}, nil
			}
			return breakLock(req)
		}
	}},
	{
		"gives every lease an end",
		"Foreign/a lease without end is told as negative",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Remaining = max(reply.Remaining, 0)
		}),
	},
	{
		"wakes nobody when a subscription stands", "Subscribe/wake is called once the subscription stands",
		waking(func(nth int) bool { return nth > 1 }),
	},
	{
		"wakes nobody at a release", "Subscribe/a waiter is woken when it can acquire",
		waking(func(nth int) bool { return nth == 1 }),
	},
	{"wakes nobody at a break", "Subscribe/a break wakes", func(s *spoilt) {
		breakLock := s.breakLock
		var breaking atomic.Bool
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			breaking.Store(true)
			defer breaking.Store(false)
			return breakLock(req)
		}
		waking(func(int) bool { return !breaking.Load() })(s)
	}},
	{"forgets that a subscription was cancelled", "Subscribe/a cancelled subscription is left in peace", func(s *spoilt) {
		subscribe := s.subscribe
		s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
			subscribe(name, kind, wake)
			return func() {}
		}
	}},
	{
		"is one incarnation for ever",
		"Reset/an incarnation has a name of its own",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Incarnation = "eternal"
		}),
	},
	{
		"tells no incarnation",
		"Reset/an incarnation has a name of its own",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Incarnation = ""
		}),
	},
	{
		"is always another incarnation",
		"Reset/an incarnation has a name of its own",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Incarnation = rand.Text()
		}),
	},
	{"forgets in silence", "Memory/a store tells since when it remembers", func(s *spoilt) {
		first := s.remembersSince()
		s.remembersSince = func() time.Time { return first }
	}},
	{"says that it remembers nothing", "Memory/a store tells since when it remembers", func(s *spoilt) {
		var calls time.Duration
		s.remembersSince = func() time.Time {
			calls++
			return time.Now().Add(calls)
		}
	}},
	{
		"says that it remembers what was before it was opened",
		"Memory/a store tells since when it remembers",
		func(s *spoilt) {
			first, since := s.remembersSince(), s.remembersSince
			s.remembersSince = func() time.Time {
				if now := since(); now != first {
					return now
				}
				return time.Time{}
			}
		},
	},
	{"takes no step of its clock for a loss", "Memory/a step forward of the clock ends leases early", func(s *spoilt) {
		first := s.remembersSince()
		since, stepped := s.remembersSince, false
		s.onReset(func(reset lockagent.Reset) { stepped = stepped || reset.From == reset.To })
		s.remembersSince = func() time.Time {
			if stepped {
				return first
			}
			return since()
		}
	}},
	{"takes a step back of its clock for a loss", "Memory/a step forward of the clock ends leases early", func(s *spoilt) {
		since := s.remembersSince
		s.onReset(func(lockagent.Reset) {
			now := time.Now()
			s.remembersSince = func() time.Time { return now }
		})
		s.remembersSince = func() time.Time { return since() }
	}},
	{"tells of no step of its clock", "Reset/a step of the clock is told to every store", func(s *spoilt) {
		onReset := s.onReset
		s.onReset = func(f func(lockagent.Reset)) func() {
			return onReset(func(reset lockagent.Reset) {
				if reset.From != reset.To {
					f(reset)
				}
			})
		}
	}},
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
	{
		"returns nothing to cancel once it is closed",
		"Close/a closed store takes subscriptions and ends them",
		func(s *spoilt) {
			subscribe, closeSound := s.subscribe, s.close
			var closed atomic.Bool
			s.close = func() error {
				closed.Store(true)
				return closeSound()
			}
			s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
				if closed.Load() {
					return nil
				}
				return subscribe(name, kind, wake)
			}
		},
	},
	{"wakes nobody when it is closed", "Close/a waiter is woken when the store is closed", func(s *spoilt) {
		subscribe, closeSound := s.subscribe, s.close
		var closed atomic.Bool
		s.close = func() error {
			closed.Store(true)
			return closeSound()
		}
		s.subscribe = func(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
			return subscribe(name, kind, func() {
				if !closed.Load() {
					wake()
				}
			})
		}
	}},
	{"frees a lock when it is closed", "Close/no lock is free because a store was closed", func(s *spoilt) {
		closeSound := s.close
		s.close = func() error {
			_, _ = s.breakLock(lockagent.BreakRequest{Name: theLock})
			return closeSound()
		}
	}},
}
