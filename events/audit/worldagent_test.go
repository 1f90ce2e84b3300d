package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

func (w *world) act(a *worldAgent) {
	for _, name := range worldLocks {
		if t := a.has[name]; t != nil {
			w.fails(a, t)
			w.keep(a, t)
		}
		if t := a.has[name]; t != nil && !t.rests {
			w.tellHolding(a, t)
		}
	}
	if w.now < a.deaf {
		w.waits(a, worldLocks[0], lockagent.EventRequested, lockagent.EventRefused)
		return
	}
	if a.reads != 0 {
		if w.now >= a.reads {
			w.answered(a)
			a.reads += quietFor
		}
		return
	}
	for _, t := range a.debts {
		w.returned(a, t)
	}
	a.debts = nil
	w.tellChanges(a, w.now)
	name := worldLocks[w.rand.IntN(len(worldLocks))]
	if a.has[name] == nil {
		if w.cfg.breaks && w.chance(60) {
			w.breaks(a, name)
		}
		w.acquire(a, name)
	}
}

// answered is what an agent learns of the store by each of its answers.
func (w *world) answered(a *worldAgent) {
	s := a.store
	now := s.clock(w.now)
	reset := lockagent.Reset{From: incarnation(a.inc), To: incarnation(s.inc), Before: now}
	known := a.inc != 0
	switch {
	case !known:
	case a.inc != s.inc:
		reset.Reason, reset.After = "emptied", a.shown
	case a.set != s.set:
		reset.Reason, reset.After, reset.Step = "clock stepped", a.shown, time.Duration(s.set-a.set)*time.Millisecond
	default:
		known = false
	}
	if known {
		w.record(a, lockagent.Event{Kind: lockagent.EventStoreReset, Reset: reset})
		a.newest, a.confirmed = 0, 0
	}
	a.inc, a.set, a.shown, a.shownAt = s.inc, s.set, now, w.now
	w.tellsGrace(a)
	w.comesBack(a)
}

func incarnation(n int) string { return fmt.Sprintf("i%d", n) }

func (w *world) acquire(a *worldAgent, name lockagent.Name) {
	s := a.store
	mode := lockagent.Exclusive
	if name != semaphore && w.chance(3) {
		mode = lockagent.Shared
	}
	s.locks[name] = slices.DeleteFunc(s.locks[name], func(t *worldTenure) bool {
		t.over = t.over || w.now >= t.expires
		return t.over
	})
	if w.waitsInGrace(a, name, mode) {
		return
	}
	n, busy := 0, false
	if name == semaphore {
		n, busy = w.wantsPermits(a)
	} else {
		busy = slices.ContainsFunc(s.locks[name],
			func(t *worldTenure) bool { return t.mode != lockagent.Shared || mode != lockagent.Shared })
	}
	if busy && !w.happened(w.cfg.evil == grantTwice, 10, "evil") {
		w.waits(a, name, lockagent.EventQueued, lockagent.EventTimedOut, lockagent.EventCancelled)
		return
	}
	w.answered(a)
	a.tenure++
	at := s.begin(w.now)
	if at < s.loose[name] {
		w.had["granted before an end that is not known"] = true
	}
	t := &worldTenure{
		agent: a, lock: name, number: a.tenure, mode: mode, n: n, token: at - s.behind, inc: s.inc, lease: 30_000,
	}
	t.worldHold.mode = mode
	switch w.rand.IntN(4) {
	case 0:
		t.lease = 9000
	case 1:
		t.lease, t.fixed = 2000, true
	}
	w.confirm(t, at)
	t.begun = at
	if n > 0 {
		t.total = s.total
	}
	s.locks[name] = append(s.locks[name], t)
	a.has[name] = t
	// The first hold waits for a renewal if messages of the store may have been lost. No record would tell of a tenure
	// that began against the rules, and ended before that.
	if w.chance(6) && !(a.hasty && s.grace.on) {
		t.rests, t.silent, t.ends = true, true, w.now+w.rand.IntN(1000)
		return
	}
	w.grant(a, t, mode, lockagent.ByStore)
	if t.ends-w.now < 20 { // a short hold is one record
		w.short(a, t)
	}
}

