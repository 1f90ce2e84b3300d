package redisstore

import (
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// listener is the agent that the store serves.
type listener struct {
	store *Store
	agent lockagent.AgentID
	hear  func(lockagent.Message)

	mu       sync.Mutex // guards what follows
	channels map[*channelOf]bool
	presence presence
	closed   bool
}

// channelOf is a channel of one lock.
type channelOf struct{ cancel func() }

// Listen implements [lockagent.Messages]. A closed store never calls hear. cancel may be called
// more than once.
func (s *Store) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	l := &listener{store: s, agent: agent, hear: hear, channels: make(map[*channelOf]bool)}
	s.listener.Store(l)
	topic := transport.Topic{Channel: script.AgentChannel(agent), Early: true}
	ignore := func() {}
	if s.incarnate() {
		topic := transport.Topic{Channel: script.IncarnationChannel, Early: true}
		ignore = s.subscriptions.Subscribe(topic, transport.Listener{
			Message: func(message string) { s.hearsOfIncarnation(message, hear) },
			Stands:  silent,
		})
		if !s.roll.off {
			s.enrol(agent)
		}
	}
	unsubscribe := s.subscriptions.Subscribe(topic, transport.Listener{
		Message: l.message,
		Stands: func(bool) {
			hear(lockagent.Message{Kind: lockagent.MessagesMissed})
			l.announce()
		},
		Denied: func(err error) {
			s.warnOfDenial(topic.Channel, err)
			l.unheard()
		},
	})
	return func() {
		s.listener.CompareAndSwap(l, nil)
		unsubscribe()
		ignore()
		l.close()
	}
}

// hearsOfIncarnation takes a message about an incarnation.
func (s *Store) hearsOfIncarnation(message string, hear func(lockagent.Message)) {
	if whose, m, ok := script.ReadEnrolled(message); ok {
		s.came(whose, m)
		return
	}
	if whose, agent, ok := script.ReadLeft(message); ok {
		s.gone(whose, agent)
		return
	}
	if at, name, absent, ok := script.ReadOver(message); ok && s.incarnations.over(at, name, absent) {
		return
	}
	// The store may have forgotten every tenure. No hold begins before a renewal has shown that it has not.
	hear(lockagent.Message{Kind: lockagent.MessagesMissed})
	s.incarnations.suspect()
}

// subscribe subscribes to a channel for as long as the agent listens.
func (l *listener) subscribe(topic transport.Topic, to transport.Listener) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return func() {}
	}
	c := &channelOf{l.store.subscriptions.Subscribe(topic, to)}
	l.channels[c] = true
	return func() {
		c.cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.channels, c)
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.channels {
		c.cancel()
	}
	clear(l.channels)
}

// silent is the Stands function of a channel if nothing has to be done when it stands: the channel
// of the lock or of the agent stands at the same time, and tells.
func silent(bool) {}

// message is called with each message to the agent. It ignores a message that it does not
// understand: messages may be lost.
func (l *listener) message(payload string) {
	if word, answers, ok := script.ReadHere(payload); ok {
		l.present(word, answers)
		return
	}
	m, err := script.ReadMessage(payload)
	if err != nil {
		return
	}
	l.store.clocks.note(l.store.slot(m.Name), m.Incarnation, m.At, min(m.Token, lockagent.Token(m.At)))
	if f, err := l.store.family(m.LockKind); err == nil && f.places != nil && m.Kind == lockagent.MessagePassed {
		f.places.leave(place{m.Name, m.Tenure})
	}
	// The replicas may not have the pass yet. The agent asks, and the answer waits for them.
	m.Unconfirmed = m.Kind == lockagent.MessagePassed && l.store.minReplicas > 0
	l.hear(m)
}

// Subscribe implements [lockagent.Store]. cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) (cancel func()) {
	f, err := s.family(kind)
	if err != nil {
		return func() {} // every Acquire says so
	}
	if f.channel == nil {
		wake()
		return func() {}
	}
	// While the lock's channel stands, the server must not take this store for an outsider, and
	// the agent must hear of passes. So that channel is subscribed last, and unsubscribed first.
	var cancels []func()
	if s.room.Queues() {
		mark := s.topic(script.AgentsChannel(name), name, true)
		cancels = append(cancels, s.subscriptions.Subscribe(mark, transport.Listener{Stands: silent}))
	}
	if l := s.listener.Load(); l != nil && s.room.Cluster() && s.room.Queues() {
		askAgain := wake
		passes := transport.Listener{Message: l.message, Stands: silent}
		// Whoever asked for a place before the agent was heard may have lost it, and one wake-up is for one of them.
		if f.many {
			askAgain = func() {
				l.hear(lockagent.Message{Kind: lockagent.MessagesMissed, Name: name, LockKind: kind})
			}
			passes.Stands = func(bool) { askAgain() }
		}
		channel := script.AgentChannelOf(l.agent, name)
		passes.Denied = s.denied(channel, askAgain)
		cancels = append(cancels, l.subscribe(s.topic(channel, name, true), passes))
	}
	channel := f.channel(name)
	cancels = append(cancels, s.subscriptions.Subscribe(s.topic(channel, name, false), transport.Listener{
		Message: func(payload string) {
			if f.heard != nil {
				f.heard(name, payload)
			}
			wake()
		},
		Stands: func(bool) { wake() },
		Denied: s.denied(channel, wake),
		Ended:  wake,
	}))
	return func() {
		for i := len(cancels) - 1; i >= 0; i-- {
			cancels[i]()
		}
	}
}

// denied returns what to do whenever the server says that the user may not subscribe to a channel: who waits is not
// told of anything, and asks instead.
func (s *Store) denied(channel string, askAgain func()) func(error) {
	return func(err error) {
		s.warnOfDenial(channel, err)
		askAgain()
	}
}

// warnOfDenial logs the first channel to which the user may not subscribe.
func (s *Store) warnOfDenial(channel string, err error) {
	s.denials.Do(func() {
		s.logger.Warn("lockagent: the user may not subscribe to a channel of a lock, so nothing tells those who "+
			"wait, and they ask about every second: give the user the access rules in the documentation of package "+
			"redisstore",
			"channel", channel, "error", err)
	})
}

// topic is a channel of a lock.
func (s *Store) topic(channel string, name lockagent.Name, early bool) transport.Topic {
	return transport.Topic{Channel: channel, Sharded: s.room == script.Sharded, Slot: s.slot(name), Early: early}
}
