package lockstate

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

type actionKind uint8

const (
	doAsk         actionKind = iota // person a makes its next request
	doCancel                        // the context of request b of agent a ends
	doRelease                       // grant b of agent a is released
	doUnclaimed                     // the shell of agent a took grant b back
	doClaimed                       // the shell of agent a found that grant b has been received
	doExecute                       // call a arrives at the store
	doReply                         // the reply to call a arrives
	doLose                          // instead of the reply to call a, an error arrives
	doRefuse                        // the store refuses call a for good
	doSubscribe                     // the subscription of agent a stands
	doWake                          // the wake-up of agent a arrives
	doMissWake                      // that wake-up is lost
	doHear                          // message b to agent a arrives
	doHearTwice                     // message b to agent a arrives, and will arrive again
	doMissMessage                   // message b to agent a is lost
	doInterrupt                     // all messages and wake-ups to agent a are lost, and it will be told
	doTellMissed                    // agent a is told that messages were missed
	doTick                          // the alarm of agent a
	doWait                          // time goes on to the next instant at which something may happen
	doBreak                         // an operator breaks the lock through agent a
	doReset                         // the store loses its memory
	doStep                          // the store's clock is set back
	doFailover                      // the store is as it was before the last release
	doNews                          // agent a hears of a reset
	doCrash                         // agent a loses its state
	doRestart                       // another process goes on with the holds of agent a
	// Agent a ends at event b of its next step that commits, or now, and goes on from its journal.
	doKill
	doGone     // the session of person a is closed
	doClose    // agent a is closed
	doUnseat   // the store takes the places of agent a, and will tell it that it may have done so
	doOutsider // an outsider comes to wait for the lock, or goes
	doTurn     // the store begins to keep the free lock for those that poll
)

type action struct {
	kind actionKind
	a, b uint8
}

// actions are what can happen next.
func (w *world) actions() (out []action) {
	errand, busy := w.errand()
	add := func(k actionKind, a, b int) {
		d := action{k, uint8(a), uint8(b)}
		if busy && d != errand && w.left.order == 0 && !d.fault() {
			return
		}
		out = append(out, d)
	}
	for p := range w.people {
		if w.mayAsk(p) {
			add(doAsk, p, 0)
		}
	}
	for i, a := range w.agents {
		for b := range a.ledger.waiting {
			if w.left.cancels > 0 {
				add(doCancel, i, b+len(a.ledger.grants))
			}
		}
		for b := range a.ledger.grants {
			if g := &a.ledger.grants[b]; g.reclaiming {
				add(doUnclaimed, i, b)
				add(doClaimed, i, b)
			} else {
				add(doRelease, i, b)
				if w.left.cancels > 0 && g.claimBy != 0 {
					add(doCancel, i, b)
				}
			}
		}
		if a.s.Listening() && !a.subscribed {
			add(doSubscribe, i, 0)
		}
		if a.waking {
			add(doWake, i, 0)
			if w.left.lost > 0 {
				add(doMissWake, i, 0)
			}
		}
		for b := range a.inbox {
			add(doHear, i, b)
			if w.left.lost > 0 {
				add(doHearTwice, i, b)
				add(doMissMessage, i, b)
			}
		}
		if w.left.lost > 0 && (len(a.inbox) > 0 || a.waking) {
			add(doInterrupt, i, 0)
		}
		if a.missing {
			add(doTellMissed, i, 0)
		}
		if at, ok := a.s.Alarm(); ok && at <= w.now {
			add(doTick, i, 0)
		}
		if w.left.broken > 0 {
			add(doBreak, i, 0)
		}
		if a.resetting {
			add(doNews, i, 0)
		}
		if w.left.crashes > 0 && len(a.s.Snapshot().WithoutHolds().Tenures) > 0 {
			add(doCrash, i, 0)
		}
		if w.left.restart > 0 && !a.ledger.closed {
			add(doRestart, i, 0)
		}
		if w.left.kills > 0 && !a.ledger.closed {
			for b := range 3 {
				add(doKill, i, b)
			}
		}
		if w.left.unseats > 0 && w.fair && slices.ContainsFunc(w.store.queue, func(p seat) bool { return p.agent == i }) {
			add(doUnseat, i, 0)
		}
		if w.left.closed > 0 && !a.ledger.closed {
			add(doClose, i, 0)
		}
	}
	for i := range w.calls {
		c := &w.calls[i]
		if !c.executed {
			add(doExecute, i, 0)
		}
		if c.zombie {
			continue
		}
		if c.executed {
			add(doReply, i, 0)
		} else if w.left.refused > 0 {
			add(doRefuse, i, 0)
		}
		if w.left.lost > 0 {
			add(doLose, i, 0)
		}
	}
	if w.left.resets > 0 {
		add(doReset, 0, 0)
	}
	if w.left.steps > 0 {
		add(doStep, 0, 0)
	}
	if w.left.outside > 0 {
		add(doOutsider, 0, 0)
	}
	if w.left.turns > 0 && w.store.free(w.now) && w.now >= w.store.kept {
		add(doTurn, 0, 0)
	}
	if w.left.ghosts > 0 && w.store.ghost.number != 0 {
		add(doFailover, 0, 0)
	}
	if w.left.gone > 0 {
		for p := range w.people {
			if w.people[p].session && w.asked[p] > 0 {
				add(doGone, p, 0)
			}
		}
	}
	if !w.due() || w.left.late > 0 {
		if _, ok := w.next(); ok {
			add(doWait, 0, 0)
		}
	}
	return out
}

