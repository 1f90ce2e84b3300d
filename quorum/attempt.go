package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
)

// attempt is one Acquire. Store.mu guards it.
//
// It asks all nodes at once. When a majority has granted the tenure, the greatest of their tokens
// becomes the token of the tenure. The nodes with smaller tokens are asked once more, with that
// token as an exact floor. The attempt succeeds when a majority of the nodes has granted the tenure
// and knows the token.
type attempt struct {
	store *Store
	t     *tenure
	ctx   context.Context
	req   lockagent.AcquireRequest // as the nodes are asked
	began time.Time
	done  func(lockagent.AcquireReply, error)

	ballots []ballot
	token   lockagent.Token // when a majority has granted the tenure
	over    bool
	overdue *time.Timer
}

// ballot is what one node says to an attempt.
type ballot struct {
	waits bool // for an answer
	at    lockagent.StoreTime
	err   error // the node has no vote

	granted  bool
	token    lockagent.Token // the node's own, if granted
	replicas int             // of the node that have it, if granted
	again    bool            // asked once more

	held lockagent.AcquireReply // by another
}

// Acquire implements [lockagent.Store]. An attempt that no majority grants is given back where it
// was granted.
func (s *Store) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	err := s.check(req.Kind, req.Check())
	if err == nil && req.Lease > s.cfg.LongestLease {
		err = s.tooLong(req.Lease)
	}
	if err != nil {
		done(lockagent.AcquireReply{}, err)
		return
	}
	// A token of the quorum is above all tokens that were given out before, if no majority has
	// forgotten it. So a node whose clock is behind has to be set no further. See the package.
	req.Exact, req.Queue, req.Rests, req.Lease = true, false, false, max(req.Lease, least)
	ctx = inperson.Not(ctx) // all nodes are asked at once, so none may wait for its server
	a := &attempt{store: s, ctx: ctx, req: req, began: time.Now(), done: done, ballots: make([]ballot, len(s.nodes))}

	s.mu.Lock()
	a.t = s.tenure(claim{req.Name, req.Tenure})
	a.t.trying = a
	a.overdue = time.AfterFunc(min(s.cfg.NodeTimeout, valid(req.Lease)), func() { a.advance(true) })
	var todo []func()
	for i, n := range s.nodes {
		if n.away(a.began) > 0 {
			a.ballots[i].err = errAway
			continue
		}
		todo = append(todo, a.ask(i, req.Floor))
	}
	s.mu.Unlock()
	run(todo)
	a.advance(false)
}

var (
	errAway = errors.New("the node may have forgotten leases, and has no vote for a while")
	errLate = errors.New("another attempt came after this one")
)

