package quorum

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
)

func (s *Store) tooLong(lease any) error {
	return &lockagent.OptionError{
		Option: "lease",
		Reason: fmt.Sprintf(
			"%v is longer than %v; set quorum.Config.LongestLease in all programs", lease, s.cfg.LongestLease,
		),
	}
}

// Renew implements [lockagent.Store]. The tenure is held if a majority of the nodes has it. Then the
// nodes that do not have it are asked to take it up again. That is safe, because nobody else can
// have a majority, and an operator who breaks the lock breaks it at a majority. Without a majority
// the tenure is over for good: another may have had the lock meanwhile.
func (s *Store) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	err := s.check(req.Kind, req.Check())
	if err == nil && req.Lease > s.cfg.LongestLease {
		err = s.tooLong(req.Lease)
	}
	if err != nil {
		done(lockagent.RenewReply{}, err)
		return
	}
	req.Lease = max(req.Lease, least)
	s.mu.Lock()
	t := s.tenure(claim{req.Name, req.Tenure})
	token := t.token
	s.mu.Unlock()

	p := newPoll(s, func(
		votes []vote[lockagent.RenewReply], last bool,
	) (reply lockagent.RenewReply, err error, decided bool) {
		yes, no := byAnswer(votes, func(r *lockagent.RenewReply) (bool, lockagent.StoreTime) { return r.Held, r.At })
		switch {
		case len(yes) >= s.majority:
			return lockagent.RenewReply{
				Held: true, At: max(s.bound(yes), lockagent.StoreTime(token)), Replicas: fewestReplicas(votes),
			}, nil, true
		case len(no) >= s.majority:
			return lockagent.RenewReply{At: s.bound(slices.Concat(yes, no))}, nil, true
		}
		err, decided = failure(s, votes, last)
		return reply, err, decided
	}, func(reply lockagent.RenewReply, err error) {
		if err == nil && reply.Held {
			s.confirmed(t)
		}
		done(reply, err)
		if err == nil && !reply.Held {
			s.lost(t)
		}
	})
	p.rest = func(votes []vote[lockagent.RenewReply]) { s.renewed(ctx, t, req, votes) }
	p.start()
	s.mu.Lock()
	var todo []func()
	for i, n := range s.nodes {
		told := p.voter(i)
		if !t.parts[i].acquires {
			todo = append(todo, func() { n.Renew(ctx, req, told) })
			continue
		}
		// The Acquire may be the first of the tenure there: the node would deny the tenure.
		todo = append(todo, t.begin(i, op{start: func() {
			n.Renew(ctx, req, func(reply lockagent.RenewReply, err error) {
				told(reply, err)
				s.finish(t, i)
			})
		}}))
	}
	s.mu.Unlock()
	run(todo)
}

// byAnswer sorts the answers by whether they are yes or no, and returns their times.
func byAnswer[R any](votes []vote[R], answer func(*R) (bool, lockagent.StoreTime)) (yes, no []lockagent.StoreTime) {
	for i := range votes {
		if v := &votes[i]; v.told() {
			if is, at := answer(&v.reply); is {
				yes = append(yes, at)
			} else {
				no = append(no, at)
			}
		}
	}
	return yes, no
}

// fewestReplicas is the least number of replicas that a node has that holds the tenure.
func fewestReplicas(votes []vote[lockagent.RenewReply]) int {
	fewest := math.MaxInt
	for i := range votes {
		if v := &votes[i]; v.told() && v.reply.Held {
			fewest = min(fewest, v.reply.Replicas)
		}
	}
	return fewest
}

// confirmed notes that an agent has a tenure, which may be from another process.
func (s *Store) confirmed(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.held = t.held || !t.spent && t.trying == nil
}

// stopping is how long a minority keeps a tenure after the agent was told that it is over. In most
// cases its holder stops before another can be granted the lock.
const stopping = 10 * time.Millisecond

// lost ends a tenure that has no majority any more. What is left of it is given back. The agent was
// told before.
func (s *Store) lost(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.held, t.spent = false, true
	t.stopping++
	time.AfterFunc(stopping, func() {
		s.mu.Lock()
		t.stopping--
		for i := range t.parts {
			t.parts[i].has = true // perhaps
		}
		todo := s.tidyAll(t)
		s.mu.Unlock()
		run(todo)
	})
}

