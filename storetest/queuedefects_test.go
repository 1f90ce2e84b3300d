package storetest

import (
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// queueDefects are what can be wrong with the queue of a store.
var queueDefects = []defect{
	{"queues everybody", "Queue/a tenure that finds the lock busy is queued if it asks for that", asking(func(req *lockagent.AcquireRequest) { req.Queue = true })},
	{"forgets who is queued", "Queue/a tenure that finds the lock busy is queued if it asks for that", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Queued = reply.Queued && req.Queue
	})},
	{"has a queue and says that it has none", "Queue/a store without a queue says that nobody is queued", func(s *spoilt) { s.queue.none = true }},
	{"has no queue", "Queue/a tenure that finds the lock busy is queued if it asks for that", asking(func(req *lockagent.AcquireRequest) { req.Queue = false })},
	{"sends back whoever asks again", "Queue/who asks again keeps the place", withQueue(func(f *flaws) { f.movesBack = true })},
	{"keeps to the first number of tokens", "Queue/who asks again keeps the place", withQueue(func(f *flaws) { f.oldTokens = true })},
	{"keeps who is granted the lock in the queue", "Queue/who is granted the lock leaves", withQueue(func(f *flaws) { f.keepsGranted = true })},
	{"keeps who is passed the lock in the queue", "Queue/who is passed the lock leaves", withQueue(func(f *flaws) { f.keepsPassed = true })},
	{"keeps who is released in the queue", "Queue/who is released leaves", withQueue(func(f *flaws) { f.keepsReleased = true })},
	{"passes on to the dead", "Queue/who has not subscribed leaves", withQueue(func(f *flaws) { f.toTheDead = true })},
	{"passes on although nobody is there", "Queue/nobody is passed the lock who is not there", withQueue(func(f *flaws) { f.toTheDead = true })},
	{"keeps a free lock for who waits", "Queue/a lock that is free is granted, whoever waits", withQueue(func(f *flaws) { f.reserves = true })},
	{"has one queue for all locks", "Queue/queues of different locks are apart", withQueue(func(f *flaws) { f.forAll, f.toTheDead = true, true })},
	{"has a queue that outlives a reset", "Queue/a reset empties the queue", withQueue(func(f *flaws) { f.keepsReset = true })},
	{"passes on to the last", "Pass/a release passes the lock on to who has waited longest", withQueue(func(f *flaws) { f.lastFirst = true })},
	{"wakes everybody over a pass", "Pass/a release passes the lock on to who has waited longest", withQueue(func(f *flaws) { f.wakesAll = true })},
	{"passes on later than it releases", "Pass/the tenure begins when the other one ends", passing(func(p *lockagent.Pass) { p.At++ })},
	{"passes on in another life", "Pass/the tenure begins when the other one ends", passing(func(p *lockagent.Pass) { p.Incarnation += "'" })},
	{"passes on with old tokens", "Pass/tokens begin above the last one and no lower than the clock", passing(func(p *lockagent.Pass) { p.Token = 1 })},
	{"passes on for long", "Pass/the lease is short", withQueue(func(f *flaws) {
		f.change = func(req *lockagent.AcquireRequest) { req.Lease = 10 * time.Second }
	})},
	{"passes on for less than it says", "Pass/the lease is short", withQueue(func(f *flaws) {
		f.change = func(req *lockagent.AcquireRequest) { req.Lease /= 2 }
	})},
	{"renews only what was acquired", "Pass/who was passed the lock can renew it", func(s *spoilt) {
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
	}},
	{"refuses a tenure that it passed the lock on to", "Pass/who missed the pass is granted the lock", refusingTheHolder},
	{"forgets that it passed the lock on", "Pass/a repeated release has the same reply and passes nothing on", func(s *spoilt) {
		release := s.release
		var released sync.Map
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			reply, err := release(req)
			if _, again := released.LoadOrStore(req, true); again {
				reply.Passed = false
			}
			return reply, err
		}
	}},
	{"passes over who waits outside of the queue", "Pass/who waits outside of the queue is not passed over", withQueue(func(f *flaws) { f.starves = true })},
	{"takes the places of one Store for those of several", "Pass/who waits outside of the queue is not passed over, though a Store has two places", withQueue(func(f *flaws) { f.countsTenures = true })},
	{"takes its own places for those of others", "Pass/places of the releaser's own Store do not count", withQueue(func(f *flaws) { f.placesOfOwn = true })},
	{"takes the releaser for one who waits", "Pass/subscriptions of the releaser's own do not count", withQueue(func(f *flaws) { f.countsOwn = true })},
	{"passes on what is broken", "Pass/a break passes nothing on", withQueue(func(f *flaws) { f.onBreak = true })},
	{"passes on what has run out", "Pass/the end of a lease passes nothing on", withQueue(func(f *flaws) { f.onEnd = true })},
	{"passes on at a withdrawal", "Pass/the release of another tenure passes nothing on", withQueue(func(f *flaws) { f.onWithdrawal = true })},
	{"grants everybody what it passes on", "Pass/one tenure at a time has a lock that is passed on", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Granted = true
	})},
}

// withQueue has a store with a queue that is flawed.
func withQueue(spoil func(*flaws)) func(*spoilt) {
	return func(s *spoilt) {
		spoil(&s.queue.flaws)
		s.queue.join(s)
	}
}

// passing spoils what is passed on.
func passing(change func(*lockagent.Pass)) func(*spoilt) {
	return withQueue(func(f *flaws) { f.changePass = change })
}
