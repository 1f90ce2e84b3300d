package memstore

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// subscription is one call of Subscribe.
type subscription struct {
	store *Store
	name  lockagent.Name
	wake  func()
}

// Subscribe implements [lockagent.Store]. The subscription stands at once: the first call of wake is
// made before Subscribe returns. Close makes the last one. cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, _ lockagent.LockKind, wake func()) (cancel func()) {
	m := s.memory
	m.mu.Lock()
	if s.closed {
		m.mu.Unlock()
		wake()
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
	return slices.DeleteFunc(slices.Clone(m.subscriptions[name]),
		func(sub *subscription) bool { return sub.store.fault.outage != nil })
}

// otherStores counts the Stores behind subs, except one.
func otherStores(subs []*subscription, without *Store) int {
	seen := []*Store{without}
	for _, sub := range subs {
		if !slices.Contains(seen, sub.store) {
			seen = append(seen, sub.store)
		}
	}
	return len(seen) - 1
}

// listener is one call of Listen.
type listener struct {
	store *Store
	agent lockagent.AgentID
	hear  func(lockagent.Message)
	alone bool // it is the one that listens as the agent; guarded by memory.mu
}

// Listen implements [lockagent.Messages]. Messages come at once: hear gets the first ones before
// Listen returns. A closed Store never calls hear. cancel may be called more than once.
func (s *Store) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	m := s.memory
	m.mu.Lock()
	if s.closed {
		m.mu.Unlock()
		return func() {}
	}
	l := &listener{store: s, agent: agent, hear: hear}
	m.listeners[agent] = append(m.listeners[agent], l)
	var v visit
	if s.fault.hears() {
		v.begin(m, l)
	}
	m.mu.Unlock()
	v.tell()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		drop(m.listeners, agent, func(other *listener) bool { return other == l })
	}
}

// begin tells a listener that messages reach it from now on, and whether another one listens as its agent.
func (v *visit) begin(m *memory, l *listener) {
	l.alone = !slices.ContainsFunc(m.listeners[l.agent], func(other *listener) bool {
		return other != l && other.alone && other.store.fault.outage == nil
	})
	verdict := lockagent.MessageTwin
	if l.alone {
		verdict = lockagent.MessageAlone
	}
	for _, kind := range []lockagent.MessageKind{lockagent.MessagesMissed, verdict} {
		v.messages = append(v.messages, hearing{l, lockagent.Message{Kind: kind}})
	}
}

// listens reports whether an agent listens, as the other agents see it: also if its Store hangs.
func (m *memory) listens(agent lockagent.AgentID) bool {
	return slices.ContainsFunc(m.listeners[agent], func(l *listener) bool { return l.store.fault.outage == nil })
}

// hearing is a message to one listener.
type hearing struct {
	by      *listener
	message lockagent.Message
}

// tell sends a message to the agent of its tenure, unless that is cut off.
func (m *memory) tell(v *visit, message lockagent.Message) {
	for _, l := range m.listeners[message.Tenure.Agent] {
		if l.store.fault.hears() {
			v.messages = append(v.messages, hearing{l, message})
		}
	}
}

// wake wakes the subscribers that are not cut off. subs belongs to the visit from now on.
func (v *visit) wake(subs []*subscription) {
	v.woken = slices.DeleteFunc(subs, func(sub *subscription) bool { return !sub.store.fault.hears() })
}

// tell calls the functions. mu must be free, because they may call the store.
func (v *visit) tell() {
	for _, h := range v.messages {
		h.by.hear(h.message)
	}
	for _, sub := range v.woken {
		sub.wake()
	}
	for _, told := range v.told {
		told()
	}
}

// resetHook is one call of OnReset.
type resetHook struct {
	store *Store
	call  func(lockagent.Reset)
}

// OnReset implements [lockagent.Store]. [Store.Reset] and [Store.StepClock] call f before they
// return. A closed Store never calls f. cancel may be called more than once.
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

// unsubscribeStore removes the subscriptions, the listener and the hooks of a Store. It returns the subscriptions.
func (m *memory) unsubscribeStore(s *Store) (subs []*subscription) {
	for name := range m.subscriptions {
		drop(m.subscriptions, name, func(sub *subscription) bool {
			if sub.store == s {
				subs = append(subs, sub)
			}
			return sub.store == s
		})
	}
	for agent := range m.listeners {
		drop(m.listeners, agent, func(l *listener) bool { return l.store == s })
	}
	m.hooks = slices.DeleteFunc(m.hooks, func(hook *resetHook) bool { return hook.store == s })
	return subs
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
