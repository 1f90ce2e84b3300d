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
	done    []doneTenure // released or withdrawn
	excused []tenureID   // broken or forgotten while their agents may believe in them

	// What a bad store does, to see that it is found out.
	early     time.Duration // by how much it ends leases too early
	forgetful bool          // of what was released
	silent    bool          // it wakes nobody
	shortens  bool          // a lease, when its tenure is acquired again
}

type tenureID struct {
	agent  int
	number uint64
}

type doneTenure struct {
	tenureID
	released bool
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
			c.acquire = lockagent.AcquireReply{At: at, Holder: "another", Remaining: m.expiry.Sub(w.now)}
		default:
			if m.holder == (tenureID{}) {
				m.expiry = w.now
				if a := w.agents[c.agent]; a.s.phase != held || a.s.tenure.number != c.number {
					m.excused = slices.DeleteFunc(m.excused, func(e tenureID) bool { return e == t })
				}
			}
			m.holder, m.told = t, false
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
		if !repeated {
			d = doneTenure{tenureID: t, released: m.holder == t}
			if !m.forgetful {
				m.done = append(m.done, d)
			}
		}
		c.release = lockagent.ReleaseReply{Released: d.released, At: at}
		if m.holder == t {
			m.holder, m.told = tenureID{}, true
			c.release.Others = w.wake(c.agent)
		}
	}
	c.executed = true
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
