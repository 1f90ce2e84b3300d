package storetest

import "github.com/lockagent/lockagent"

// spinDefects are the defects of locks without messages.
var spinDefects = []defect{
	{
		"wakes all who wait for a spin lock",
		"Spin/nobody is woken, and nobody is queued",
		releasing(func(s *spoilt, _ lockagent.ReleaseRequest, _ *lockagent.ReleaseReply) {
			s.ledger.wakeAll()
		}),
	},
	{
		"queues for a spin lock",
		"Spin/nobody is woken, and nobody is queued",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Queued = req.Queue && !reply.Granted
		}),
	},
}
