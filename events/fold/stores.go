package fold

import "slices"

// stores says which identities of stores are those of one store. The zero stores says that all
// are different.
type stores map[string]string // from an identity to the one that it was joined with

// find returns the identity that stands for all of one store.
func (s stores) find(id string) string {
	for {
		other, ok := s[id]
		if !ok {
			return id
		}
		id = other
	}
}

// join makes two identities those of one store. From now on to stands for both, and from
// no longer stands for any. It reports false if nothing has changed.
func (s *stores) join(a, b string) (to, from string, changed bool) {
	if a == "" || b == "" {
		return "", "", false
	}
	a, b = s.find(a), s.find(b)
	if a == b {
		return "", "", false
	}
	if *s == nil {
		*s = make(stores)
	}
	to, from = min(a, b), max(a, b)
	(*s)[from] = to
	return to, from, true
}

// move brings the holds and waiters of an agent, which has just named its store, to the locks of that.
func (f *Fold) move(a *folded, store string) {
	of := func(l *lockFold) *lockFold {
		key := l.LockKey
		key.Store = f.stores.find(store)
		return f.lock(key)
	}
	for _, h := range a.sorted() {
		l := a.holds[h]
		if h.Store != "" {
			continue
		}
		f.close(a, l, h)
		to := of(l)
		h.LockKey = to.LockKey
		if f.watch == nil {
			f.supersede(to, h)
		}
		to.open = append(to.open, h)
		a.holds[h] = to
		f.notify(HoldChanged, h)
	}
	for l, n := range a.waits {
		if l.Store != "" {
			continue
		}
		to := of(l)
		for _, w := range l.waiters {
			if w.Agent == a.Agent {
				to.waiters = append(to.waiters, w)
				f.tellRequest(RequestWaits, to, &w)
			}
		}
		l.waiters = slices.DeleteFunc(l.waiters, func(w Waiter) bool { return w.Agent == a.Agent })
		delete(a.waits, l)
		a.waits[to] += n
	}
}

// joinStores makes one lock of those that two identities of one store have.
func (f *Fold) joinStores(a, b string) {
	to, from, changed := f.stores.join(a, b)
	if !changed {
		return
	}
	f.latest = nil
	if f.watch != nil {
		f.watch.Joined(to, from)
	}
	for key, l := range f.locks {
		if key.Store != from {
			continue
		}
		delete(f.locks, key)
		key.Store = to
		other := f.lock(key)
		for _, h := range l.open {
			h.LockKey = key
			f.agents[h.Agent].holds[h] = other
			f.notify(HoldChanged, h)
		}
		if f.watch == nil {
			f.join(other, l)
		}
		other.open = append(other.open, l.open...)
		other.waiters = append(other.waiters, l.waiters...)
		for _, w := range l.waiters {
			a := f.agents[w.Agent]
			a.waitsFor(other)
			delete(a.waits, l)
			f.tellRequest(RequestWaits, other, &w)
		}
		for _, h := range l.left {
			h.LockKey = key
		}
		other.left = append(other.left, l.left...)
	}
}
