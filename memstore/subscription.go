package memstore

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// subscription has one function woken for one lock.
type subscription struct {
	store *Store
	name  lockagent.Name
	wake  func(*lockagent.Pass)
}

// Subscribe implements [lockagent.Store]. The subscription stands at once: wake
// is called for the first time before Subscribe returns. A Store that is closed
// calls it never. cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, wake func(*lockagent.Pass)) (cancel func()) {
	sub := &subscription{store: s, name: name, wake: wake}
	if !s.memory.subscribe(sub) {
		return func() {}
	}
	wake(nil)
	return func() { s.memory.unsubscribe(sub) }
}

// subscribe reports false if the Store is closed. It takes mu.
func (m *memory) subscribe(sub *subscription) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sub.store.closed {
		return false
	}
	m.subscriptions[sub.name] = append(m.subscriptions[sub.name], sub)
	return true
}

// unsubscribe takes mu.
func (m *memory) unsubscribe(sub *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropSubscriptions(sub.name, func(other *subscription) bool { return other == sub })
}

// unsubscribeStore drops all that a Store had.
func (m *memory) unsubscribeStore(s *Store) {
	for name := range m.subscriptions {
		m.dropSubscriptions(name, func(sub *subscription) bool { return sub.store == s })
	}
	m.hooks = slices.DeleteFunc(m.hooks, func(hook *resetHook) bool { return hook.store == s })
}

func (m *memory) dropSubscriptions(name lockagent.Name, drop func(*subscription) bool) {
	left := slices.DeleteFunc(m.subscriptions[name], drop)
	if len(left) == 0 {
		delete(m.subscriptions, name)
		return
	}
	m.subscriptions[name] = left
}

// subscribers returns the subscriptions to a lock, for use without mu.
func (m *memory) subscribers(name lockagent.Name) []*subscription {
	return slices.Clone(m.subscriptions[name])
}

// otherStores counts the Stores behind subs, without one.
func otherStores(subs []*subscription, without *Store) int {
	seen := []*Store{without}
	for _, sub := range subs {
		if !slices.Contains(seen, sub.store) {
			seen = append(seen, sub.store)
		}
	}
	return len(seen) - 1
}

// wakeAll is called without mu, because a wake function may call the store. pass is
// nil if the lock is free.
func wakeAll(subs []*subscription, pass *lockagent.Pass) {
	for _, sub := range subs {
		sub.wake(pass)
	}
}

// resetHook has one function called when the memory was reset.
type resetHook struct {
	store *Store
	call  func(lockagent.Reset)
}

// OnReset implements [lockagent.Store]: f is called by [Store.Reset], before
// that returns. A Store that is closed calls it never. cancel may be called more
// than once.
func (s *Store) OnReset(f func(lockagent.Reset)) (cancel func()) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.closed {
		return func() {}
	}
	hook := &resetHook{store: s, call: f}
	m.hooks = append(m.hooks, hook)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.hooks = slices.DeleteFunc(m.hooks, func(other *resetHook) bool { return other == hook })
	}
}
