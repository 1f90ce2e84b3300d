package lockstate

import (
	"errors"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// What has to be true of the small world.

// overlap checks, when agent i grants the lock, that nobody else holds it. If a tick was late,
// others may hold it past their deadlines.
func (w *world) overlap(i int, e *Event) {
	if w.store.permits > 0 {
		w.tooMany(i, e)
		return
	}
	for j, other := range w.agents {
		for k := range other.ledger.grants {
			g := &other.ledger.grants[k]
			if j == i && g.ID == e.Request.ID || g.Mode == Shared && e.Request.Mode == Shared ||
				w.isExcused(j, g.tenure) || w.isExcused(i, e.Tenure) {
				continue
			}
			if w.lateNow && w.now >= w.deadline(j, g) {
				continue
			}
			w.fail("%s is granted the lock while %s holds it", e.Request.Owner, g.Owner)
		}
	}
}

// outOfTurn checks, when agent i grants a fair lock, that the owner is the next one in the store's
// queue: the lock was passed to the place of this owner.
func (w *world) outOfTurn(i int, e *Event) {
	if !w.fair || w.strays {
		return
	}
	h := w.store.holder(tenureID{i, e.Tenure}, w.now)
	switch {
	case e.How == lockagent.ByHandOff && len(w.store.queue) > 0:
		w.fail(
			"%s is granted the lock by hand-off, before agent %d, who has a place in the queue", e.Request.Owner,
			w.store.queue[0].agent+1,
		)
	case e.How == lockagent.ByStore && h != nil && h.request != e.Request.ID && !e.Request.Session:
		w.fail("%s is granted the lock in the place of another request", e.Request.Owner)
	}
}

// unaware checks, when agent i lets a reader join others, that no outsider has waited for long while readers joined
// without the store. The check does not hold if the agent asks the store just now, or if the answer is lost.
func (w *world) unaware(i int, e *Event) {
	a, m := w.agents[i], &w.store
	t := &a.parts[0].tenure
	if w.fair || m.outsiders == 0 || !a.joined || t.mode == Exclusive || w.now < t.began.add(a.cfg.HandOffTime) ||
		w.lateNow || w.missed || w.isExcused(i, t.number) {
		return
	}
	asks := slices.ContainsFunc(w.calls, func(c storeCall) bool {
		return c.agent == i && c.kind == callRenew && !c.zombie
	})
	told := slices.Contains(a.inbox, Command(Wanted{Tenure: t.number})) || a.missing || a.resetting
	if waits := w.now.Sub(max(m.arrival, t.replied)); !asks && !told && waits > longestUnaware {
		w.fail("%s joins while an outsider waits, and the store has not been asked for %v", e.Request.Owner, waits)
	}
}

// turnedAway checks, when agent i refuses a request because the lock is held, that the holder is no ghost of the agent,
// unless the store was asked to end the ghost, and has answered.
func (w *world) turnedAway(i int, e *Event) {
	held, ok := errors.AsType[*lockagent.HeldError](e.Err)
	if !ok {
		return
	}
	a := w.agents[i]
	t, ok := lockagent.ParseTenure(held.Holder)
	if ok && t.Agent == a.cfg.Agent && !a.has(t.Number, nil) && !slices.Contains(a.told, t.Number) {
		w.fail("%s is refused because of tenure %d of the same agent, which does not know that tenure",
			e.Request.Owner, t.Number)
	}
}

// deadline is until when the holder trusts its grant.
func (w *world) deadline(agent int, g *deed) Instant {
	end := w.agents[agent].s.Deadline(g.tenure)
	if g.fixed != 0 {
		end = min(end, g.fixed)
	}
	return end
}

// check checks what has to be true at any time:
//
//   - The store has a lease for each hold inside its deadline. The lease ends no earlier than the
//     deadline, and is no longer than the hold needs.
//   - Nobody sleeps through a wake-up, or in a place that the store has taken.
func (w *world) check() {
	for i, a := range w.agents {
		for k := range a.ledger.grants {
			g := &a.ledger.grants[k]
			end := w.deadline(i, g)
			h := w.store.holder(tenureID{i, g.tenure}, w.now)
			switch {
			case w.now >= end || w.isExcused(i, g.tenure):
			case h == nil:
				w.fail(
					"%s trusts in tenure %d of agent %d until %v, but the store does not know of it", g.Owner, g.tenure,
					i+1, time.Duration(end),
				)
			case g.Mode < h.mode:
				w.fail("%s holds the lock alone in a tenure that is shared", g.Owner)
			case h.expiry < end:
				w.fail(
					"%s trusts in the lock until %v, but the store's lease ends at %v", g.Owner, time.Duration(end),
					time.Duration(h.expiry),
				)
			case !g.Session && g.Mode == Exclusive &&
				h.expiry > w.now.add(max(a.parts[0].lease(&g.Request), lockagent.PassLease)+rounding):
				w.fail(
					"%s holds the lock, and the store keeps it until %v for others", g.Owner, time.Duration(h.expiry),
				)
			}
		}
	}
	for i, a := range w.agents {
		for _, s := range a.parts {
			w.checkSleep(i, s)
			w.checkShared(i, s)
		}
	}
}

// checkShared checks that a tenure is shared in the store when the agent believes so.
func (w *world) checkShared(i int, s *State) {
	t := &s.tenure
	if s.phase != held || t.mode == Exclusive || t.downgrading || t.doubt || w.isExcused(i, t.number) {
		return
	}
	if h := w.store.holder(tenureID{i, t.number}, w.now); h != nil && h.mode == Exclusive {
		w.fail("agent %d shares its tenure %d, but the store keeps readers out", i+1, t.number)
	}
}

// pauses reports whether one of the agent's attempts failed and is made again later. In a fair lock it may be the
// one that was woken, for all of them.
func (a *agentModel) pauses(now Instant) bool {
	return slices.ContainsFunc(a.parts, func(s *State) bool {
		return s.phase == sleeping && s.failures > 0 && s.retryAt <= now.add(s.cfg.RetryMax)
	})
}

// checkSleep checks an agent that sleeps, if nothing is on its way to it. The check does not hold
// if a message was lost, or while the agent yields or pauses after a failure.
func (w *world) checkSleep(i int, s *State) {
	yields := w.now < s.notBefore.add(2*tick) // retryAt may be later by that: see tell
	if w.missed || s.cfg.Polls || s.phase != sleeping || s.failures > 0 || yields {
		return
	}
	if _, busy := w.errandOf(i); busy {
		return
	}
	m := &w.store
	place := tenureID{i, s.attempt.number}
	if w.fair && !w.haunted && s.attempt.queued() && !m.queued(place) && m.holder(place, w.now) == nil {
		w.fail("agent %d waits with tenure %d in a queue in which it has no place", i+1, place.number)
	}
	if m.permits > 0 {
		w.checkPermits(i, s)
		return
	}
	for _, h := range m.holders {
		_, busy := w.errandOf(h.agent)
		resting := slices.ContainsFunc(w.agents[h.agent].parts, func(s *State) bool {
			return s.Resting() && s.tenure.number == h.number
		})
		if resting && !busy && s.attempt.rival.holder == h.String() {
			w.fail("agent %d waits for a lock that rests in agent %d, which was told so", i+1, h.agent+1)
		}
	}
	switch free := m.free(w.now); {
	case free && m.announced && !w.agents[i].pauses(w.now):
		w.fail("agent %d waits for a lock that is free, and was told so", i+1)
	case free && !w.slow && len(m.queue) > 0 && m.queue[0].tenureID == place &&
		s.retryAt > w.now.add(lockagent.PassLease+pause):
		w.fail(
			"agent %d is the first in the queue, but sleeps until %v, while nobody has the lock", i+1,
			time.Duration(s.retryAt),
		)
	case !free && m.open && s.attempt.mode == Shared:
		w.fail("agent %d waits to read a lock that is shared, and was told so", i+1)
	case !free && len(m.holders) == 1 && m.holders[0].agent == i && !w.haunted && !w.dropped &&
		!w.agents[i].has(m.holders[0].number, s):
		w.fail("agent %d waits for a tenure of its own", i+1)
	}
}
