package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// storeModel is the contract of the store, for one lock and the agents.
type storeModel struct {
	holder    tenureID // zero if the lock is free
	expiry    Instant
	guard     lockagent.Token // the greatest that was given out or told
	told      bool            // the agents were told when it became free
	queue     []tenureID      // who waits, the longest first
	outsiders int             // who wait without knowing of the queue
	turn      bool            // the next release is for them
	ahead     time.Duration   // by how much the clock is ahead
	clock     int             // which names it
	withdrawn []tenureID
	excused   []tenureID // broken or forgotten while their agents may believe in them

	// What a failover brings back that loses the last release.
	ghost       tenureID
	ghostExpiry Instant

	plain bool // it has no queue

	// What a bad store does, to see that it is found out.
	early     time.Duration // by how much it ends leases too early
	forgetful bool          // of what was withdrawn
	silent    bool          // it wakes nobody
	shortens  bool          // a lease, when its tenure is acquired again
	stingy    time.Duration // by how much the lease of a pass ends too early
	recycles  bool          // the tokens of a tenure that was released
	alone     bool          // nobody stands by
	nameless  bool          // its clock
}

type tenureID struct {
	agent  int
	number uint64
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
	lease      time.Duration
	token      lockagent.Token // the floor, or the last
	queue      bool
	unanswered bool

	executed bool // and the reply below is on its way
	zombie   bool // the agent was told that it failed; the store may execute it yet
	err      error
	acquire  lockagent.AcquireReply
	renew    lockagent.RenewReply
	release  lockagent.ReleaseReply
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

func (m *storeModel) free(now Instant) bool { return m.holder == tenureID{} || now >= m.expiry }

// execute has the store do what a call asks for.
func (w *world) execute(c *storeCall) {
	m := &w.store
	t := tenureID{c.agent, c.number}
	if m.free(w.now) {
		w.vacate()
	}
	at := w.storeTime()
	switch c.kind {
	case callAcquire:
		switch {
		case slices.Contains(m.withdrawn, t):
			c.err = lockagent.ErrWithdrawn
		case m.holder != tenureID{} && m.holder != t:
			if c.queue && !m.plain && !slices.Contains(m.queue, t) {
				m.queue = append(m.queue, t)
				w.post(m.holder.agent, Wanted{Tenure: m.holder.number})
			}
			c.acquire = lockagent.AcquireReply{
				At: at, Clock: m.clockName(), Holder: m.holder.String(), Remaining: m.expiry.Sub(w.now),
				Queued: slices.Contains(m.queue, t), Outsiders: m.outsiders,
			}
		default:
			c.acquire = lockagent.AcquireReply{Granted: true, Token: w.begin(t, c.lease-m.early, c.token), At: at, Outsiders: m.outsiders}
			if c.zombie {
				w.haunted = true
			}
		}
	case callRenew:
		c.renew = lockagent.RenewReply{Held: m.holder == t, At: at}
		if m.holder == t {
			m.expiry = max(m.expiry, w.now.add(c.lease))
		}
	case callRelease, callDisown:
		m.leave(t)
		c.release = lockagent.ReleaseReply{Released: m.holder == t, At: at}
		if c.unanswered && !m.forgetful && !slices.Contains(m.withdrawn, t) {
			m.withdrawn = append(m.withdrawn, t)
		}
		if m.holder == t {
			m.ghost, m.ghostExpiry = t, m.expiry
			if !m.recycles {
				m.guard = max(m.guard, c.token)
			}
			if c.release.Passed = w.passOn(); !c.release.Passed {
				m.holder, m.told = tenureID{}, true
				c.release.Others = w.wake(c.agent)
			}
		}
	}
	c.executed = true
}

// begin is a new tenure, or its lease anew. It returns its first token.
func (w *world) begin(t tenureID, lease time.Duration, floor lockagent.Token) lockagent.Token {
	m := &w.store
	if m.holder != t {
		m.expiry = w.now
		w.believe(t)
	}
	m.holder, m.told = t, false
	m.leave(t)
	if expiry := w.now.add(lease); expiry > m.expiry || m.shortens {
		m.expiry = expiry
	}
	m.guard = max(lockagent.Token(w.storeTime()), m.guard+1, floor+1)
	return m.guard
}

// vacate ends a tenure without a release. In the world as it is, every hold has taken a
// microsecond, so the store's clock shows more than their tokens.
func (w *world) vacate() {
	w.store.holder = tenureID{}
	w.store.guard = max(w.store.guard, w.last)
}

func (m *storeModel) leave(t tenureID) {
	m.queue = slices.DeleteFunc(m.queue, func(p tenureID) bool { return p == t })
}

// storeTime is what the store's clock shows.
func (w *world) storeTime() lockagent.StoreTime { return storeTime(w.now).Add(w.store.ahead) }

func (m *storeModel) clockName() string {
	if m.nameless {
		return ""
	}
	return string('a' + rune(m.clock))
}

// passOn has the lock go to the tenure that has waited longest, unless it is the turn of
// the outsiders.
func (w *world) passOn() bool {
	m := &w.store
	if len(m.queue) == 0 || m.turn {
		m.turn = false
		return false
	}
	m.turn = m.outsiders > 0
	next := m.queue[0]
	m.holder = tenureID{}
	first := w.begin(next, lockagent.PassLease-m.stingy, 0)
	w.post(next.agent, Passed{Tenure: next.number, Token: first, At: w.storeTime(), Clock: m.clockName(), Outsiders: m.outsiders})
	for _, p := range m.queue[:min(2, len(m.queue))] {
		if !m.alone {
			w.post(p.agent, Standby{Tenure: p.number, Remaining: lockagent.PassLease})
		}
	}
	return true
}

// post sends a message to an agent.
func (w *world) post(agent int, c Command) {
	a := w.agent(agent)
	a.inbox = append(a.inbox, c)
}

// believe takes note that a tenure which its agent may have lost without its fault
// has the lock anew, unless the agent may still take it up as it was before.
func (w *world) believe(t tenureID) {
	a := w.agents[t.agent]
	stale := slices.ContainsFunc(a.inbox, func(c Command) bool { p, ok := c.(Passed); return ok && p.Tenure == t.number })
	if a.s.attempt.number == t.number && a.s.attempt.offer != nil {
		stale = true
	}
	if stale || a.s.phase == held && a.s.tenure.number == t.number {
		return
	}
	w.store.excused = slices.DeleteFunc(w.store.excused, func(e tenureID) bool { return e == t })
}

// wake sends a wake-up to every agent that listens, and counts those that are not
// the given one.
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

// excuse remembers that the holder lost the lock by no fault of the agents.
func (w *world) excuse() {
	if !w.store.free(w.now) {
		w.store.excused = append(w.store.excused, w.store.holder)
	}
	w.vacate()
	w.store.told = true
}

func (w *world) isExcused(agent int, number uint64) bool {
	return slices.Contains(w.store.excused, tenureID{agent, number})
}

// breakLock has an operator break the lock.
func (w *world) breakLock(by int) {
	if h := w.store.holder; !w.store.free(w.now) {
		w.post(h.agent, Broken{Tenure: h.number, At: w.storeTime()})
	}
	w.excuse()
	w.wake(by)
}

// reset has the store lose its memory, or come back as it was before the last release.
func (w *world) reset(failover bool) {
	m := &w.store
	w.excuse()
	m.queue, m.withdrawn = nil, nil
	w.blank = true
	if failover && m.ghost != (tenureID{}) && w.now < m.ghostExpiry {
		m.holder, m.expiry, m.told = m.ghost, m.ghostExpiry, false
	}
	for i := range w.agents {
		a := w.agent(i)
		a.inbox = nil // lost with the connection
		a.resetting, a.missing = true, true
		a.waking = a.subscribed // the subscription was interrupted
	}
}
