package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// queueDefects are the defects of queues and messages.
var queueDefects = []defect{
	{
		"queues everybody", "Queue/a tenure that finds the lock busy is queued if it asks for that",
		asking(func(req *lockagent.AcquireRequest) { req.Queue = true }),
	},
	{"forgets who is queued", "Queue/a tenure that finds the lock busy is queued if it asks for that", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			known := slices.ContainsFunc(s.ledger.queue(req.Name), func(e entry) bool { return e.req.Tenure == req.Tenure })
			reply, err := acquire(req)
			reply.Queued = reply.Queued && !known
			return reply, err
		}
	}},
	{
		"has a queue and says that it has none", "Acquire/a store without a queue says that nobody is queued",
		func(s *spoilt) { s.ledger.noQueue = true },
	},
	{
		"has no queue", "Queue/a tenure that finds the lock busy is queued if it asks for that",
		asking(func(req *lockagent.AcquireRequest) { req.Queue = false }),
	},
	{"tells nobody that it is wanted", "Queue/the holder is told that it is wanted", without(lockagent.MessageWanted)},
	{
		"tells that another tenure is wanted", "Queue/the holder is told that it is wanted",
		telling(lockagent.MessageWanted, func(m *lockagent.Message) { m.Tenure.Number++ }),
	},
	{"sends back whoever asks again", "Queue/a tenure that asks again keeps its place", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if req.Queue &&
				slices.ContainsFunc(s.ledger.queue(req.Name), func(e entry) bool { return e.req.Tenure == req.Tenure }) {
				_, _ = s.release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure})
			}
			return acquire(req)
		}
	}},
	{
		"keeps the places of who is granted the lock", "Queue/a tenure that is granted the lock loses its place",
		keepingPlaces,
	},
	{
		"keeps the place of a tenure that is passed the lock", "Queue/a tenure that is passed the lock loses its place",
		keepingPlaces,
	},
	{"keeps the places of who is released", "Queue/a tenure that is released loses its place", keepingPlaces},
	{"keeps the places of before a reset", "Reset/a reset empties the queue", keepingPlaces},
	{"passes to agents that do not listen", "Queue/no lock is passed to an agent that does not listen", passingToTheDead},
	{"passes although nobody listens", "Queue/no lock is passed to an agent that does not listen", passingToTheDead},
	{"gives up if the first listens no more", "Queue/a crowd of the dead holds nobody up", givingUp},
	{"keeps a free lock for who waits", "Queue/a lock that is free is granted, whoever waits", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			queue := s.ledger.queue(req.Name)
			if seen, err := s.inspect(req.Name, req.Kind); err == nil && !seen.Held && len(queue) > 0 &&
				queue[0].req.Tenure != req.Tenure {
				return lockagent.AcquireReply{Holder: "reserved"}, nil
			}
			return acquire(req)
		}
	}},
	{
		"has one queue for all locks",
		"Queue/queues of different locks are apart",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			reply.Passed = reply.Released && len(s.ledger.places) > 0
		}),
	},
	{"passes to the last", "Pass/a release passes the lock to the agent that has waited longest", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			queue := s.ledger.queue(req.Name)
			for _, e := range queue {
				_, _ = release(lockagent.ReleaseRequest{Name: e.req.Name, Kind: e.req.Kind, Tenure: e.req.Tenure})
			}
			for _, e := range slices.Backward(queue) {
				_, _ = e.by.acquire(e.req)
			}
			return release(req)
		}
	}},
	{
		"wakes everybody over a pass",
		"Pass/a release passes the lock to the agent that has waited longest",
		releasing(func(s *spoilt, _ lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			if reply.Passed {
				s.ledger.wakeAll()
			}
		}),
	},
	{
		"tells everybody of a pass", "Pass/a release passes the lock to the agent that has waited longest",
		tellingAll(lockagent.MessagePassed),
	},
	{
		"tells nobody of a pass", "Pass/a release passes the lock to the agent that has waited longest",
		without(lockagent.MessagePassed),
	},
	{
		"passes later than it releases", "Pass/the tenure begins when the other one ends",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.At += 1000 }),
	},
	{
		"passes in another life", "Pass/the tenure begins when the other one ends",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Incarnation += "'" }),
	},
	{
		"passes on another clock", "Pass/the tenure begins when the other one ends",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Clock += "'" }),
	},
	{"names no clock when it passes", "Pass/tokens grow over a pass", func(s *spoilt) {
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) { reply.Clock = "" })(s)
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Clock = "" })(s)
	}},
	{
		"passes with old tokens", "Pass/tokens grow over a pass",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Token = 1 }),
	},
	{
		"passes for long",
		"Pass/the lease is short",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			if to, ok := s.holder(req.Name, req.Kind); ok && reply.Passed {
				_, _ = s.renew(lockagent.RenewRequest{Name: req.Name, Tenure: to, Lease: 10 * time.Second})
			}
		}),
	},
	{
		"passes for less than it should",
		"Pass/the lease is short",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			if to, ok := s.holder(req.Name, req.Kind); ok && reply.Passed {
				_, _ = s.breakLock(lockagent.BreakRequest{Name: req.Name, Kind: req.Kind})
				_, _ = s.acquire(lockagent.AcquireRequest{
					Name: req.Name, Kind: req.Kind, Tenure: to, Lease: lockagent.PassLease / 2,
				})
			}
		}),
	},
	{
		"renews only what was acquired",
		"Pass/a release passes the lock to the agent that has waited longest",
		func(s *spoilt) {
			acquire, renew := s.acquire, s.renew
			var acquired sync.Map
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				reply, err := acquire(req)
				if reply.Granted {
					acquired.Store(req.Tenure, true)
				}
				return reply, err
			}
			s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
				reply, err := renew(req)
				_, known := acquired.Load(req.Tenure)
				reply.Held = reply.Held && known
				return reply, err
			}
		},
	},
	{
		"refuses a tenure that it passed the lock to", "Pass/an agent that missed the message is granted the lock",
		refusingTheHolder,
	},
	{
		"releases only what was acquired",
		"Pass/a passed tenure can be released before the message arrives",
		func(s *spoilt) {
			release := s.release
			s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
				if req.Unanswered {
					return lockagent.ReleaseReply{At: 1}, nil
				}
				return release(req)
			}
		},
	},
	{"tells nobody to stand by", "Pass/the next in the queue stands by", without(lockagent.MessageStandby)},
	{
		"has everybody stand by",
		"Pass/the next in the queue stands by",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			for _, e := range s.ledger.queue(req.Name) {
				s.ledger.tellAgent(lockagent.Message{
					Kind: lockagent.MessageStandby, Name: req.Name, Tenure: e.req.Tenure, AskAfter: lockagent.PassLease,
				})
			}
		}),
	},
	{
		"has the next stand by for long", "Pass/the next in the queue stands by",
		telling(lockagent.MessageStandby, func(m *lockagent.Message) { m.AskAfter++ }),
	},
	{"passes again at a repeated release", "Pass/a release that ends nothing passes nothing", func(s *spoilt) {
		release := s.release
		var released sync.Map
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			reply, err := release(req)
			if _, again := released.LoadOrStore(req, true); again {
				reply.Passed = true
			}
			return reply, err
		}
	}},
	{"passes what is broken", "Queue/a lock that is free is granted, whoever waits", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			reply, err := breakLock(req)
			if reply.Broken {
				s.passes(req.Name)
			}
			return reply, err
		}
	}},
	{
		"has who waits for another program sleep",
		"Queue/who waits for another program is to ask again",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.AskWithin = 0
		}),
	},
	{
		"has who waits for an agent ask",
		"Queue/who waits for an agent need not ask",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Queued {
				reply.AskWithin = time.Second
			}
		}),
	},
	{"passes what has run out", "Pass/the end of a lease passes nothing", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			if err == nil && !seen.Held {
				s.passes(name)
			}
			return seen, err
		}
	}},
	{"passes at the release of another tenure", "Pass/a release that ends nothing passes nothing", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			if holder, ok := s.holder(req.Name, req.Kind); ok {
				reply, err := release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: holder})
				reply.Released = holder == req.Tenure
				return reply, err
			}
			return release(req)
		}
	}},
	{
		"grants everybody what it passes",
		"Pass/one tenure at a time has a lock that is passed",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Granted = true
		}),
	},
	{"has outsiders wait for ever", "Outsiders/outsiders get their turn, and agents the others", func(s *spoilt) {
		s.ledger.plantOutsider = func(_ lockagent.Name, wake func()) func() {
			wake()
			return func() {}
		}
	}},
	{"has outsiders before everybody else", "Outsiders/outsiders get their turn, and agents the others", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			for _, e := range s.ledger.queue(req.Name) {
				_, _ = release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: e.req.Tenure})
			}
			return release(req)
		}
	}},
	{"wakes nobody for the outsiders' turn", "Outsiders/outsiders get their turn, and agents the others", func(s *spoilt) {
		plant := s.ledger.plantOutsider
		s.ledger.plantOutsider = func(name lockagent.Name, _ func()) func() { return plant(name, func() {}) }
	}},
	{"keeps a lock for outsiders for ever", "Outsiders/outsiders get their turn, and agents the others", func(s *spoilt) {
		acquire := s.acquire
		var kept atomic.Bool
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if err == nil && !reply.Granted && reply.Holder == "" {
				kept.Store(true)
			}
			if kept.Load() {
				return lockagent.AcquireReply{Remaining: time.Millisecond}, nil
			}
			return reply, err
		}
	}},
	{"keeps no lock for outsiders", "Outsiders/the lock is kept from the agents for a moment", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			reply, err := acquire(req)
			if err == nil && !reply.Granted && reply.Holder == "" {
				<-time.After(reply.Remaining) // in a bubble
				return acquire(req)
			}
			return reply, err
		}
	}},
	{
		"calls the outsiders' turn a holder",
		"Outsiders/the lock is kept from the agents for a moment",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if !reply.Granted && reply.Holder == "" {
				reply.Holder = "outsiders"
			}
		}),
	},
	{
		"keeps a lock from everybody",
		"Outsiders/another program can have the lock meanwhile",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Holder == stranger {
				reply.Holder = ""
			}
		}),
	},
	{
		"takes who has a place for an outsider",
		"Outsiders/an agent with a place is no outsider",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Queued && req.Queue {
				reply.Outsiders += 2
			}
		}),
	},
	{
		"counts outsiders for everybody",
		"Outsiders/outsiders are counted",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Outsiders++
		}),
	},
	{
		"passes to one among outsiders that are none", "Outsiders/an agent with a place is no outsider",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Outsiders++ }),
	},
	{
		"does not tell when an agent is listened for", "Listen/an agent is told when the store begins to listen",
		without(lockagent.MessagesMissed),
	},
	{"tells nobody of a break", "Listen/an agent is told that its tenure was broken", without(lockagent.MessageBroken)},
	{
		"tells when a tenure was broken, wrongly", "Listen/an agent is told that its tenure was broken",
		telling(lockagent.MessageBroken, func(m *lockagent.Message) { m.At++ }),
	},
	{"tells only others of a break", "Twins/an agent whose twin is told goes on", func(s *spoilt) {
		breakLock := s.breakLock
		var breaking atomic.Bool
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			breaking.Store(true)
			defer breaking.Store(false)
			return breakLock(req)
		}
		hearing(func(lockagent.Message) bool { return !breaking.Load() })(s)
	}},
	{"tells everybody of a break", "Listen/no other agent is told", tellingAll(lockagent.MessageBroken)},
	{"forgets that an agent listens no more", "Listen/an agent that listens no more is left in peace", func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			listen(agent, hear)
			return func() {}
		}
	}},
}