// valid is for how long after its beginning an attempt may succeed. After that, leases may be over
// at nodes whose clocks run faster than this one.
func valid(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

func run(todo []func()) {
	for _, do := range todo {
		do()
	}
}

// ask asks a node for the tenure. mu is held.
func (a *attempt) ask(i int, floor lockagent.Token) (todo func()) {
	a.ballots[i].waits = true
	p := &a.t.parts[i]
	for _, o := range p.queue {
		if o.drop != nil {
			o.drop()
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(o op) bool { return o.drop != nil })
	req := a.req
	req.Floor = floor
	return a.t.begin(i, op{
		acquires: true,
		start: func() {
			a.store.nodes[i].Acquire(a.ctx, req, func(reply lockagent.AcquireReply, err error) { a.answered(i, reply, err) })
		},
		drop: func() { a.ballots[i].waits, a.ballots[i].err = false, errLate },
	})
}

// answered takes the answer of a node, also if the attempt is over.
func (a *attempt) answered(i int, reply lockagent.AcquireReply, err error) {
	s, b, p := a.store, &a.ballots[i], &a.t.parts[i]
	since := s.nodes[i].RemembersSince()
	s.mu.Lock()
	forgot := s.forgot(i, since, reply.Incarnation)
	s.nodes[i].silent = s.nodes[i].silent && err != nil && !lockagent.Definite(err)
	away := s.nodes[i].away(time.Now()) > 0
	b.waits, b.granted, b.at, b.err = false, false, reply.At, err
	switch {
	case err != nil:
		p.unanswered = p.unanswered || !lockagent.Definite(err)
	case away:
		p.has, b.err = p.has || reply.Granted, errAway
	case reply.Granted:
		p.has, b.granted, b.token, b.replicas = true, true, reply.Token, reply.Replicas
		p.synced = a.t.token != 0 && reply.Token >= a.t.token
	default:
		p.has, b.held = false, reply
	}
	s.mu.Unlock()
	if forgot {
		s.suspend(i, s.term(), "reset")
	}
	a.advance(false)
	s.finish(a.t, i)
}

// advance takes the attempt as far as the ballots allow. timeout says that no more time is left.
func (a *attempt) advance(timeout bool) {
	s := a.store
	s.mu.Lock()
	if a.over {
		s.mu.Unlock()
		return
	}
	if a.token == 0 {
		a.token = a.chosen()
	}
	var todo []func()
	granted, open := 0, 0 // nodes that count, and nodes that may
	told, waits := 0, 0   // nodes that have answered, and nodes that may
	for i := range a.ballots {
		b, silent := &a.ballots[i], s.nodes[i].silent
		switch {
		case b.waits && timeout:
			s.nodes[i].silent = true
		case b.waits && !silent:
			waits++
		case !b.waits && (b.err == nil || errors.Is(b.err, lockagent.ErrWithdrawn)):
			told++
		}
		switch {
		case b.waits && silent: // it may still vote, but nobody waits for that
		case b.waits:
			open++
		case b.granted && a.token == 0, b.granted && b.token < a.token && b.again:
			open++ // as long as the clocks of other nodes may agree with it
		case b.granted && b.token < a.token:
			b.again = true
			open++
			waits++
			todo = append(todo, a.ask(i, a.token))
		case b.granted:
			granted++
		}
	}
	switch {
	case timeout || time.Since(a.began) >= valid(a.req.Lease):
		todo = append(todo, a.fails()...)
	case granted >= s.majority:
		todo = append(todo, a.succeeds())
	case waits == 0, granted+open < s.majority && (told >= s.majority || told+waits < s.majority):
		// Only a majority can say that the lock is busy.
		todo = append(todo, a.fails()...)
	}
	s.mu.Unlock()
	run(todo)
}

// far is how much the clocks of a majority may differ. A store refuses a floor that is more than a
// day ahead.
const far = 23 * time.Hour

// chosen is the token of the tenure, or 0 as long as no majority has granted it. If more nodes than
// a majority have granted it, a clock that is far ahead of the others does not count.
func (a *attempt) chosen() lockagent.Token {
	var tokens []lockagent.Token
	for i := range a.ballots {
		if b := &a.ballots[i]; b.granted {
			tokens = append(tokens, b.token)
		}
	}
	slices.Sort(tokens)
	for i := a.store.majority - 1; i < len(tokens); i++ {
		if apart := tokens[i] - tokens[i-a.store.majority+1]; apart <= lockagent.Token(far.Microseconds()) {
			return tokens[i]
		}
	}
	return 0
}

// end ends the attempt. mu is held.
func (a *attempt) end() {
	a.over = true
	a.overdue.Stop()
	if a.t.trying == a {
		a.t.trying = nil
	}
}

// succeeds ends the attempt with a grant. mu is held.
func (a *attempt) succeeds() (todo func()) {
	a.end()
	t := a.t
	t.held, t.spent, t.token = true, false, a.token
	var replicas []int
	for i := range a.ballots {
		b := &a.ballots[i]
		t.parts[i].synced = b.granted && b.token >= a.token
		if t.parts[i].synced {
			replicas = append(replicas, b.replicas)
		}
	}
	a.store.calm(t.name)
	reply := lockagent.AcquireReply{
		Granted: true, Token: a.token, At: lockagent.StoreTime(a.token), Replicas: slices.Min(replicas),
	}
	return func() { a.done(reply, nil) }
}

// fails ends the attempt with an answer or an error. mu is held.
func (a *attempt) fails() (todo []func()) {
	a.end()
	reply, err := a.outcome()
	if a.t.trying == nil {
		a.t.held = false
		// After an answer or a definite error the agent may forget the tenure. After any other error it
		// asks again or releases the tenure: only what was granted for certain is given back now.
		a.t.spent = err == nil || lockagent.Definite(err)
		todo = a.store.tidyAll(a.t)
	}
	return append(todo, func() { a.done(reply, err) })
}

// outcome says why no majority granted the tenure. mu is held.
func (a *attempt) outcome() (reply lockagent.AcquireReply, err error) {
	s := a.store
	var all tally
	var ats []lockagent.StoreTime
	errs := make([]error, len(a.ballots))
	definite, withdrawn, granted := 0, 0, 0
	for i := range a.ballots {
		b := &a.ballots[i]
		switch {
		case b.waits && !b.granted:
			errs[i] = errSilent
			continue
		case b.err != nil:
			errs[i] = b.err
			if errors.Is(b.err, lockagent.ErrWithdrawn) {
				withdrawn++
			} else if lockagent.Definite(b.err) {
				definite++
				err = b.err
			}
			continue
		case b.granted:
			granted++
			all.add("", 0)
		default:
			all.add(b.held.Holder, b.held.Remaining)
		}
		ats = append(ats, b.at)
	}
	switch {
	case definite >= s.majority:
		return reply, err
	case granted+withdrawn >= s.majority && withdrawn > 0,
		withdrawn > 0 && len(ats) < s.majority && len(ats)+withdrawn >= s.majority:
		// Nodes have withdrawn the number after an earlier attempt. They may grant another one.
		return reply, lockagent.ErrWithdrawn
	case len(ats) < s.majority || granted >= s.majority: // too late, or no token that a majority takes
		// What is given back now wakes all that wait, also this agent. If they tried again at once, they
		// would wake each other for ever.
		s.pause(a.t.name, time.Since(a.began))
		return reply, s.unavailable(errs)
	}
	reply.At = s.bound(ats)
	var holding int
	reply.Holder, holding = all.first()
	reply.Remaining = all.free(s.majority)
	if holding < s.majority {
		// The votes are split. All that have a minority give it back, and must not try again at the
		// same instant. Or a node that did not answer makes it a majority: nobody tells of that.
		reply.Remaining = s.pause(a.t.name, time.Since(a.began))
	}
	return reply, nil
}