// grantFirst asks the store whether a tenure goes on that it has begun, and begins the first hold.
func (w *world) grantFirst(a *worldAgent, t *worldTenure) {
	if w.now < a.deaf {
		return
	}
	w.answered(a)
	if t.over || t.back > 0 || w.now >= t.expires {
		t.rests = false
		w.giveBack(a, t)
		return
	}
	w.confirm(t, a.store.clock(w.now))
	t.rests, t.silent = false, false
	w.grant(a, t, t.mode, lockagent.ByStore)
}

// confirm is a grant or a renewal. The agent knows when it asked, and the answer may have taken a while.
func (w *world) confirm(t *worldTenure, at lockagent.StoreTime) {
	t.told, t.confirmed, t.at, t.expires, t.doubt = at, at, w.now, w.now+t.lease+1, false
	if w.chance(4) {
		t.at -= w.rand.IntN(300)
	}
}

// next grants the lock to the next owner of a tenure.
func (w *world) next(a *worldAgent, t *worldTenure, how lockagent.How) {
	mode := t.mode
	if t.turns || w.cfg.mixed && t.n == 0 && w.chance(3) {
		mode = lockagent.Shared
	}
	t.turns = mode != t.mode
	w.grant(a, t, mode, how)
}

func (w *world) grant(a *worldAgent, t *worldTenure, mode lockagent.Mode, how lockagent.How) {
	t.worldHold.mode, t.reads, t.grants, t.how, t.said = mode, 0, 1, how, w.now
	t.owner = lockagent.Owner(fmt.Sprintf("o%d", w.rand.IntN(9)))
	t.ends = w.now + []int{1, 15, 300, 2000, 25_000, 70_000}[w.rand.IntN(6)]
	t.holds++
	t.hold = &trueHold{
		store: a.store.id, lock: t.lock, mode: mode, n: t.n, agent: a.id, epoch: a.epoch, tenure: t.number,
		token: lockagent.Token(t.token) + lockagent.Token(t.holds) - 1, from: w.now, began: t.told,
	}
	again := lockagent.StoreTime(0)
	if how == lockagent.ByStore && t.told != t.begun {
		t.hold.began, again = t.begun, t.told
	}
	if t.n > 0 {
		t.hold.total = max(t.total, a.store.total)
	}
	w.holds = append(w.holds, t.hold)
	e := w.about(t, lockagent.EventGranted)
	e.How, e.StoreTime, e.Confirmed, e.Count, e.Incarnation = how, t.hold.began, again, 1, incarnation(t.inc)
	w.record(a, e)
}

func (w *world) about(t *worldTenure, kind lockagent.EventKind) lockagent.Event {
	return lockagent.Event{
		Kind: kind, Lock: t.lock, LockKind: t.agent.store.kindOf(t.lock), Permits: t.n, Total: t.total,
		Mode: t.worldHold.mode, Owner: t.owner, Tenure: t.number, Fixed: t.fixed,
		Token: t.hold.token, Lease: time.Duration(t.lease) * time.Millisecond, Who: processOf(t.owner),
	}
}

// processOf is the process of an owner: it has asked a daemon for the lock.
func processOf(owner lockagent.Owner) lockagent.Who {
	return lockagent.Process{Program: string(owner), PID: 1, Host: "client"}.Who()
}

// short makes a whole hold of the grant that was just recorded.
func (w *world) short(a *worldAgent, t *worldTenure) {
	r := &a.queue[len(a.queue)-1]
	held := t.ends - w.now
	r.Kind, r.Count, r.Held = lockagent.EventHeld, 0, time.Duration(held)*time.Millisecond
	w.now = t.ends
	r.Confirmed, r.Until, r.Returned = t.told, t.until(w.now)+1, a.store.clock(w.now)
	t.hold.until, t.hold.lease = w.now, w.now
	delete(a.has, t.lock)
	w.free(a, t)
}

// free takes a tenure out of the store.
func (w *world) free(a *worldAgent, t *worldTenure) {
	a.store.locks[t.lock] = slices.DeleteFunc(a.store.locks[t.lock], func(x *worldTenure) bool { return x == t })
}

// holdingEvery is how often a hold that goes on is told of.
const holdingEvery = 20_000

