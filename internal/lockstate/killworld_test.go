package lockstate

import "slices"

// commit notes what the journal of an agent has when an event asks the shell for something. It reports whether the
// agent is killed then, before it does that.
func (w *world) commit(a *agentModel, e *Event) (killed bool) {
	if !w.mortal || !e.Commits() {
		return false
	}
	a.journal = a.s.Snapshot()
	if a.doomed > 0 {
		a.doomed--
		return a.doomed == 0
	}
	return false
}

// kill ends an agent at once. Another process goes on from its journal. Calls of the old process may still arrive, but
// nobody hears the answers. The journal may have requests that were answered, and grants that have ended. Those are
// still to be given up.
func (w *world) kill(i int) {
	before := w.agents[i]
	a := w.agent(i)
	a.doomed = 0
	n := a.journal
	w.resume(a, n, w.now)
	a.ledger = ledger{}
	for _, r := range n.Requests {
		if r.Tenure == 0 {
			a.ledger.waiting = append(a.ledger.waiting, r.Request)
		} else {
			a.ledger.grants = append(a.ledger.grants, deed{
				Request: r.Request, token: r.Token, tenure: r.Tenure, fixed: r.Fixed, claimBy: r.ClaimBy,
			})
		}
	}
	w.forgotten(i, before)
	w.displaced(i)
	a.inbox, a.subscribed, a.waking, a.missing = nil, false, false, true
	for c := range w.calls {
		if c := &w.calls[c]; c.agent == i {
			*c = c.again()
		}
	}
}

// forgotten checks that the journal has all that the owners were promised.
func (w *world) forgotten(i int, before *agentModel) {
	a := w.agents[i]
	for j := range before.ledger.waiting {
		if r := &before.ledger.waiting[j]; a.ledger.waiter(r.ID) < 0 && a.ledger.grant(r.ID) < 0 {
			w.fail("agent %d is killed, and %s is forgotten, who waits", i+1, r.Owner)
		}
	}
	for j := range before.ledger.grants {
		g := &before.ledger.grants[j]
		k := a.ledger.grant(g.ID)
		switch {
		case k < 0:
			w.fail("agent %d is killed, and the grant of %s is forgotten", i+1, g.Owner)
		case a.ledger.grants[k].token != g.token || g.endsEarlier(a.ledger.grants[k].fixed, before.s.Deadline(g.tenure)) ||
			a.s.Deadline(g.tenure) < before.s.Deadline(g.tenure):
			w.fail("agent %d is killed, and %s goes on with less than it had", i+1, g.Owner)
		}
	}
}

// displaced checks that the requests that wait keep their places in the store's queue.
func (w *world) displaced(i int) {
	a := w.agents[i]
	for _, p := range w.store.queue {
		if p.agent != i || a.ledger.waiter(p.request) < 0 {
			continue
		}
		asks := func(s *State) bool { return s.attempt.number == p.number && s.phase == sleeping && s.retryAt <= w.now }
		if !slices.ContainsFunc(a.parts, asks) &&
			!slices.ContainsFunc(a.parts, func(s *State) bool { return s.has(p.number) && s.phase == releasing }) {
			w.fail(
				"agent %d is killed, and %s loses the place of tenure %d", i+1, a.ledger.waiting[a.ledger.waiter(p.request)].Owner,
				p.number,
			)
		}
	}
}
