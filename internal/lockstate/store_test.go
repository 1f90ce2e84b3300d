package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// storeModel is the contract of the store, for one lock and the agents. The lock may be shared.
type storeModel struct {
	holders     []seat          // none if the lock is free
	guard       lockagent.Token // the greatest token that was given out or told
	announced   bool            // the agents were told when the lock became free
	announcedOf int             // of how many free permits
	open        bool            // the agents were told when the lock became open for readers
	queue       []seat          // the tenures that wait, the first one first
	outsiders   int             // the outsiders that wait
	arrival     Instant         // when the first of them came
	turn        bool            // the next release is for them
	kept        Instant         // until then the store keeps the free lock for those that poll
	ahead       time.Duration   // by how much the clock is ahead
	clock       int             // the name of the clock
	withdrawn   []tenureID
	excused     []tenureID // broken or forgotten, while their agents may still trust them

	// What a failover brings back if it loses the last release.
	ghost seat

	permits    int  // of the semaphore; 0 if it is a lock
	plain      bool // the store has no queue
	replicated bool // the store demands replicas, so its passes are unconfirmed

	// Faults of a bad store. The exploration has to find each.
	early     time.Duration // leases end too early by this
	forgetful bool          // it forgets withdrawn tenures
	silent    bool          // it wakes nobody
	shortens  bool          // it shortens a lease when its tenure is acquired again
	shares    bool          // it makes every tenure shared that is renewed
	forgets   bool          // it does not make a tenure shared
	stingy    time.Duration // the lease of a pass ends too early by this
	recycles  bool          // it gives the tokens of a released tenure out again
	alone     bool          // it sends no standby messages
	nameless  bool          // its clock has no name
	excess    int           // it grants more permits than there are
	discreet  bool          // it does not tell an agent that it took places
	brief     bool          // it tells that by a wake-up, which is for one of the waiters
	mute      bool          // it does not tell the agent of a tenure that may rest that the lock is wanted
}

type tenureID struct {
	agent  int
	number uint64
}

// seat is the place of a tenure in the lock or in the queue.
type seat struct {
	tenureID
	mode    Mode
	expiry  Instant   // of the lease
	request RequestID // the tenure was asked for by this request
	permits int       // of a semaphore
	rests   bool      // the tenure may rest
}

// agentID is how an agent of the world is called.
func agentID(i int) lockagent.AgentID { return lockagent.AgentID('a' + rune(i)) }

func (t tenureID) String() string {
	return lockagent.Tenure{Agent: agentID(t.agent), Number: t.number}.String()
}

type callKind uint8

const (
	callAcquire callKind = iota
	callRenew
	callRelease
	callDisown
)

// storeCall is a call on its way to the store or back.
type storeCall struct {
	agent      int
	kind       callKind
	number     uint64
	sent       Instant
	mode       Mode
	lease      time.Duration
	token      lockagent.Token // the floor, or the last token
	queue      bool
	rests      bool
	request    RequestID // that it was asked for
	permits    int       // that it asks for
	unanswered bool

	executed bool // the reply below is on its way
	zombie   bool // the agent was told that the call failed; the store may still execute it
	err      error
	acquire  lockagent.AcquireReply
	renew    lockagent.RenewReply
	release  lockagent.ReleaseReply
}

// again is a call that was given up. The store executes it later, a second time, or never.
func (c *storeCall) again() storeCall {
	return storeCall{
		agent: c.agent, kind: c.kind, number: c.number, mode: c.mode, lease: c.lease, token: c.token, queue: c.queue,
		rests: c.rests, request: c.request, permits: c.permits, unanswered: c.unanswered,
		zombie: true,
	}
}

func (c *storeCall) reply() Command {
	switch c.kind {
	case callAcquire:
		return AcquireReplied{Tenure: c.number, Reply: c.acquire, Err: c.err}
	case callRenew:
		return RenewReplied{Tenure: c.number, Reply: c.renew, Err: c.err}
	case callDisown:
		return DisownReplied{Tenure: c.number, Reply: c.release, Err: c.err}
	}
	return ReleaseReplied{Tenure: c.number, Reply: c.release, Err: c.err}
}