// hearing drops the messages for which mayPass is false.
func hearing(mayPass func(lockagent.Message) bool) func(*spoilt) {
	return func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			return listen(agent, func(message lockagent.Message) {
				if mayPass(message) {
					hear(message)
				}
			})
		}
	}
}

func without(kind lockagent.MessageKind) func(*spoilt) {
	return hearing(func(message lockagent.Message) bool { return message.Kind != kind })
}

// telling spoils the messages of a kind.
func telling(kind lockagent.MessageKind, change func(*lockagent.Message)) func(*spoilt) {
	return func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			return listen(agent, func(message lockagent.Message) {
				if message.Kind == kind {
					change(&message)
				}
				hear(message)
			})
		}
	}
}

// tellingAll sends the messages of a kind to all agents.
func tellingAll(kind lockagent.MessageKind) func(*spoilt) {
	return func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			cancel := listen(agent, func(message lockagent.Message) {
				if message.Kind == kind {
					s.ledger.tellAll(message)
					return
				}
				hear(message)
			})
			s.ledger.hearsBy(agent, hear)
			return cancel
		}
	}
}

// releasing calls spoil after each Release.
func releasing(spoil func(*spoilt, lockagent.ReleaseRequest, *lockagent.ReleaseReply)) func(*spoilt) {
	return func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			reply, err := release(req)
			spoil(s, req, &reply)
			return reply, err
		}
	}
}

