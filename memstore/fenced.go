package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// fence is what the memory knows of the tokens of a fenced lock. The zero fence is that of a lock that
// has had none.
type fence struct {
	used  lockagent.Token // the greatest
	since time.Time       // from when on a tenure may have used more, one in each microsecond; zero if it told the last
}

// at is the greatest token that may have been used by now.
func (f *fence) at(now time.Time) lockagent.Token {
	if f.since.IsZero() {
		return f.used
	}
	return f.used + lockagent.Token(now.Sub(f.since).Microseconds())
}

// raise takes note of a token that is above.
func (f *fence) raise(token lockagent.Token, now time.Time) {
	if f.used = token; !f.since.IsZero() {
		f.since = now
	}
}

// begin returns the first token of a tenure that begins now. at is the time of the clock.
func (f *fence) begin(at lockagent.StoreTime, now time.Time) lockagent.Token {
	*f = fence{used: max(lockagent.Token(at), f.at(now)+1), since: now}
	return f.used
}

// firstToken is the token of a tenure that begins at a time of the clock.
func (l *lock) firstToken(at lockagent.StoreTime, now time.Time) lockagent.Token {
	if l.kind != lockagent.FencedLock {
		return lockagent.Token(at)
	}
	return l.fence.begin(at, now)
}

// acquireFenced is an Acquire of a fenced lock. A floor is about this lock, and sets no clock.
func (m *memory) acquireFenced(v *visit, req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	known := m.lock(req.Name, v.now).fence.at(v.now)
	switch reach := max(known, lockagent.Token(m.clock.at(v.now))) + lockagent.Token(farthest.Microseconds()); {
	case req.Floor > reach:
		return lockagent.AcquireReply{}, errFarFloor
	case known >= lockagent.MaxToken:
		return lockagent.AcquireReply{}, lockagent.ErrNoTokens
	}
	if req.Floor > known {
		m.keep(req.Name, req.Kind, v.now).fence.raise(req.Floor, v.now)
	}
	req.Floor = 0
	return m.acquireOften(v, req)
}

// releaseFenced is a Release of a fenced lock.
func (m *memory) releaseFenced(v *visit, req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
	l, last := m.lock(req.Name, v.now), req.Last
	known := l.fence.at(v.now)
	if last > max(known, lockagent.Token(m.clock.at(v.now)))+lockagent.Token(farthest.Microseconds()) {
		last = 0 // that is no token, and must not use up the others
	}
	switch held := l.heldBy(req.Tenure) != nil; {
	case held && last > 0:
		l.fence = fence{used: last}
	case held:
		l.fence = fence{used: known}
	case last > known && (!l.inUse() || l.kind == lockagent.FencedLock):
		m.keep(req.Name, req.Kind, v.now).fence.raise(last, v.now)
	}
	req.Last = 0
	return m.releasePlain(v, req)
}

// PlantToken makes a token of a fenced lock the greatest that another program has had. It is for tests.
func (s *Store) PlantToken(name lockagent.Name, token lockagent.Token) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.keep(name, m.lock(name, now).kind, now).fence = fence{used: token}
}