// holder is the seat of a tenure that has the lock, or nil.
func (m *storeModel) holder(t tenureID, now Instant) *seat {
	for i := range m.holders {
		if h := &m.holders[i]; h.tenureID == t && now < h.expiry {
			return h
		}
	}
	return nil
}

func (m *storeModel) free(now Instant) bool { return now >= m.expiry() }

// expiry is when all leases are over.
func (m *storeModel) expiry() (end Instant) {
	for i := range m.holders {
		end = max(end, m.holders[i].expiry)
	}
	return end
}

// others returns the seat of another tenure that keeps this one out, or nil. A reader is also kept out
// by a writer with a place ahead of its own, and by outsiders.
func (m *storeModel) others(t tenureID, mode Mode) *seat {
	waits := m.outsiders > 0
	for i := range m.queue {
		if m.queue[i].tenureID == t {
			break
		}
		waits = waits || m.queue[i].mode == Exclusive
	}
	for i := range m.holders {
		h := &m.holders[i]
		if h.tenureID != t && (h.mode == Exclusive || mode == Exclusive || waits) {
			return h
		}
	}
	return nil
}

func (m *storeModel) queued(t tenureID) bool {
	return slices.ContainsFunc(m.queue, func(p seat) bool { return p.tenureID == t })
}

// execute does in the store what a call asks for.
func (w *world) execute(c *storeCall) {
	m := &w.store
	t := tenureID{c.agent, c.number}
	if had := len(m.holders); m.permits > 0 {
		if w.expire(); len(m.holders) < had {
			w.shareOut()
		}
	}
	w.expire()
	at := w.storeTime()
	switch c.kind {
	case callAcquire:
		if m.permits > 0 {
			w.acquirePermits(c, t)
			break
		}
		if w.fair && m.free(w.now) && len(m.queue) > 0 && m.queue[0].tenureID != t && !slices.Contains(m.withdrawn, t) {
			w.passOn() // whoever comes upon a free lock
		}
		other := m.others(t, c.mode)
		if own := m.holder(t, w.now); own != nil { // perhaps a late call: the mode of the tenure may have changed since
			c.mode, other = own.mode, nil
		}
		switch {
		case slices.Contains(m.withdrawn, t):
			c.err = lockagent.ErrWithdrawn
		case w.now < m.kept && m.free(w.now):
			c.acquire = lockagent.AcquireReply{At: at, Clock: m.clockName(), Remaining: m.kept.Sub(w.now)}
		case other != nil:
			placed := c.queue && !m.plain && !m.queued(t)
			if placed {
				m.queue = append(m.queue, seat{tenureID: t, mode: c.mode, request: c.request})
				m.open = m.open && c.mode == Shared
			}
			for _, h := range m.holders {
				if placed && !h.rests || h.rests && h.agent != c.agent && !m.mute {
					w.post(h.agent, Wanted{Tenure: h.number})
				}
			}
			c.acquire = lockagent.AcquireReply{
				At: at, Clock: m.clockName(), Holder: other.String(), Remaining: m.expiry().Sub(w.now), Queued: m.queued(t),
				Outsiders: m.outsiders, Rests: slices.ContainsFunc(m.holders, func(h seat) bool { return h.rests }),
			}
			if w.fair && m.queued(t) {
				c.acquire.AskWithin = askWithin
			}
		default:
			rests := c.rests && !slices.ContainsFunc(m.queue, func(p seat) bool { return p.tenureID != t })
			if own := m.holder(t, w.now); own != nil { // others may have met it when it was not marked
				rests = rests && own.rests
			}
			c.acquire = lockagent.AcquireReply{
				Granted:   true,
				Token:     w.begin(seat{tenureID: t, mode: c.mode, request: c.request, rests: rests}, c.lease-m.early, c.token),
				At:        at,
				Outsiders: m.outsiders, Rests: rests,
			}
			if c.zombie {
				w.haunted = true
			}
		}
	case callRenew:
		h := m.holder(t, w.now)
		if c.renew = (lockagent.RenewReply{Held: h != nil, At: at}); h != nil {
			h.expiry = max(h.expiry, w.now.add(c.lease))
			if h.mode == Exclusive && (c.mode == Shared && !m.forgets || m.shares) {
				h.mode = Shared
				m.guard = max(m.guard, w.last.all) // see ended: the tenure may have served many holds
				w.opens()
			}
			if h = m.holder(t, w.now); h.mode == Shared &&
				(m.outsiders > 0 || slices.ContainsFunc(m.queue, func(p seat) bool { return p.mode == Exclusive })) {
				c.renew.Contested = true
			}
		}
	case callRelease, callDisown:
		gaveUp := w.fair && m.queued(t)
		if m.leave(t) == Exclusive && len(m.holders) > 0 && m.holders[0].mode == Shared {
			w.opens()
		}
		if c.unanswered && !m.forgetful && !slices.Contains(m.withdrawn, t) {
			m.withdrawn = append(m.withdrawn, t)
		}
		h := m.holder(t, w.now)
		if c.release = (lockagent.ReleaseReply{Released: h != nil, At: at}); h == nil {
			if gaveUp && (m.permits > 0 || m.free(w.now)) {
				w.passOn()
			}
			break
		}
		m.ghost = *h
		if !m.recycles {
			m.guard = max(m.guard, c.token)
		}
		m.holders = slices.DeleteFunc(m.holders, func(s seat) bool { return s.tenureID == t })
		if len(m.holders) > 0 && m.permits == 0 {
			break // the last one to go passes the lock
		}
		if c.release.Passed = w.passOn(); !c.release.Passed {
			m.announced = true
			c.release.Others = w.wake(c.agent)
		}
	}
	c.executed = true
}

