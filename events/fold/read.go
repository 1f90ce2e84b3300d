package fold

import (
	"iter"

	"github.com/lockagent/lockagent"
)

// Store is the identity that stands for all that a store has had.
func (f *Fold) Store(id string) string { return f.stores.find(id) }

// Lock returns what the log says of a lock, and false if it says nothing.
func (f *Fold) Lock(key LockKey) (LockState, bool) {
	key.Store, key.Kind = f.stores.find(key.Store), lockKind(key.Kind)
	l := f.locks[key]
	if l == nil || l.empty() {
		return LockState{LockKey: key}, false
	}
	return f.state(l), true
}

// Locks returns what the log says of each lock that it says something of, in no order. The Fold
// must not change meanwhile.
func (f *Fold) Locks() iter.Seq[LockState] {
	return func(yield func(LockState) bool) {
		for _, l := range f.locks {
			if !l.empty() && !yield(f.state(l)) {
				return
			}
		}
	}
}

func (f *Fold) state(l *lockFold) LockState {
	s := LockState{LockKey: l.LockKey}
	for i := range l.waiters {
		s.Waiters = append(s.Waiters, f.waiter(l, &l.waiters[i]))
	}
	for _, h := range l.open {
		s.Holders = append(s.Holders, f.asOfNow(h))
	}
	for _, h := range l.left {
		s.Left = append(s.Left, *h)
	}
	return s
}

// waiter is a request, with the holder that it has found as far as the log tells of that by now.
func (f *Fold) waiter(l *lockFold, w *Waiter) Waiter {
	now := *w
	if now.Behind != nil && now.Behind.Owner == "" { // perhaps its record came later
		now.Behind = f.behind(l, w.Agent, w.Holder)
	}
	return now
}

// asOfNow adds to a hold what its agent tells of all its holds.
func (f *Fold) asOfNow(h *Hold) Hold {
	now := *h
	if a := f.agents[h.Agent]; !h.Gone || h.Epoch == a.Epoch {
		now.Confirmed, now.Lease = a.Renewed(h)
	}
	if h.Superseded {
		now.End = sooner(h.End, now.LeaseEnd())
	}
	return now
}

// Agent returns what the log says of an agent, and false if it says nothing. If there are many, a Fold forgets those
// without holds and requests that have stopped or are silent for more than an hour.
func (f *Fold) Agent(id lockagent.AgentID) (AgentState, bool) {
	a := f.agents[id]
	if a == nil {
		return AgentState{}, false
	}
	return a.AgentState, true
}
