package redisstore

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// listener is the agent that the store serves.
type listener struct {
	store *Store
	agent lockagent.AgentID
	hear  func(lockagent.Message)
}

// Listen implements [lockagent.Store]. A store that is closed calls hear never. cancel may
// be called more than once.
func (s *Store) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	l := &listener{s, agent, hear}
	s.listener.Store(l)
	topic := transport.Topic{Channel: script.AgentChannel(agent), Early: true}
	unsubscribe := s.subscriptions.Subscribe(topic, transport.Listener{
		Message: l.message,
		Stands:  func(bool) { hear(lockagent.Message{Kind: lockagent.MessagesMissed}) },
	})
	return func() {
		s.listener.CompareAndSwap(l, nil)
		unsubscribe()
	}
}

// message hears of what is published to the agent. What cannot be understood is lost, as
// any message may be.
func (l *listener) message(payload string) {
	m, err := script.ReadMessage(payload)
	if err != nil {
		return
	}
	l.store.clocks.note(l.store.slot(m.Name), m.At, m.Token)
	l.hear(m)
}

// Subscribe implements [lockagent.Store]. A store that is closed calls wake never. cancel
// may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, wake func()) (cancel func()) {
	var cancels []func()
	subscribe := func(channel string, early bool, l transport.Listener) {
		topic := transport.Topic{Channel: channel, Sharded: s.room == script.Sharded, Slot: s.slot(name), Early: early}
		cancels = append(cancels, s.subscriptions.Subscribe(topic, l))
	}
	// When the lock's channel stands, the store must be known as no outsider, and the agent
	// must hear of passes.
	silent := func(bool) {}
	if s.room.Queues() {
		subscribe(script.AgentsChannel(name), true, transport.Listener{Stands: silent})
	}
	if l := s.listener.Load(); l != nil && s.room == script.Sharded {
		subscribe(script.AgentChannelOf(l.agent, name), true, transport.Listener{Message: l.message, Stands: silent})
	}
	subscribe(script.Channel(name), false, transport.Listener{
		Message: func(string) { wake() },
		Stands:  func(bool) { wake() },
	})
	return func() {
		for i := len(cancels) - 1; i >= 0; i-- {
			cancels[i]()
		}
	}
}