// opens wakes all who wait for a lock that has become open for readers.
func (w *world) opens() {
	m := &w.store
	writes := func(p seat) bool { return p.mode == Exclusive }
	m.open = !slices.ContainsFunc(m.queue, writes) && m.outsiders == 0
	w.wake(-1)
}

// begin begins a tenure, or starts its lease anew. It returns the first token.
func (w *world) begin(s seat, lease time.Duration, floor lockagent.Token) lockagent.Token {
	m, t := &w.store, s.tenureID
	if m.holder(t, w.now) == nil {
		if w.fair && !w.strays && m.outsiders == 0 && len(m.queue) > 0 && m.queue[0].tenureID != t {
			w.fail("tenure %v gets the lock before %v, which is the first in the queue", t, m.queue[0])
		}
		s.expiry = w.now
		m.holders = append(m.holders, s)
		w.believe(t)
	}
	m.announcedOf -= s.permits
	m.announced = m.announcedOf > 0 && m.permits > 0
	m.open = m.open && s.mode == Shared
	m.leave(t)
	h := &m.holders[slices.IndexFunc(m.holders, func(s seat) bool { return s.tenureID == t })]
	if expiry := w.now.add(lease); expiry > h.expiry || m.shortens {
		h.expiry = expiry
	}
	m.guard = max(lockagent.Token(w.storeTime()), m.guard+1, floor+1)
	return m.guard
}

// expire ends the tenures whose leases are over.
func (w *world) expire() {
	if n := len(w.store.holders); n > 0 {
		w.store.holders = slices.DeleteFunc(w.store.holders, func(s seat) bool { return w.now >= s.expiry })
		w.ended(n - len(w.store.holders))
	}
}

// ended is called when tenures ended without a release. In the real world every hold takes a
// microsecond, so the store's clock shows more than their tokens.
func (w *world) ended(tenures int) {
	if tenures > 0 {
		w.strays = true
		w.store.guard = max(w.store.guard, w.last.all)
	}
}

// leave takes a tenure out of the queue, and returns its mode there, or Shared if it has no place.
func (m *storeModel) leave(t tenureID) Mode {
	i := slices.IndexFunc(m.queue, func(p seat) bool { return p.tenureID == t })
	if i < 0 {
		return Shared
	}
	mode := m.queue[i].mode
	m.queue = slices.Delete(m.queue, i, i+1)
	return mode
}

// storeTime is what the store's clock shows.
func (w *world) storeTime() lockagent.StoreTime { return storeTime(w.now).Add(w.store.ahead) }

// turnLasts is for how long the store keeps a free lock for those that poll.
const turnLasts = 2 * tick

// askWithin is for how long a tenure keeps its place at a fair lock without asking.
const askWithin = 20 * tick

