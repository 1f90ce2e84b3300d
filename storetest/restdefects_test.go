package storetest

import "github.com/lockagent/lockagent"

// restDefects are the defects of tenures that may rest.
var restDefects = []defect{
	{
		"lets no tenure rest", "Rest/a tenure may rest if it asks for that",
		asking(func(req *lockagent.AcquireRequest) { req.Rests = false }),
	},
	{
		"lets every tenure rest", "Rest/a tenure may rest if it asks for that",
		asking(func(req *lockagent.AcquireRequest) { req.Rests = true }),
	},
	{
		"has no queue and lets tenures rest", "Acquire/a store without a queue has no tenures that rest",
		func(s *spoilt) { s.ledger.noQueue = true },
	},
	{
		"does not tell that a lock which may rest is wanted", "Rest/whoever meets a tenure that may rest tells its agent",
		without(lockagent.MessageWanted),
	},
	{
		"does not say that the holder may rest",
		"Rest/whoever meets a tenure that may rest tells its agent",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.HolderRests = false
		}),
	},
	{
		"says of every holder that it may rest",
		"Rest/whoever meets another tenure does not say so",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.HolderRests = reply.HolderRests || !reply.Granted
		}),
	},
	{
		"does not say so to a waiter with a place",
		"Rest/whoever meets a tenure that may rest tells its agent",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.HolderRests = reply.HolderRests && !req.Queue
		}),
	},
	{
		"lets a tenure rest while others wait",
		"Rest/a tenure does not rest while others wait",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Rests = reply.Rests || req.Rests && reply.Granted
		}),
	},
	{
		"lets a tenure rest while outsiders wait",
		"Rest/a tenure does not rest while others wait",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Rests = reply.Rests || req.Rests && reply.Granted
		}),
	},
	{
		"lets a tenure rest that might not",
		"Rest/a tenure that is granted again is as it was",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Rests = reply.Rests || req.Rests && reply.Granted
		}),
	},
	{
		"lets a tenure rest that was renewed",
		"Rest/a tenure that was renewed does not rest",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.HolderRests = reply.HolderRests || !reply.Granted
		}),
	},
	{"lets tenures of fair locks rest", "NoRest/no tenure may rest", replyingAcquire(
		func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Rests = reply.Rests || req.Rests && reply.Granted
		})},
	{"says that the holder of a fair lock may rest", "NoRest/no tenure may rest", replyingAcquire(
		func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.HolderRests = reply.HolderRests || !reply.Granted
		})},
	{"counts several holds", "Rest/an inspection counts one hold", func(s *spoilt) {
		inspect := s.inspect
		s.inspect = func(name lockagent.Name, kind lockagent.LockKind) (lockagent.Inspection, error) {
			seen, err := inspect(name, kind)
			seen.HoldCount *= 3
			return seen, err
		}
	}},
}
