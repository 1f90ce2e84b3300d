package storetest

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// fairDefects are the defects of fair locks.
var fairDefects = []defect{
	{"lets the last one go first", "Fair/places are granted in the order of their arrival", func(s *spoilt) {
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
	{"gives whoever asks again the last place", "Fair/a tenure that asks again keeps its place", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			if req.Queue {
				_, _ = s.release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure})
			}
			return acquire(req)
		}
	}},
	{"gives whoever lost a place the last one", "Fair/a place that was lost comes back", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			req.Arrived = 0
			return acquire(req)
		}
	}},
	{"lets everybody overtake", "Fair/nobody overtakes when a lease is over", func(s *spoilt) {
		acquire := s.acquire
		s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
			for _, e := range s.ledger.queue(req.Name) {
				_, _ = s.release(lockagent.ReleaseRequest{Name: e.req.Name, Kind: e.req.Kind, Tenure: e.req.Tenure})
			}
			return acquire(req)
		}
	}},
	{"breaks what it hands on", "Fair/a break hands the lock on", func(s *spoilt) {
		breakLock := s.breakLock
		s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
			_, _ = breakLock(req)
			return breakLock(req)
		}
	}},
	{"keeps the places of who gives up", "Fair/a place that is given up is gone", func(s *spoilt) {
		release := s.release
		s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
			if to, _ := s.holder(req.Name, req.Kind); to != req.Tenure {
				return lockagent.ReleaseReply{}, nil
			}
			return release(req)
		}
	}},
	{
		"forgets whose place was withdrawn", "Fair/a place that is given up is gone",
		ending(func(req *lockagent.ReleaseRequest) { req.Unanswered = false }),
	},
	{"waits for the dead", "Fair/the dead hold nobody up", passingToTheDead},
	{
		"grants what it keeps for another program",
		"Fair/a free lock is left to another program that is first",
		replyingAcquire(func(_ lockagent.AcquireRequest, reply *lockagent.AcquireReply) {
			reply.Granted = reply.Granted || reply.Holder == ""
		}),
	},
}