func (m *storeModel) clockName() string {
	if m.nameless {
		return ""
	}
	return string('a' + rune(m.clock))
}

// passOn passes the lock to the tenure that has waited longest, unless it is the turn of the
// outsiders.
func (w *world) passOn() bool {
	m := &w.store
	if m.permits > 0 {
		return w.shareOut()
	}
	if len(m.queue) == 0 || m.turn {
		m.turn = false
		return false
	}
	m.turn = m.outsiders > 0
	for {
		next := m.queue[0]
		w.pass(next)
		if len(m.queue) == 0 || next.mode == Exclusive || m.queue[0].mode == Exclusive {
			break
		}
	}
	for _, p := range m.queue[:min(2, len(m.queue))] {
		if !m.alone {
			w.post(p.agent, Standby{Tenure: p.number, Remaining: lockagent.PassLease})
		}
	}
	return true
}

// unseat takes the places of an agent whose channel for passes does not stand. When it does, the agent is told.
func (w *world) unseat(agent int) {
	w.expire()
	m := &w.store
	m.queue = slices.DeleteFunc(m.queue, func(p seat) bool { return p.agent == agent })
	if !m.discreet {
		w.post(agent, Woken{All: !m.brief})
	}
	if m.permits > 0 || m.free(w.now) {
		w.passOn()
	}
}

// pass passes the lock to a tenure that waits.
func (w *world) pass(to seat) {
	m := &w.store
	first := w.begin(to, lockagent.PassLease-m.stingy, 0)
	w.post(to.agent, Passed{
		Tenure: to.number, Token: first, At: w.storeTime(), Clock: m.clockName(), Outsiders: m.outsiders,
		Unconfirmed: m.replicated,
	})
}

// post sends a message to an agent.
func (w *world) post(agent int, c Command) {
	a := w.agent(agent)
	a.inbox = append(a.inbox, c)
}

// believe notes that an excused tenure has the lock again. So it is not excused any more, unless
// its agent may still trust the tenure as it was before.
func (w *world) believe(t tenureID) {
	a := w.agents[t.agent]
	stale := slices.ContainsFunc(a.inbox, func(c Command) bool { p, ok := c.(Passed); return ok && p.Tenure == t.number })
	for _, s := range a.parts {
		stale = stale || s.attempt.number == t.number && s.attempt.offer != nil ||
			s.phase == held && s.tenure.number == t.number
	}
	if stale {
		return
	}
	w.store.excused = slices.DeleteFunc(w.store.excused, func(e tenureID) bool { return e == t })
}

// wake sends a wake-up to every agent that listens. It returns how many there are beside the given
// one.
func (w *world) wake(not int) (others int) {
	for i := range w.agents {
		if !w.agents[i].subscribed {
			continue
		}
		if !w.store.silent {
			w.agent(i).waking = true
		}
		if i != not {
			others++
		}
	}
	return others
}

// excuse notes that the holders lost the lock through no fault of their agents.
func (w *world) excuse() {
	w.expire()
	for _, h := range w.store.holders {
		w.store.excused = append(w.store.excused, h.tenureID)
	}
	w.ended(len(w.store.holders))
	w.store.holders = nil
	w.store.announced = true
}

func (w *world) isExcused(agent int, number uint64) bool {
	return slices.Contains(w.store.excused, tenureID{agent, number})
}

// breakLock is an operator that breaks the lock.
func (w *world) breakLock(by int) {
	w.expire()
	for _, h := range w.store.holders {
		w.post(h.agent, Broken{Tenure: h.number, At: w.storeTime()})
	}
	w.excuse()
	if !w.fair || !w.passOn() {
		w.wake(by)
	}
}

// reset makes the store lose its memory, or come back as it was before the last release.
func (w *world) reset(failover bool) {
	m := &w.store
	w.excuse()
	m.queue, m.withdrawn = nil, nil
	w.blank = true
	if failover && w.now < m.ghost.expiry {
		m.holders, m.announced = []seat{m.ghost}, false
	}
	for i := range w.agents {
		a := w.agent(i)
		a.inbox = nil // lost with the connection
		a.resetting, a.missing = true, true
		a.waking = a.subscribed // the subscription was interrupted
	}
}
