package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// storeModel is the contract of the store, for one lock and the two agents.
type storeModel struct {
	holder  tenureID // zero if the lock is free
	expiry  Instant
	last    lockagent.Token
	told    bool         // the agents were told when it became free
	queue   []seat       // who waits, the longest first
	done    []doneTenure // released or withdrawn
	excused []tenureID   // broken or forgotten while their agents may believe in them

	plain bool // it has no queue

	// What a bad store does, to see that it is found out.
	early     time.Duration // by how much it ends leases too early
	forgetful bool          // of what was released
	silent    bool          // it wakes nobody
	shortens  bool          // a lease, when its tenure is acquired again
	sticky    bool          // who is released stays in the queue
	stingy    time.Duration // by how much the lease of a pass ends too early
	recycles  bool          // the tokens of a pass
}

// seat is the place of a tenure in the queue.
type seat struct {
	tenureID
	tokens int
}

// passLease is what the model has instead of [lockagent.PassLease], so that few
// different instants come of it.
const passLease = 20 * tick // trusted for 18

type tenureID struct {
	agent  int
	number uint64
}

type doneTenure struct {
	tenureID
	released bool
	passed   bool
}

type callKind uint8

const (
	callAcquire callKind = iota
	callRenew
	callRelease
)

// storeCall is a call on its way to the store or back.
type storeCall struct {
	agent  int
	kind   callKind
	number uint64
	sent   Instant
	lease  time.Duration
	tokens int
	queue  bool

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
	}
	return ReleaseReplied{Tenure: c.number, Reply: c.release, Err: c.err}
}

func (m *storeModel) free(now Instant) bool { return m.holder == tenureID{} || now >= m.expiry }

func (m *storeModel) finished(t tenureID) (doneTenure, bool) {
	for _, d := range m.done {
		if d.tenureID == t {
			return d, true
		}
	}
	return doneTenure{}, false
}

// execute has the store do what a call asks for.
func (w *world) execute(c *storeCall) {
	m := &w.store
	t := tenureID{c.agent, c.number}
	if m.free(w.now) {
		m.holder = tenureID{}
	}
	at := storeTime(w.now)
	switch c.kind {
	case callAcquire:
		_, finished := m.finished(t)
		switch {
		case finished:
			c.err = lockagent.ErrWithdrawn
		case m.holder != tenureID{} && m.holder != t:
			i := m.seat(t)
			switch {
			case i >= 0 && c.queue:
				m.queue[i].tokens = c.tokens
			case i < 0 && c.queue && !m.plain:
				m.queue = append(m.queue, seat{t, c.tokens})
			}
			c.acquire = lockagent.AcquireReply{At: at, Holder: "another", Remaining: m.expiry.Sub(w.now), Queued: m.seat(t) >= 0}
		default:
			if m.holder == (tenureID{}) {
				m.expiry = w.now
				w.believe(t)
			}
			m.holder, m.told = t, false
			m.leave(t)
			if expiry := w.now.add(c.lease - m.early); expiry > m.expiry || m.shortens {
				m.expiry = expiry
			}
			c.acquire = lockagent.AcquireReply{Granted: true, Token: m.last + 1, At: at}
			m.last += lockagent.Token(c.tokens)
		}
	case callRenew:
		c.renew = lockagent.RenewReply{Held: m.holder == t, At: at}
		if m.holder == t {
			m.expiry = max(m.expiry, w.now.add(c.lease))
		}
	case callRelease:
		d, repeated := m.finished(t)
		if !m.sticky {
			m.leave(t)
		}
		others := 0
		if !repeated {
			d = doneTenure{tenureID: t, released: m.holder == t}
			if m.holder == t {
				if d.passed = w.passOn(c.agent); !d.passed {
					m.holder, m.told = tenureID{}, true
					others = w.wake(c.agent)
				}
			}
			if !m.forgetful {
				m.done = append(m.done, d)
			}
		}
		c.release = lockagent.ReleaseReply{Released: d.released, At: at, Others: others, Passed: d.passed}
	}
	c.executed = true
}

// seat is the index of a tenure in the queue, or -1.
func (m *storeModel) seat(t tenureID) int {
	return slices.IndexFunc(m.queue, func(p seat) bool { return p.tenureID == t })
}

func (m *storeModel) leave(t tenureID) {
	m.queue = slices.DeleteFunc(m.queue, func(p seat) bool { return p.tenureID == t })
}

// passOn has the lock go from an agent to the one that has waited longest, if nobody
// else waits than who is in the queue.
func (w *world) passOn(from int) bool {
	m := &w.store
	others := 0
	for i, a := range w.agents {
		if a.subscribed && i != from {
			others++
		}
	}
	if others > len(m.queue) {
		return false
	}
	for len(m.queue) > 0 {
		next := m.queue[0]
		m.queue = slices.Delete(m.queue, 0, 1)
		if !w.agents[next.agent].subscribed {
			continue
		}
		w.believe(next.tenureID)
		m.holder, m.told = next.tenureID, false
		m.expiry = w.now.add(passLease - m.stingy)
		a := w.agent(next.agent)
		a.passes = append(a.passes, lockagent.Pass{
			Tenure: lockagent.Tenure{Number: next.number}, Lease: passLease,
			Token: m.last + 1, Tokens: next.tokens, At: storeTime(w.now),
		})
		if !m.recycles {
			m.last += lockagent.Token(next.tokens)
		}
		return true
	}
	return false
}

// believe takes note that a tenure which its agent may have lost without its fault
// has the lock anew, unless the agent may still take it up as it was before.
func (w *world) believe(t tenureID) {
	a := w.agents[t.agent]
	stale := slices.ContainsFunc(a.passes, func(p lockagent.Pass) bool { return p.Tenure.Number == t.number })
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
	w.store.holder, w.store.told = tenureID{}, true
}

func (w *world) isExcused(agent int, number uint64) bool {
	return slices.Contains(w.store.excused, tenureID{agent, number})
}
