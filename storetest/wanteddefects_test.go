package storetest

import "github.com/lockagent/lockagent"

// wantedDefects are the defects of what a holder learns of those who wait.
var wantedDefects = []defect{
	{
		"tells no holder who waits", "Wanted/a watched tenure that is renewed is told who waits",
		sayingWanted(false),
	},
	{
		"tells every holder that others wait", "Wanted/a place of an agent that does not listen wants nothing",
		sayingWanted(true),
	},
	{
		"forgets who watches", "Wanted/a watched tenure that is renewed is told of outsiders",
		func(s *spoilt) {
			renew := s.renew
			s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
				req.Watched = false
				return renew(req)
			}
		},
	},
	{
		"passes without a word of those behind", "Wanted/a pass tells of those behind",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Contested = false }),
	},
	{
		"passes as if others were behind", "ReadWriteWanted/readers behind a reader want nothing",
		telling(lockagent.MessagePassed, func(m *lockagent.Message) { m.Contested = true }),
	},
	{
		"grants without a word of those who wait", "Wanted/a grant tells of those who wait",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) { reply.Contested = false }),
	},
	{
		"grants as if others waited", "Wanted/a grant without a place tells of nobody",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Contested = reply.Granted
		}),
	},
}

// wantedFindings are further findings, see moreFindings.
var wantedFindings = []finding{
	{"tells every holder that others wait", "Wanted/a watched tenure that is renewed is told who waits"},
	{"grants without a word of those who wait", "Wanted/an agent that missed a pass is told of those who wait"},
	{"passes as if others were behind", "Wanted/a pass tells of those behind"},
	{"passes without a word of those behind", "ReadWriteWanted/a pass to readers tells of a writer behind them"},
	{"tells nobody that it is wanted", "SpinWanted/the holder is told of who contends"},
	{"tells every holder that others wait", "SpinWanted/the holder is told of who contends"},
	{"tells nobody that it is wanted", "PermitsWanted/those who have permits are told that more are wanted"},
	{
		"tells no holder who waits",
		"PermitsWanted/a watched tenure that is renewed is told who waits for permits",
	},
	{"passes without a word of those behind", "PermitsWanted/a pass of permits tells of those behind"},
	{"passes as if others were behind", "PermitsWanted/a pass of permits tells of those behind"},
	{"tells nobody that it is wanted", "PermitsWanted/a pass of permits tells of those behind"},
	{"grants without a word of those who wait", "PermitsWanted/a grant of permits tells of those who wait"},
}
