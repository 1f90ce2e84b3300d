package transport

import (
	"slices"
	"sync"
)

// Topic is a channel on the servers. All who subscribe to one channel give it the same
// topic.
type Topic struct {
	Channel string
	// Sharded channels of a Cluster are published with SPUBLISH: their messages stay with
	// the node that serves Slot, which is that of the channel. Others reach every node.
	Sharded bool
	Slot    uint16
	// Early topics are subscribed before others on the same connection, and unsubscribed
	// after them: as long as another one stands there, so do they.
	Early bool
}

// Listener is whom a subscription tells. Neither function may block; both are called one
// at a time for each connection.
type Listener struct {
	// Message is called with each message. It may be nil.
	Message func(message string)
	// Stands is called when the subscription stands, and with again true each time it
	// stands once more: messages in between were missed.
	Stands func(again bool)
}

// Subscriptions have messages delivered. A channel is one subscription on the server,
// however many subscribe to it. All channels share one connection; in a Cluster there is
// one more for the sharded channels of each node. A connection that is lost is made again
// for as long as somebody subscribes. [NewSubscriptions] makes them; the zero
// Subscriptions are of no use.
type Subscriptions struct {
	servers *Servers

	mu     sync.Mutex // guards what follows, and what says so in topic and link
	topics map[string]*topic
	links  map[string]*link // by place
	closed bool
}

// topic is what becomes of a Topic.
type topic struct {
	Topic

	// What follows is guarded by Subscriptions.mu.
	listeners []*listener // replaced when it changes, so that it can be read without mu
	link      *link       // who looks after it; nil if nobody does any more
	stand     standing
	due       bool // it is among the work of its link
	fresh     bool // somebody joined who has not been told yet
	// redirected counts the refusals since it stood, or since it was looked at again.
	redirected int
}

// standing is how a topic stands on the server.
type standing uint8

const (
	absent  standing = iota // not subscribed
	joining                 // a command is under way that subscribes
	stands                  // subscribed
	leaving                 // a command is under way that unsubscribes
)

// listener is one call of Subscribe.
type listener struct {
	Listener
	told bool // that it stands; guarded by Subscriptions.mu
}

// NewSubscriptions returns subscriptions on servers, which end them.
func NewSubscriptions(s *Servers) *Subscriptions {
	subs := &Subscriptions{servers: s, topics: make(map[string]*topic), links: make(map[string]*link)}
	s.register(nil, subs.close)
	return subs
}

// Subscribe has a listener told until cancel is called, and possibly once after that. It
// does not wait. cancel may be called more than once. Subscriptions that are closed tell
// nobody. A channel that the user may not subscribe to is tried again when somebody else
// joins; the listener is not told.
func (s *Subscriptions) Subscribe(t Topic, l Listener) (cancel func()) {
	joined := &listener{Listener: l}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return func() {}
	}
	shared := s.topics[t.Channel]
	if shared == nil {
		shared = &topic{Topic: t}
		s.topics[t.Channel] = shared
	}
	shared.listeners = append(slices.Clip(shared.listeners), joined)
	shared.fresh = true
	s.assign(shared)
	return func() { s.remove(shared, joined) }
}

// assign has a topic looked at by its link. A topic without a link gets one, which may be
// new. It expects mu to be held.
func (s *Subscriptions) assign(t *topic) {
	if t.link == nil {
		at := s.place(t.Topic)
		l := s.links[at]
		if l == nil {
			l = newLink(s, at)
			s.links[at] = l
			s.servers.runs.Go(func() { l.run(s.servers.life) })
		}
		t.link = l
		l.topics[t] = true
	}
	t.link.add(t)
}

const (
	anywhere = ""  // the place of a topic whose messages reach every node
	nowhere  = "?" // the place of a topic whose node is not known
)

// place is where a topic is to be subscribed: the address of a node, anywhere or nowhere.
func (s *Subscriptions) place(t Topic) string {
	if !t.Sharded {
		return anywhere
	}
	if n := s.servers.Master(t.Slot); n != nil {
		return n.addr
	}
	return nowhere
}

func (s *Subscriptions) remove(t *topic, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(t.listeners, l) {
		return
	}
	t.listeners = slices.DeleteFunc(slices.Clone(t.listeners), func(other *listener) bool { return other == l })
	if len(t.listeners) == 0 && t.link != nil {
		t.link.add(t)
	}
}

// Counted reports whether the server may count us among those who receive a message in a
// channel.
func (s *Subscriptions) Counted(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	return t != nil && t.stand != absent
}

// Again tells all listeners that their subscriptions stand again, as after an
// interruption: the servers may have lost what they had.
func (s *Subscriptions) Again() {
	s.mu.Lock()
	var told []*listener
	for _, t := range s.topics {
		for _, l := range t.listeners {
			if l.told {
				told = append(told, l)
			}
		}
	}
	s.mu.Unlock()
	for _, l := range told {
		l.Stands(true)
	}
}

// deliver passes a message on.
func (s *Subscriptions) deliver(channel, message string) {
	s.mu.Lock()
	var listeners []*listener
	if t := s.topics[channel]; t != nil {
		listeners = t.listeners
	}
	s.mu.Unlock()
	for _, l := range listeners {
		if l.Message != nil {
			l.Message(message)
		}
	}
}

// close tells nobody any more. The links end with the life of the servers.
func (s *Subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.topics)
}
