package storetest

import (
	"sync/atomic"

	"github.com/lockagent/lockagent"
)

// restDefects are the defects of tenures that may rest.
var restDefects = []defect{
	{"lets no tenure rest", "Rest/a tenure may rest if it asks for that", asking(func(req *lockagent.AcquireRequest) { req.Rests = false })},
	{"lets every tenure rest", "Rest/a tenure may rest if it asks for that", asking(func(req *lockagent.AcquireRequest) { req.Rests = true })},
	{"has no queue and lets tenures rest", "Rest/a store without a queue has no tenures that rest", func(s *spoilt) { s.ledger.noQueue = true }},
	{"does not tell that a lock which may rest is wanted", "Rest/whoever meets a tenure that may rest tells its agent", without(lockagent.MessageWanted)},
	{"does not say that the holder may rest", "Rest/whoever meets a tenure that may rest tells its agent", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests && reply.Granted
	})},
	{"says of every holder that it may rest", "Rest/whoever meets another tenure does not say so", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || !reply.Granted
	})},
	{"does not say so to a waiter with a place", "Rest/a waiter with a place tells the agent, too", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests && !req.Queue
	})},
	{"lets a tenure rest while others wait", "Rest/a tenure does not rest while others have places", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a tenure rest while outsiders wait", "Rest/a tenure does not rest while outsiders wait", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a tenure rest that might not", "Rest/a tenure that is granted again is as it was", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a tenure rest that was renewed", "Rest/a tenure that was renewed does not rest", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || !reply.Granted
	})},
	{"lets a tenure of a fair lock rest while others wait", "FairRest/a tenure does not rest while others have places", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a tenure of a fair lock rest while another program waits", "FairRest/a tenure does not rest while another program has a place", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a tenure of a fair lock rest soon after another program was told", "FairRest/a tenure does not rest soon after another program was told", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"tells an agent of its own tenures", "FairRest/another tenure of the agent tells it nothing", replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || !reply.Granted
	})},
	{"counts several holds", "Rest/an inspection counts one hold", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			seen.HoldCount *= 3
			return seen, err
		}
	}},
	{"has readers who join tell those that rest", "ReadWriteRest/shared tenures may rest, and others join them without a word", func(s *spoilt) {
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if first, ok := s.sharing(req.Name); ok && reply.Granted && first != req.Tenure {
				s.ledger.tellAgent(lockagent.Message{Kind: lockagent.MessageWanted, Name: req.Name, LockKind: req.Kind, Tenure: first})
			}
		})(s)
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			cancel := listen(agent, hear)
			s.ledger.hearsBy(agent, hear)
			return cancel
		}
	}},
	{"tells one of the readers that rest", "ReadWriteRest/a writer tells all readers that may rest", func(s *spoilt) {
		hearing(func(message lockagent.Message) bool {
			first, _ := s.sharing(message.Name)
			return message.Kind != lockagent.MessageWanted || first == message.Tenure
		})(s)
	}},
	{"tells readers that rest of writers only", "ReadWriteRest/a reader who has to wait tells them, too", func(s *spoilt) {
		var reads atomic.Bool
		asking(func(req *lockagent.AcquireRequest) { reads.Store(req.Mode == lockagent.Shared) })(s)
		hearing(func(message lockagent.Message) bool { return message.Kind != lockagent.MessageWanted || !reads.Load() })(s)
	}},
	{"lets a reader rest while others wait", "ReadWriteRest/a shared tenure does not rest while others have places", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
	{"lets a reader rest that might not", "ReadWriteRest/a shared tenure that is granted again is as it was", replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
		reply.Rests = reply.Rests || req.Rests && reply.Granted
	})},
}