// due reports whether an agent waits for its tick.
func (w *world) due() bool {
	for _, a := range w.agents {
		if at, ok := a.s.Alarm(); ok && at <= w.now {
			return true
		}
	}
	return false
}

// mayAsk reports whether a person can make its next request: it has one left, does not wait
// for another, and does not hold the lock, unless it has a session.
func (w *world) mayAsk(p int) bool {
	who := &w.people[p]
	if w.asked[p] == len(who.leases) {
		return false
	}
	l := &w.agents[who.agent].ledger
	for i := range l.waiting {
		if l.waiting[i].Owner == who.owner {
			return false
		}
	}
	for i := range l.grants {
		if l.grants[i].Owner == who.owner && !who.session {
			return false
		}
	}
	return true
}

// next is the next instant at which something may change without an action.
func (w *world) next() (Instant, bool) {
	next := never
	consider := func(i Instant) {
		if i > w.now {
			next = min(next, i)
		}
	}
	for _, a := range w.agents {
		if at, ok := a.s.Alarm(); ok {
			consider(at)
		}
	}
	for i := range w.store.holders {
		consider(w.store.holders[i].expiry)
	}
	consider(w.store.kept)
	for i := range w.calls {
		if c := &w.calls[i]; c.kind == callAcquire && !c.zombie {
			consider(c.sent.add(Trust(c.lease)))
			consider(c.sent.add(c.lease))
		}
	}
	return next, next != never
}

// fault reports whether [chances] bound an action.
func (d action) fault() bool {
	switch d.kind {
	case doLose, doMissWake, doHearTwice, doMissMessage, doInterrupt, doRefuse, doBreak, doReset, doStep, doFailover,
		doCrash, doRestart, doKill, doGone, doClose, doUnseat, doOutsider, doTurn:
		return true
	}
	return false
}

