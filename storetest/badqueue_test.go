package storetest

import (
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
)

// badQueue is a queue in front of spoilt stores on one memory, in which anything can
// be wrong. A queue in front of a store is not as atomic as one inside has to be: an
// Acquire may come between a Release and what it passes on.
type badQueue struct {
	flaws

	none bool // the harness says that there is no queue

	mu      sync.Mutex
	places  []badPlace
	subs    []*badSub
	passed  map[lockagent.ReleaseRequest]bool
	holding int      // releases under way
	held    []func() // wake-ups meanwhile
}

// flaws are what is wrong.
type flaws struct {
	movesBack, keepsGranted, keepsPassed, keepsReleased, keepsReset bool // places
	lastFirst, toTheDead, forAll                                    bool // whom it passes the lock on to
	starves, countsOwn, reserves, wakesAll                          bool // and who else is minded
	countsTenures, placesOfOwn                                      bool
	onBreak, onEnd, onWithdrawal                                    bool // when it does, too
	oldTokens                                                       bool // of the first request
	change                                                          func(*lockagent.AcquireRequest)
	changePass                                                      func(*lockagent.Pass)
}

type badPlace struct {
	req lockagent.AcquireRequest
	by  *spoilt
}

// tenure is that of one lock: agents use the same numbers for all.
func (p badPlace) tenure() lockagent.ReleaseRequest {
	return lockagent.ReleaseRequest{Name: p.req.Name, Tenure: p.req.Tenure}
}

type badSub struct {
	name lockagent.Name
	by   *spoilt
	wake func(*lockagent.Pass)
}

// join puts the queue in front of a store.
func (q *badQueue) join(s *spoilt) {
	acquire, release, breakLock, inspect, subscribe := s.acquire, s.release, s.breakLock, s.inspect, s.subscribe
	passOn := func(name lockagent.Name, others int) bool { return q.passOn(name, s, others, acquire) }
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		if seen, err := inspect(req.Name); q.reserves && err == nil && !seen.Held && q.waitsBefore(req) {
			return lockagent.AcquireReply{Holder: "reserved"}, nil
		}
		wish := req
		wish.Queue = false
		reply, err := acquire(wish)
		if err == nil {
			reply.Queued = q.place(badPlace{req, s}, reply.Granted)
		}
		return reply, err
	}
	s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
		seen, _ := inspect(req.Name)
		ends := seen.Holder == req.Tenure.String()
		q.leave(req, q.keepsReleased)
		q.hold()
		reply, err := release(req)
		if q.onWithdrawal && !ends && seen.Held {
			_, _ = breakLock(req.Name)
			ends = true
		}
		switch {
		case err != nil:
		case ends:
			reply.Passed = passOn(req.Name, reply.Others)
			q.remember(req, reply.Passed)
		default:
			reply.Passed = q.wasPassed(req)
		}
		if reply.Passed {
			reply.Others = 0
		}
		q.letGo(reply.Passed && !q.wakesAll)
		return reply, err
	}
	s.breakLock = func(name lockagent.Name) (bool, error) {
		broken, err := breakLock(name)
		if q.onBreak && broken {
			passOn(name, 0)
		}
		return broken, err
	}
	s.inspect = func(name lockagent.Name) (lockagent.Inspection, error) {
		seen, err := inspect(name)
		if q.onEnd && err == nil && !seen.Held {
			passOn(name, 0)
		}
		return seen, err
	}
	s.subscribe = func(name lockagent.Name, wake func(*lockagent.Pass)) func() {
		sub := &badSub{name, s, wake}
		q.mu.Lock()
		q.subs = append(q.subs, sub)
		q.mu.Unlock()
		cancel := subscribe(name, func(p *lockagent.Pass) {
			if !q.holdBack(func() { wake(p) }) {
				wake(p)
			}
		})
		return func() {
			cancel()
			q.mu.Lock()
			defer q.mu.Unlock()
			q.subs = slices.DeleteFunc(q.subs, func(other *badSub) bool { return other == sub })
		}
	}
	s.onReset(func(lockagent.Reset) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.keepsReset {
			q.places = nil
		}
	})
}