// tellHolding tells of the holds of a tenure that go on.
func (w *world) tellHolding(a *worldAgent, t *worldTenure) {
	for _, h := range t.both() {
		if w.now-h.said < holdingEvery {
			continue
		}
		h.said = w.now
		e := lockagent.Event{
			Kind: lockagent.EventHolding, Lock: t.lock, LockKind: a.store.kindOf(t.lock), Mode: h.mode, Owner: h.owner,
			Who: processOf(h.owner), Tenure: t.number,
			Token: h.hold.token, Fixed: t.fixed, Lease: time.Duration(t.lease) * time.Millisecond, Permits: t.n,
			Total: t.total,
			Count: h.grants, Held: time.Duration(w.now-h.hold.from) * time.Millisecond, StoreTime: h.hold.began,
			Confirmed:   t.confirmed,
			Incarnation: incarnation(t.inc),
		}
		if h.how == lockagent.ByStore { // of others the agent does not tell it
			e.How = h.how
		}
		w.record(a, e)
	}
}

// lapse ends a hold whose deadline has passed. If the process did not run, it learns of that now.
func (w *world) lapse(a *worldAgent, t *worldTenure) bool {
	ms := t.deadline()
	if w.now < ms {
		return false
	}
	if a.from <= ms && ms < a.paused {
		ms = w.now
	}
	if t.fixed {
		w.lose(a, t, lockagent.EventExpired, lockagent.LostExpired, ms)
	} else {
		w.lose(a, t, lockagent.EventLost, lockagent.LostDeadline, ms)
	}
	w.giveBack(a, t)
	return true
}

func (w *world) keep(a *worldAgent, t *worldTenure) {
	if t.beside != nil && t.beside.ends < t.ends {
		t.swap()
	}
	switch {
	case t.rests:
		w.rest(a, t)
	case w.lapse(a, t):
	case t.broken && w.now >= a.deaf && w.chance(3): // a message tells of it
		w.lose(a, t, lockagent.EventBroken, lockagent.LostBroken, w.now)
		w.giveBack(a, t)
	case !t.fixed && (w.now-t.at >= t.lease/3 || t.turns || t.doubt) && w.now >= a.deaf:
		w.answered(a)
		if a.has[t.lock] != t { // it was denied when the agent came back
			return
		}
		if w.cfg.evil != confirmAll && (t.over || t.back > 0 || w.now >= t.expires) {
			w.denied(a, t)
			return
		}
		w.confirm(t, a.store.clock(w.now))
		if t.turns {
			t.mode, t.turns = lockagent.Shared, false
		}
		a.newest, a.confirmed = w.now, max(a.confirmed, t.confirmed)
		if w.chance(3) {
			e := w.about(t, lockagent.EventRenewed)
			e.Mode, e.Token, e.Fixed, e.StoreTime, e.Permits, e.Total = t.mode, 0, false, t.confirmed, 0, 0
			e.Owner, e.Who = "", lockagent.Who{}
			w.record(a, e)
		}
	case w.now < t.ends && t.n == 0 && t.grants == 1 && w.chance(20):
		t.grants++
		e := w.about(t, lockagent.EventReentered)
		e.Count, e.StoreTime = t.grants, t.told
		if w.cfg.mixed && t.worldHold.mode == lockagent.Exclusive && w.chance(2) {
			t.reads, e.Mode = 1, lockagent.Shared
		}
		w.record(a, e)
	case w.now < t.ends && t.worldHold.mode == lockagent.Shared && t.beside == nil && t.holds < 5 && w.chance(10):
		t.beside = &worldHold{}
		t.swap()
		w.grant(a, t, lockagent.Shared, lockagent.ByHandOff)
	case w.now < t.ends:
	case t.grants > 1:
		w.end(a, t, lockagent.EventReleased, 0, w.now)
	default:
		kind := lockagent.EventReleased
		if w.cfg.waits && w.chance(4) {
			kind = lockagent.EventUnclaimed
		}
		w.end(a, t, kind, 0, w.now)
		if t.left() {
			return
		}
		if w.chance(2) && t.n == 0 && t.holds < 5 && !t.fixed && !t.doubt {
			w.next(a, t, lockagent.ByHandOff)
			return
		}
		if w.chance(2) && t.n == 0 && t.holds < 5 && !t.fixed && !t.doubt {
			t.rests, t.ends = true, w.now+w.rand.IntN(1000)
			return
		}
		w.giveBack(a, t)
	}
}

