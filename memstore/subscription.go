package memstore

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// subscription has one function woken for one lock.
type subscription struct {
	store *Store
	name  lockagent.Name
	wake  func()
}

// Subscribe implements [lockagent.Store]. The subscription stands at once: wake
// is called for the first time before Subscribe returns. A Store that is closed
// calls it never. cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, wake func()) (cancel func()) {
	m := s.memory
	m.mu.Lock()
	if s.closed {
		m.mu.Unlock()
		return func() {}
	}
	sub := &subscription{store: s, name: name, wake: wake}
	m.subscriptions[name] = append(m.subscriptions[name], sub)
	stands := s.fault.hears()
	m.mu.Unlock()
	if stands {
		wake()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		drop(m.subscriptions, name, func(other *subscription) bool { return other == sub })
	}
}

// subscribers returns the subscriptions to a lock, for use without mu.
func (m *memory) subscribers(name lockagent.Name) []*subscription {
	return slices.DeleteFunc(slices.Clone(m.subscriptions[name]), func(sub *subscription) bool { return sub.store.fault.outage != nil })
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

// listener has one function hear the messages to an agent.
type listener struct {
	store *Store
	agent lockagent.AgentID
	hear  func(lockagent.Message)
}

// Listen implements [lockagent.Store]. The agent is listened for at once: hear is called
// for the first time before Listen returns. A Store that is closed calls it never. cancel may
// be called more than once.
func (s *Store) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	m := s.memory
	m.mu.Lock()
	if s.closed {
		m.mu.Unlock()
		return func() {}
	}
	l := &listener{store: s, agent: agent, hear: hear}
	m.listeners[agent] = append(m.listeners[agent], l)
	stands := s.fault.hears()
	m.mu.Unlock()
	if stands {
		hear(lockagent.Message{Kind: lockagent.MessagesMissed})
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		drop(m.listeners, agent, func(other *listener) bool { return other == l })
	}
}

// listens reports whether an agent listens. One that hangs does, to all appearances.
func (m *memory) listens(agent lockagent.AgentID) bool {
	return slices.ContainsFunc(m.listeners[agent], func(l *listener) bool { return l.store.fault.outage == nil })
}

// hearing is a message to one listener.
type hearing struct {
	by      *listener
	message lockagent.Message
}

// tell has a message heard by the agent of its tenure, unless that is cut off.
func (m *memory) tell(v *visit, message lockagent.Message) {
	for _, l := range m.listeners[message.Tenure.Agent] {
		if l.store.fault.hears() {
			v.messages = append(v.messages, hearing{l, message})
		}
	}
}

// wake has subscribers woken that are not cut off. It takes subs over.
func (v *visit) wake(subs []*subscription) {
	v.woken = slices.DeleteFunc(subs, func(sub *subscription) bool { return !sub.store.fault.hears() })
}

// tell is called without mu, because who is told may call the store.
func (v *visit) tell() {
	for _, h := range v.messages {
		h.by.hear(h.message)
	}
	for _, sub := range v.woken {
		sub.wake()
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

// unsubscribeStore drops all that a Store had.
func (m *memory) unsubscribeStore(s *Store) {
	for name := range m.subscriptions {
		drop(m.subscriptions, name, func(sub *subscription) bool { return sub.store == s })
	}
	for agent := range m.listeners {
		drop(m.listeners, agent, func(l *listener) bool { return l.store == s })
	}
	m.hooks = slices.DeleteFunc(m.hooks, func(hook *resetHook) bool { return hook.store == s })
}

// drop removes something from the list of a key, and the key with the last.
func drop[K comparable, V any](all map[K][]V, key K, which func(V) bool) {
	left := slices.DeleteFunc(all[key], which)
	if len(left) == 0 {
		delete(all, key)
		return
	}
	all[key] = left
}