// keepingPlaces gives lost places back before each Release.
func keepingPlaces(s *spoilt) {
	release := s.release
	s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
		for _, e := range s.ledger.formerly() {
			if _, held := s.holder(req.Name, req.Kind); held && e.req.Tenure != req.Tenure {
				_, _ = e.by.acquire(e.req)
			}
		}
		return release(req)
	}
}

// passingToTheDead passes the lock also to agents that no longer listen.
func passingToTheDead(s *spoilt) {
	listen := s.listen
	s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
		var gone atomic.Bool
		listen(agent, func(message lockagent.Message) {
			if !gone.Load() {
				hear(message)
			}
		})
		return func() { gone.Store(true) }
	}
}

// givingUp passes nothing if the first in the queue is dead.
func givingUp(s *spoilt) {
	release := s.release
	s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
		if holder, ok := s.holder(req.Name, req.Kind); ok && holder == req.Tenure && s.ledger.firstIsDead(req.Name) {
			reply, err := s.breakLock(lockagent.BreakRequest{Name: req.Name, Kind: req.Kind})
			return lockagent.ReleaseReply{Released: reply.Broken, At: reply.At}, err
		}
		return release(req)
	}
}

// holder returns the tenure that has a lock.
func (s *spoilt) holder(name lockagent.Name, kind lockagent.LockKind) (lockagent.Tenure, bool) {
	seen, err := s.inspect(name, kind)
	if err != nil {
		return lockagent.Tenure{}, false
	}
	return lockagent.ParseTenure(seen.Holder)
}

// passes gives a free lock to the first tenure in its queue.
func (s *spoilt) passes(name lockagent.Name) {
	if queue := s.ledger.queue(name); len(queue) > 0 {
		req := queue[0].req
		req.Queue, req.Lease = false, lockagent.PassLease
		_, _ = s.acquire(req)
	}
}
