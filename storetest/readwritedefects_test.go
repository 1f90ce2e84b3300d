package storetest

import (
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
)

// readWriteDefects are the defects of read/write locks.
var readWriteDefects = []defect{
	{
		"shares nothing", "ReadWrite/several shared tenures have the lock at once",
		asking(func(req *lockagent.AcquireRequest) { req.Mode = "" }),
	},
	{
		"shares whatever can be shared",
		"ReadWrite/an exclusive tenure is alone",
		asking(func(req *lockagent.AcquireRequest) {
			if req.Kind == lockagent.ReadWriteLock {
				req.Mode = lockagent.Shared
			}
		}),
	},
	{
		"keeps the dead with the living",
		"ReadWrite/each has a lease of its own",
		asking(func(req *lockagent.AcquireRequest) {
			if req.Mode == lockagent.Shared {
				req.Lease = max(req.Lease, minute)
			}
		}),
	},
	{
		"cuts the leases of all who share",
		"ReadWrite/the end of one does not shorten the life of another",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, _ *lockagent.ReleaseReply) {
			if tenure, ok := s.sharing(req.Name); ok {
				_, _ = s.breakLock(lockagent.BreakRequest{Name: req.Name, Kind: req.Kind})
				_, _ = s.acquire(lockagent.AcquireRequest{
					Name: req.Name, Kind: req.Kind, Mode: lockagent.Shared, Tenure: tenure, Lease: minute,
				})
			}
		}),
	},
	{
		"frees the lock when the first one leaves",
		"ReadWrite/the last one that is released frees the lock",
		releasing(func(s *spoilt, req lockagent.ReleaseRequest, reply *lockagent.ReleaseReply) {
			if reply.Released && req.Kind == lockagent.ReadWriteLock {
				_, _ = s.breakLock(lockagent.BreakRequest{Name: req.Name, Kind: req.Kind})
			}
		}),
	},
	{"counts how often a tenure was granted", "ReadWrite/a shared tenure is granted again", func(s *spoilt) {
		var mu sync.Mutex
		granted := make(map[lockagent.Tenure]int)
		count := func(of lockagent.Tenure, by int) int {
			mu.Lock()
			defer mu.Unlock()
			granted[of] += by
			return granted[of]
		}
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			if reply.Granted {
				count(req.Tenure, 1)
			}
		})(s)
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			if count(req.Tenure, -1) > 0 {
				return lockagent.ReleaseReply{Released: true, At: 1}, nil
			}
			return release(req)
		}
	}},
	{"breaks one tenure of several", "ReadWrite/a break ends all tenures", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			if tenure, ok := s.sharing(req.Name); ok {
				reply, err := s.release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: tenure})
				return lockagent.BreakReply{Broken: true, At: reply.At}, err
			}
			return breakLock(req)
		}
	}},
	{"makes no tenure shared", "ReadWrite/an exclusive tenure becomes shared", func(s *spoilt) {
		renew := s.renew
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			req.Mode = ""
			return renew(req)
		}
	}},
	{"makes a tenure exclusive again", "ReadWrite/a shared tenure does not become exclusive", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if tenure, ok := s.sharing(req.Name); ok && tenure == req.Tenure {
				_, _ = s.release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: tenure})
			}
			return acquire(req)
		}
	}},
	{
		"brings readers back who lost the lock",
		"ReadWrite/tenures that lost the lock to another program are over",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				if seen, _ := s.inspect(req.Name, req.Kind); !seen.Held && req.Mode != lockagent.Shared {
					for _, reader := range s.ledger.readers.Range {
						_, _ = acquire(reader.(lockagent.AcquireRequest))
					}
				}
				reply, err := acquire(req)
				if reply.Granted && req.Mode == lockagent.Shared {
					s.ledger.readers.Store(req.Tenure, req)
				}
				return reply, err
			}
		},
	},
	{"takes any mode", "ReadWrite/other locks are not shared", asking(func(req *lockagent.AcquireRequest) {
		if req.Kind != lockagent.ReadWriteLock {
			req.Mode = ""
		}
	})},
	{
		"lets readers in past a writer",
		"ReadWriteQueue/readers who come and go do not keep a writer out",
		replyingAcquire(func(req lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Granted = reply.Granted || req.Mode == lockagent.Shared && !req.Queue
		}),
	},
	{
		"keeps readers out for a dead writer",
		"ReadWriteQueue/a writer that does not listen keeps no reader out",
		func(s *spoilt) {
			acquire := s.acquire
			s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
				waits := func(e entry) bool { return e.req.Mode != lockagent.Shared }
				if req.Mode == lockagent.Shared && slices.ContainsFunc(s.ledger.queue(req.Name), waits) {
					return lockagent.AcquireReply{Holder: "reserved", At: 1}, nil
				}
				return acquire(req)
			}
		},
	},
	{
		"queues readers as if they were writers",
		"ReadWriteQueue/readers who wait one after the other get the lock together",
		asking(func(req *lockagent.AcquireRequest) {
			if req.Queue {
				req.Mode = ""
			}
		}),
	},
	{
		"says of no tenure that it is wanted", "ReadWriteQueue/a tenure that is renewed is told of a writer",
		sayingWanted(false),
	},
	{
		"says of all readers that they are wanted", "ReadWriteQueue/a tenure that is renewed is told of a writer",
		sayingWanted(true),
	},
}

// sayingWanted has each renewal say whether others wait.
func sayingWanted(wanted bool) func(*spoilt) {
	return func(s *spoilt) {
		renew := s.renew
		s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
			reply, err := renew(req)
			reply.Contested = reply.Held && wanted
			return reply, err
		}
	}
}

// readWriteFindings are further findings, see moreFindings.
var readWriteFindings = []finding{
	{"keeps the dead with the living", "ReadWrite/one that is over keeps no writer out"},
	{"lets readers in past a writer", "ReadWriteQueue/readers who come and go do not keep an outsider out"},
	{"forgets what was withdrawn", "ReadWrite/a tenure that was withdrawn does not join"},
	{"does not mind the last token", "ReadWrite/the tokens of writers are above those of readers"},
	{"makes no tenure shared", "ReadWrite/a downgrade wakes who waits"},
	{"renews what is over", "ReadWrite/a tenure that is over is not made shared"},
	{"queues readers as if they were writers", "ReadWriteQueue/many readers who wait get the lock"},
	{"makes no tenure shared", "ReadWriteQueue/a downgrade lets readers in, up to the first writer"},
	{"queues readers as if they were writers", "ReadWriteQueue/a writer that gives up lets readers in"},
	{"says of no tenure that it is wanted", "ReadWriteQueue/a tenure that is renewed is told of outsiders"},
	{"passes what is broken", "ReadWriteQueue/a break and the end of a lease pass nothing"},
}

// sharing returns the first tenure that has a read/write lock.
func (s *spoilt) sharing(name lockagent.Name) (tenure lockagent.Tenure, held bool) {
	seen, _ := s.inspect(name, lockagent.ReadWriteLock)
	return lockagent.ParseTenure(seen.Holder)
}
