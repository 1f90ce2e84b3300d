package lockstate

// ending is a way for a world to come to rest.
type ending uint8

const (
	allLeave ending = iota // whoever waits gives up, whoever holds releases
	allServe               // whoever holds releases, so that whoever waits is granted
	allClose               // both agents are closed
)

var endings = [...]ending{allLeave, allServe, allClose}

// calm lets no more go wrong.
func (w *world) calm() { w.left = chances{order: 1000, cancels: 100, closed: 100} }

// finish brings a world to rest and looks whether everything is in order there.
func (e *exploration) finish(w *world, end ending, path func() []action) {
	w = w.clone()
	w.calm()
	var done []action
	for range 1000 {
		d, ok := w.errand()
		if !ok {
			d, ok = w.leaving(end)
		}
		if !ok && !w.atRest() {
			_, more := w.next()
			d, ok = action{kind: doWait}, more
		}
		if !ok {
			break
		}
		w.do(d)
		e.steps++
		done = append(done, d)
		if w.problem != "" {
			e.report(path(), done, w.problem)
			return
		}
	}
	if !w.atRest() {
		e.report(path(), done, "the world does not come to rest")
		return
	}
	for len(w.calls) > 0 { // they are zombies all
		done = append(done, action{kind: doExecute})
		w.do(done[len(done)-1])
	}
	// Some things leave a tenure behind that runs out by itself.
	switch {
	case w.dropped || w.blank:
	case !w.store.free(w.now):
		e.report(path(), done, "everybody has gone, but the store has a tenure")
	case len(w.store.queue) > 0:
		e.report(path(), done, "everybody has gone, but somebody is in the store's queue")
	}
}

// errand is the next thing that happens on a quiet day without anybody's doing
// and without that time goes on.
func (w *world) errand() (action, bool) {
	for i := range w.calls {
		if d, ok := w.errandFor(i); ok {
			return d, true
		}
	}
	for i := range w.agents {
		if d, ok := w.errandTo(i); ok {
			return d, true
		}
	}
	return action{}, false
}

// errandOf is the next that concerns one agent.
func (w *world) errandOf(agent int) (action, bool) {
	for i := range w.calls {
		if d, ok := w.errandFor(i); ok && w.calls[i].agent == agent {
			return d, true
		}
	}
	return w.errandTo(agent)
}

// errandFor is what becomes of a call.
func (w *world) errandFor(i int) (action, bool) {
	switch c := &w.calls[i]; {
	case c.zombie:
		return action{}, false
	case c.executed:
		return action{kind: doReply, a: uint8(i)}, true
	}
	return action{kind: doExecute, a: uint8(i)}, true
}

// errandTo is what comes to an agent.
func (w *world) errandTo(i int) (action, bool) {
	a, agent := w.agents[i], uint8(i)
	for b := range a.ledger.grants {
		if a.ledger.grants[b].reclaiming {
			return action{kind: doClaimed, a: agent, b: uint8(b)}, true
		}
	}
	return a.errand(a.s, agent, len(a.inbox) > 0, w.now)
}

// errand is what comes to an agent with the machine s. hears says that a message is on its way.
func (n *news) errand(s machine, agent uint8, hears bool, now Instant) (action, bool) {
	switch at, ok := s.Alarm(); {
	case s.Listening() && !n.subscribed:
		return action{kind: doSubscribe, a: agent}, true
	case n.waking:
		return action{kind: doWake, a: agent}, true
	case hears:
		return action{kind: doHear, a: agent}, true
	case n.missing:
		return action{kind: doTellMissed, a: agent}, true
	case n.resetting:
		return action{kind: doNews, a: agent}, true
	case ok && at <= now:
		return action{kind: doTick, a: agent}, true
	}
	return action{}, false
}

// leaving is what somebody does next who wants the world to come to rest.
func (w *world) leaving(end ending) (action, bool) {
	for i, a := range w.agents {
		agent := uint8(i)
		grants := len(a.ledger.grants)
		switch {
		case end == allClose && !a.ledger.closed:
			return action{kind: doClose, a: agent}, true
		case end == allLeave && len(a.ledger.waiting) > 0:
			return action{kind: doCancel, a: agent, b: uint8(grants)}, true
		case grants > 0:
			return action{kind: doRelease, a: agent, b: uint8(grants - 1)}, true
		}
	}
	return action{}, false
}

// atRest reports whether nobody is owed anything, and nobody wants anything.
func (w *world) atRest() bool {
	for i := range w.calls {
		if !w.calls[i].zombie {
			return false
		}
	}
	for _, a := range w.agents {
		_, alarm := a.s.Alarm()
		if alarm || !a.s.Idle() || len(a.ledger.waiting)+len(a.ledger.grants)+len(a.ledger.calls) > 0 {
			return false
		}
	}
	return true
}
