package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Retention is for how long the memory keeps what it knows of a tenure that is
// over, so that calls which arrive late or repeated are told from new ones. No
// call of an agent may be later than that. What is older is dropped when the
// memory is used, a few names with every call; a name that was used once costs
// nothing in the end.
const Retention = time.Hour

// sweepPerCall is how many old memos a call looks at. A call makes at most one,
// so any number above 1 outruns them; this one does so without a call that
// takes noticeably longer than another.
const sweepPerCall = 8

type memoKey struct {
	name  lockagent.Name
	agent lockagent.AgentID
}

// memo is what is remembered of one agent's tenures of one lock.
type memo struct {
	memoKey
	touched time.Time // when a tenure last began or ended
	// number is the greatest one that was released or withdrawn, and reply what
	// was answered then. 0 if there is none.
	number uint64
	reply  lockagent.ReleaseReply
}

// recall returns the memo of an agent at a lock, or nil.
func (m *memory) recall(name lockagent.Name, agent lockagent.AgentID) *memo {
	if e := m.memos[memoKey{name, agent}]; e != nil {
		return e.Value.(*memo)
	}
	return nil
}

// finished is the number of the agent's last tenure that was released or
// withdrawn, or 0.
func (m *memory) finished(name lockagent.Name, agent lockagent.AgentID) uint64 {
	if known := m.recall(name, agent); known != nil {
		return known.number
	}
	return 0
}

// touch returns the memo of an agent at lock l, as the youngest one. It makes
// both known if they are not.
func (m *memory) touch(name lockagent.Name, agent lockagent.AgentID, l *lock, now time.Time) *memo {
	key := memoKey{name, agent}
	e := m.memos[key]
	if e == nil {
		e = m.byAge.PushBack(&memo{memoKey: key})
		m.memos[key] = e
		m.locks[name] = l
		l.memos++
	}
	m.byAge.MoveToBack(e)
	touched := e.Value.(*memo)
	touched.touched = now
	return touched
}

// sweep looks at the oldest memos, and drops those that are older than
// [Retention]. With its last memo a lock goes, so that one has to stay as long as
// the lock is held, or its tokens are ahead of the clock, which is to make greater
// ones once they are forgotten.
func (m *memory) sweep(now time.Time) {
	for range sweepPerCall {
		oldest := m.byAge.Front()
		if oldest == nil {
			return
		}
		old := oldest.Value.(*memo)
		if now.Sub(old.touched) < Retention {
			return
		}
		l := m.lock(old.name, now)
		needed := l.holder != nil || l.value || int64(l.last) >= int64(m.storeTime(now))
		if l.memos == 1 && needed {
			old.touched = now
			m.byAge.MoveToBack(oldest)
			continue
		}
		m.byAge.Remove(oldest)
		delete(m.memos, old.memoKey)
		if l.memos--; l.memos == 0 {
			delete(m.locks, old.name)
		}
	}
}