// renewed repairs a tenure after a renewal, when all nodes have answered that will.
func (s *Store) renewed(
	ctx context.Context, t *tenure, req lockagent.RenewRequest, votes []vote[lockagent.RenewReply],
) {
	holding := 0
	for i := range votes {
		if votes[i].told() && votes[i].reply.Held {
			holding++
		}
	}
	s.mu.Lock()
	var todo []func()
	thin := t.held && holding >= s.majority && holding < len(votes)
	for i := range votes {
		v, p := &votes[i], &t.parts[i]
		switch {
		case !v.told():
		case v.reply.Held:
			p.has = true
		case thin && !p.busy:
			p.has, p.synced = false, false
			todo = append(todo, t.begin(i, s.repair(ctx, t, i, req)))
		}
	}
	if !t.held {
		todo = append(todo, s.tidyAll(t)...)
	}
	s.mu.Unlock()
	if thin {
		s.cfg.Notify(Notice{Kind: TenureThin, Name: t.name, Tenure: t.claim.tenure, Holding: holding})
	}
	run(todo)
}

// repair asks a node to take a tenure up again that a majority has.
func (s *Store) repair(ctx context.Context, t *tenure, i int, renewal lockagent.RenewRequest) op {
	return op{acquires: true, start: func() {
		s.mu.Lock()
		req := lockagent.AcquireRequest{
			Name: t.name, Kind: renewal.Kind, Tenure: t.claim.tenure, Lease: renewal.Lease, Floor: t.token, Exact: true,
		}
		s.mu.Unlock()
		s.nodes[i].Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
			since := s.nodes[i].RemembersSince()
			s.mu.Lock()
			p := &t.parts[i]
			p.has = p.has || reply.Granted
			p.synced = reply.Granted
			p.unanswered = p.unanswered || err != nil && !lockagent.Definite(err)
			forgot := s.forgot(i, since, reply.Incarnation)
			s.mu.Unlock()
			if forgot {
				s.suspend(i, s.term(), "reset")
			}
			if reply.Granted {
				s.cfg.Notify(Notice{Kind: TenureRepaired, Node: i, Name: t.name, Tenure: t.claim.tenure})
			}
			s.finish(t, i)
		})
	}}
}

// Release implements [lockagent.Store]. It waits for a majority of the nodes, and releases the
// tenure at the others behind that.
func (s *Store) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	if err := s.check(req.Kind, req.Check()); err != nil {
		done(lockagent.ReleaseReply{}, err)
		return
	}
	ctx = inperson.Not(ctx) // all nodes are asked at once, so none may wait for its server
	s.mu.Lock()
	t := s.tenure(claim{req.Name, req.Tenure})
	t.held, t.spent = false, true
	token := t.token
	p := newPoll(s, func(votes []vote[lockagent.ReleaseReply], last bool) (lockagent.ReleaseReply, error, bool) {
		return s.released(votes, last, token)
	}, done)
	p.start()
	var todo []func()
	for i := range s.nodes {
		todo = append(todo, t.begin(i, s.release(ctx, t, i, req, p.voter(i))))
	}
	s.mu.Unlock()
	run(todo)
}

// release is the release of a tenure at one node, for the agent.
func (s *Store) release(
	ctx context.Context, t *tenure, i int, req lockagent.ReleaseRequest, told func(lockagent.ReleaseReply, error),
) op {
	return op{start: func() {
		s.mu.Lock()
		p := &t.parts[i]
		req.Unanswered = req.Unanswered || p.unanswered
		if t.token != 0 && !p.synced {
			req.Last = 0 // the node's clock may be behind, and the nodes that know the token are enough
		}
		p.has, p.unanswered = false, false
		s.mu.Unlock()
		s.nodes[i].Release(ctx, req, func(reply lockagent.ReleaseReply, err error) {
			if err != nil && !lockagent.Definite(err) {
				s.mu.Lock()
				p.has, p.unanswered = true, req.Unanswered
				s.mu.Unlock()
			}
			told(reply, err)
			s.finish(t, i)
		})
	}}
}

// released decides a Release.
func (s *Store) released(
	votes []vote[lockagent.ReleaseReply], last bool, token lockagent.Token,
) (reply lockagent.ReleaseReply, err error, decided bool) {
	yes, no := byAnswer(votes, func(r *lockagent.ReleaseReply) (bool, lockagent.StoreTime) { return r.Released, r.At })
	if err, decided = agreed(s, votes, last, len(yes), len(no)); err != nil || !decided {
		return reply, err, decided
	}
	// If only a minority still had the tenure, and a majority does not tell, it may have been held.
	reply.Released = len(yes) > 0 && len(no) < s.majority
	reply.At = max(s.bound(slices.Concat(yes, no)), lockagent.StoreTime(token))
	if reply.Released {
		reply.Others = -1
		for i := range votes {
			if v := &votes[i]; v.told() && v.reply.Released {
				reply.Others = max(reply.Others, v.reply.Others)
			}
		}
	}
	return reply, nil, true
}