// denied tells an agent that its store does not have a tenure.
func (w *world) denied(a *worldAgent, t *worldTenure) {
	if t.rests {
		t.rests = false
	} else {
		// What the denial says of the clock. It may have been asked for some time ago.
		t.told, t.at = a.store.clock(w.now), w.now-w.rand.IntN(1+min(w.now-t.at, 3000))
		w.lose(a, t, lockagent.EventLost, lockagent.LostDenied, w.now)
	}
	w.giveBack(a, t)
}

// rest keeps a tenure that nobody holds, until another owner wants it or its time has passed.
func (w *world) rest(a *worldAgent, t *worldTenure) {
	switch {
	case w.now >= t.deadline() || w.now >= t.ends || t.broken && w.chance(3):
		t.rests = false
		w.giveBack(a, t)
	case !w.chance(2):
	case t.holds == 0:
		w.grantFirst(a, t)
	default:
		t.rests = false
		w.next(a, t, lockagent.ByRest)
	}
}

// lose ends all holds of a tenure.
func (w *world) lose(a *worldAgent, t *worldTenure, kind lockagent.EventKind, why lockagent.LossReason, ms int) {
	w.end(a, t, kind, why, ms)
	if t.left() {
		w.end(a, t, kind, why, ms)
	}
}

// end ends the hold of a tenure, or gives back one of two grants.
func (w *world) end(a *worldAgent, t *worldTenure, kind lockagent.EventKind, why lockagent.LossReason, ms int) {
	for {
		t.grants--
		e := w.about(t, kind)
		switch {
		case t.reads == 0:
		case t.grants > 0 && (why != 0 || w.chance(2)):
			// What it was granted to write ends first. From now on it reads.
			t.worldHold.mode, t.reads, t.turns, t.hold.reads = lockagent.Shared, 0, true, ms
		default:
			e.Mode, t.reads = lockagent.Shared, 0
		}
		e.Reason, e.Count, e.Held = why, t.grants, time.Duration(ms-t.hold.from)*time.Millisecond
		e.Confirmed, e.Until = t.confirmed, t.until(ms)+1+lockagent.StoreTime(w.rand.IntN(900))
		if kind == lockagent.EventBroken {
			e.Operator = "olga"
		}
		w.recordAt(a, ms, e)
		t.ended = max(t.ended, e.Until)
		if why == 0 || t.grants == 0 {
			break
		}
	}
	if t.grants == 0 {
		t.hold.until, t.hold.lease = ms, t.deadline()
	}
}

// giveBack returns a tenure to the store as soon as that can be reached.
func (w *world) giveBack(a *worldAgent, t *worldTenure) {
	delete(a.has, t.lock)
	if w.now < a.deaf {
		inTime := !t.over && t.back == 0 && w.now < t.expires
		if t.unanswered = w.happened(inTime, 2, "release without an answer"); t.unanswered {
			w.free(a, t)
			a.store.loose[t.lock] = max(a.store.loose[t.lock], t.ended)
		}
		a.debts = append(a.debts, t)
		return
	}
	w.returned(a, t)
}

func (w *world) returned(a *worldAgent, t *worldTenure) {
	w.answered(a)
	if t.silent {
		w.free(a, t)
		return
	}
	e := w.about(t, lockagent.EventReturned)
	e.Mode, e.Token, e.Owner, e.Who, e.Lease, e.Fixed = t.mode, 0, "", lockagent.Who{}, 0, false
	e.Returned = a.store.clock(w.now)
	if t.unanswered {
		e.Until = e.Returned
	} else if t.over || t.back > 0 || w.now >= t.expires {
		e.Reason = lockagent.LostDenied
	}
	w.record(a, e)
	w.free(a, t)
}

// breaks is what an operator does through an agent.
func (w *world) breaks(a *worldAgent, name lockagent.Name) {
	s := a.store
	if len(s.locks[name]) == 0 {
		return
	}
	w.had["break"] = true
	w.answered(a)
	for _, t := range s.locks[name] {
		t.broken = true
	}
	w.empty(s, name)
	w.record(a, lockagent.Event{
		Kind: lockagent.EventBroken, Lock: name, LockKind: s.kindOf(name), StoreTime: s.begin(w.now), Operator: "olga",
	})
}