// place takes the outcome of an Acquire, and reports whether the tenure waits.
func (q *badQueue) place(p badPlace, granted bool) bool {
	if granted {
		q.leave(p.tenure(), q.keepsGranted)
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.places, func(o badPlace) bool { return o.tenure() == p.tenure() })
	switch {
	case !p.req.Queue:
		return i >= 0
	case i < 0:
		q.places = append(q.places, p)
	case q.movesBack:
		q.places = append(slices.Delete(q.places, i, i+1), p)
	case !q.oldTokens:
		q.places[i] = p
	}
	return true
}

func (q *badQueue) leave(t lockagent.ReleaseRequest, stays bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !stays {
		q.places = slices.DeleteFunc(q.places, func(o badPlace) bool { return o.tenure() == t })
	}
}

// waitsBefore reports whether somebody else is the first in the queue.
func (q *badQueue) waitsBefore(req lockagent.AcquireRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.places, func(p badPlace) bool { return p.req.Name == req.Name })
	return i >= 0 && q.places[i].req.Tenure != req.Tenure
}

// passOn passes a free lock on, if it can.
func (q *badQueue) passOn(name lockagent.Name, by *spoilt, others int, acquire func(lockagent.AcquireRequest) (lockagent.AcquireReply, error)) bool {
	q.mu.Lock()
	queue := slices.DeleteFunc(slices.Clone(q.places), func(p badPlace) bool { return p.req.Name != name && !q.forAll })
	if q.countsOwn && slices.ContainsFunc(q.subs, func(s *badSub) bool { return s.name == name && s.by == by }) {
		others++
	}
	q.mu.Unlock()
	places := make(map[*spoilt]bool)
	for _, p := range queue {
		places[p.by] = true
	}
	if !q.placesOfOwn {
		delete(places, by)
	}
	queued := len(places)
	if q.countsTenures {
		queued = len(queue)
	}
	if others > queued && !q.starves {
		return false
	}
	if q.lastFirst {
		slices.Reverse(queue)
	}
	for _, next := range queue {
		q.leave(next.tenure(), q.keepsPassed)
		q.mu.Lock()
		told := slices.DeleteFunc(slices.Clone(q.subs), func(s *badSub) bool { return s.name != name || s.by != next.by })
		q.mu.Unlock()
		if len(told) == 0 && !q.toTheDead {
			continue
		}
		req := lockagent.AcquireRequest{Name: name, Tenure: next.req.Tenure, Tokens: next.req.Tokens, Lease: lockagent.PassLease}
		if q.change != nil {
			q.change(&req)
		}
		reply, err := acquire(req)
		if (err != nil || !reply.Granted) && !q.keepsReleased { // nor does it look
			continue
		}
		pass := &lockagent.Pass{
			Tenure: req.Tenure, Lease: lockagent.PassLease, Token: reply.Token, Tokens: next.req.Tokens, At: reply.At, Incarnation: reply.Incarnation,
		}
		if q.changePass != nil {
			q.changePass(pass)
		}
		for _, sub := range told {
			sub.wake(pass)
		}
		return true
	}
	return false
}

func (q *badQueue) remember(t lockagent.ReleaseRequest, passed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.passed == nil {
		q.passed = make(map[lockagent.ReleaseRequest]bool)
	}
	q.passed[t] = passed
}

func (q *badQueue) wasPassed(t lockagent.ReleaseRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.passed[t]
}

// hold keeps wake-ups back until it is known whether the lock has been passed on.
func (q *badQueue) hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holding++
}

func (q *badQueue) holdBack(wake func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holding > 0 {
		q.held = append(q.held, wake)
	}
	return q.holding > 0
}

func (q *badQueue) letGo(forget bool) {
	q.mu.Lock()
	held := q.held
	q.held = nil
	q.holding--
	q.mu.Unlock()
	if forget {
		return
	}
	for _, wake := range held {
		wake()
	}
}