// do makes something happen.
func (w *world) do(d action) {
	if errand, busy := w.errand(); busy && d != errand && !d.fault() {
		w.left.order--
	}
	w.strays = w.strays || d.fault()
	a, b := int(d.a), int(d.b)
	switch d.kind {
	case doAsk:
		p := &w.people[a]
		r := Request{
			Owner: p.owner, Mode: p.mode, Session: p.session, Try: p.try, Lease: p.leases[w.asked[a]],
			Outlive: p.leases[w.asked[a]] == outliving, Permits: w.wants[p.owner],
		}
		w.asked[a]++
		w.tell(p.agent, Acquire{Request: r})
	case doCancel:
		l := &w.agents[a].ledger
		w.left.cancels--
		id := RequestID(0)
		if b < len(l.grants) {
			id = l.grants[b].ID
		} else {
			id = l.waiting[b-len(l.grants)].ID
		}
		w.tell(a, Cancel{ID: id, Err: lockagent.ErrTimeout, TimedOut: true})
	case doRelease:
		w.agent(a).calls++
		w.tell(a, Release{ID: w.agents[a].ledger.grants[b].ID, Call: w.agents[a].calls})
	case doUnclaimed:
		w.tell(a, Unclaimed{ID: w.agents[a].ledger.grants[b].ID})
	case doClaimed:
		w.agent(a).ledger.grants[b].reclaiming = false
	case doExecute:
		w.execute(&w.calls[a])
		if w.calls[a].zombie {
			w.calls = slices.Delete(w.calls, a, a+1)
		}
	case doReply:
		c := w.calls[a]
		w.calls = slices.Delete(w.calls, a, a+1)
		w.tell(c.agent, c.reply())
	case doLose:
		w.left.lost--
		c := &w.calls[a]
		failed := *c
		failed.err = fmt.Errorf("lost: %w", lockagent.ErrStoreUnavailable)
		*c = c.again()
		w.missed = w.missed || c.kind == callDisown
		w.tell(failed.agent, failed.reply())
	case doRefuse:
		w.left.refused--
		c := w.calls[a]
		c.err = lockagent.ErrNotPermitted
		w.calls = slices.Delete(w.calls, a, a+1)
		w.tell(c.agent, c.reply())
	case doSubscribe:
		g := w.agent(a)
		g.subscribed, g.waking = true, true
	case doWake:
		w.agent(a).waking = false
		w.tell(a, Woken{})
	case doMissWake:
		w.left.lost--
		w.missed = true
		w.agent(a).waking = false
	case doHear, doHearTwice:
		c := w.agents[a].inbox[b]
		if d.kind == doHearTwice {
			w.left.lost--
		} else {
			g := w.agent(a)
			g.inbox = slices.Delete(g.inbox, b, b+1)
		}
		w.tell(a, c)
	case doMissMessage:
		w.left.lost--
		w.missed = true
		g := w.agent(a)
		g.inbox = slices.Delete(g.inbox, b, b+1)
	case doInterrupt:
		w.left.lost--
		g := w.agent(a)
		g.inbox = nil
		g.missing = true
		g.waking = g.subscribed
	case doTellMissed:
		w.agent(a).missing = false
		w.tell(a, Missed{})
	case doTick:
		w.tell(a, Tick{})
	case doWait:
		if w.due() {
			w.lateNow = true
			w.left.late--
		}
		w.slow = w.slow || slices.ContainsFunc(w.calls, func(c storeCall) bool { return c.executed })
		w.now, _ = w.next()
	case doBreak:
		w.left.broken--
		w.agent(a).calls++
		w.tell(a, Break{Call: w.agents[a].calls})
	case doReset:
		w.left.resets--
		w.reset(false)
	case doStep: // the clock goes on as far ahead of the server's as before, and a good deal more
		w.left.steps--
		w.store.ahead += time.Minute
		w.store.clock++
	case doFailover:
		w.left.ghosts--
		w.reset(true)
	case doNews:
		w.agent(a).resetting = false
		w.tell(a, StoreReset{})
	case doCrash:
		w.left.crashes--
		g := w.agent(a)
		g.ledger = ledger{}
		w.resume(g, g.s.Snapshot().WithoutHolds(), w.now.add(pause))
		g.subscribed, g.waking, g.crashed = false, false, true
	case doRestart:
		w.left.restart--
		w.restart(a)
	case doKill:
		w.left.kills--
		if w.agent(a).doomed = b; b == 0 {
			w.kill(a)
		}
	case doGone:
		w.left.gone--
		p := &w.people[a]
		w.agent(p.agent).calls++
		w.tell(p.agent, OwnerGone{Owner: p.owner, Call: w.agents[p.agent].calls})
	case doClose:
		w.left.closed--
		w.tell(a, Close{})
	case doUnseat:
		w.left.unseats--
		w.unseat(a)
	case doOutsider:
		w.left.outside--
		m := &w.store
		m.outsiders, m.arrival, m.open = 1-m.outsiders, w.now, false
	case doTurn:
		w.left.turns--
		w.store.kept = w.now.add(turnLasts)
	}
	w.check()
}

// describe says what an action is, in the world before it.
func (w *world) describe(d action) string {
	names := [...]string{
		doAsk: "asks", doCancel: "cancel", doRelease: "release", doUnclaimed: "taken back", doClaimed: "was received",
		doExecute: "executed", doReply: "reply", doLose: "reply lost", doRefuse: "refused", doSubscribe: "subscribed",
		doWake: "woken", doMissWake: "wake-up lost", doHear: "hears", doHearTwice: "hears for the first time",
		doMissMessage: "does not hear", doInterrupt: "interrupted", doTellMissed: "told so", doTick: "tick",
		doWait: "time goes on", doBreak: "break",
		doReset: "store forgets", doStep: "clock set back", doFailover: "store is as before", doNews: "hears of the reset",
		doCrash: "crash", doRestart: "restart", doKill: "killed", doGone: "session closed", doClose: "close",
		doUnseat: "loses its places", doOutsider: "an outsider comes or goes", doTurn: "the lock is kept for those that poll",
	}
	text := fmt.Sprintf("%4v  ", time.Duration(w.now))
	switch d.kind {
	case doAsk, doGone:
		text += fmt.Sprintf("%s %s", w.people[d.a].owner, names[d.kind])
	case doExecute, doReply, doLose, doRefuse:
		c := &w.calls[d.a]
		kinds := [...]string{callAcquire: "acquire", callRenew: "renew", callRelease: "release", callDisown: "disowning"}
		text += fmt.Sprintf(
			"agent %d's %s of tenure %d (sent %v): %s", c.agent+1, kinds[c.kind], c.number, time.Duration(c.sent), names[d.kind],
		)
		if c.zombie {
			text += " after it was given up"
		}
	case doWait:
		next, _ := w.next()
		text += fmt.Sprintf("time goes on to %v", time.Duration(next))
	case doHear, doHearTwice, doMissMessage:
		text += fmt.Sprintf("agent %d: %s %T%+[3]v", d.a+1, names[d.kind], w.agents[d.a].inbox[d.b])
	case doReset, doStep, doFailover, doOutsider, doTurn:
		text += names[d.kind]
	default:
		text += fmt.Sprintf("agent %d: %s %d", d.a+1, names[d.kind], d.b)
	}
	return text
}
