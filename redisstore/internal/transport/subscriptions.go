package transport

import (
	"slices"
	"sync"
)

// Topic is a channel on the servers. All topics of one channel have to be equal, but for Sharded: a channel for sharded
// messages is another one than that with the same name for other messages.
type Topic struct {
	Channel string
	// Sharded says that messages to the channel are published with SPUBLISH: they reach only
	// the node that serves Slot, the slot of the channel. Other messages reach every node.
	Sharded bool
	Slot    uint16
	// Early topics are subscribed first on their connection, and unsubscribed last. For
	// example: whenever the channel of a lock stands, so does the early channel that tells
	// its agents from outsiders.
	Early bool
}

// Listener has the functions that Subscriptions call. None may block. They may run at the
// same time. The messages of one connection come one at a time, in their order.
type Listener struct {
	// Message is called with each message. It may be nil.
	Message func(message string)
	// Stands is called when the subscription stands: with again false at first, and with
	// again true after each interruption, in which messages may have been missed.
	Stands func(again bool)
	// Denied is called each time that the server says that the user may not subscribe, which is about every second. It
	// may be nil.
	Denied func(err error)
	// Ended is called when the Subscriptions end, or if they have ended before Subscribe. It is the last call but for
	// those under way. It may be nil.
	Ended func()
}

// Subscriptions deliver messages. A channel has one subscription on the server, however
// many listeners it has. All channels share one connection. In a Cluster there is one more
// for the sharded channels of each node. A connection that is lost is made again for as
// long as one of its topics has a listener. [NewSubscriptions] makes Subscriptions; the
// zero value is of no use.
type Subscriptions struct {
	servers *Servers

	mu     sync.Mutex // guards what follows, and what says so in topic and link
	topics map[channel]*topic
	links  map[place]*link
	closed bool
}

// channel is what tells topics from each other.
type channel struct {
	name    string
	sharded bool
}

func (t Topic) channel() channel { return channel{t.Channel, t.Sharded} }

// topic is the state of a Topic.
type topic struct {
	Topic

	// What follows is guarded by Subscriptions.mu.
	listeners []*listener // a change makes a new slice, so the old one can be read without mu
	link      *link       // that looks after the topic; nil if none does
	stand     standing
	due       bool // the topic is among the work of its link
	fresh     bool // a listener joined that has not been told yet
	// redirected counts the refusals since the topic stood, or since the link reconsidered it.
	redirected int
}

// standing is how a topic stands on the server.
type standing uint8

const (
	absent  standing = iota // not subscribed
	joining                 // the command that subscribes is under way
	stands                  // subscribed
	leaving                 // the command that unsubscribes is under way
)

// listener is one call of Subscribe.
type listener struct {
	Listener
	told bool // that the topic stands; guarded by Subscriptions.mu
}

// NewSubscriptions returns subscriptions on servers. They end when the servers are closed.
func NewSubscriptions(s *Servers) *Subscriptions {
	subs := &Subscriptions{servers: s, topics: make(map[channel]*topic), links: make(map[place]*link)}
	s.register(nil, subs.close)
	return subs
}

// Subscribe adds a listener to a topic until cancel is called. The listener may still be called
// once after that. Subscribe does not wait. cancel may be called more than once. After the end of
// the Subscriptions no function of a listener is called but Ended.
//
// If the user may not subscribe to the channel, the link tries again about every second, and when another listener
// joins the topic.
func (s *Subscriptions) Subscribe(t Topic, l Listener) (cancel func()) {
	joined := &listener{Listener: l}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		joined.end()
		return func() {}
	}
	defer s.mu.Unlock()
	shared := s.topics[t.channel()]
	if shared == nil {
		shared = &topic{Topic: t}
		s.topics[t.channel()] = shared
	}
	shared.listeners = append(slices.Clip(shared.listeners), joined)
	shared.fresh = true
	s.assign(shared)
	return func() { s.remove(t.channel(), joined) }
}

// assign gives work to the link of a topic. A topic without a link gets one, which may be
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

// place is where to subscribe to topics.
type place struct {
	addr    string // of the node, or anywhere, or nowhere
	sharded bool   // one connection has sharded topics or others: a message does not tell of which it is
}

const (
	anywhere = ""  // the address for a topic whose messages reach every node
	nowhere  = "?" // the address for a topic whose node is not known
)

func (s *Subscriptions) place(t Topic) place {
	if !t.Sharded {
		return place{addr: anywhere}
	}
	if n := s.servers.Master(t.Slot); n != nil {
		return place{n.addr, true}
	}
	return place{nowhere, true}
}

func (s *Subscriptions) remove(c channel, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[c]
	if t == nil {
		return
	}
	i := slices.Index(t.listeners, l)
	if i < 0 {
		return
	}
	t.listeners = slices.Delete(slices.Clone(t.listeners), i, i+1)
	if len(t.listeners) == 0 && t.link != nil {
		t.link.add(t)
	}
}

// Counted reports whether the server may count this program among the subscribers of a channel, for sharded messages or
// for others.
func (s *Subscriptions) Counted(name string, sharded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel{name, sharded}]
	return t != nil && t.stand != absent
}

// Again calls Stands(true) of all listeners, as after an interruption. The store calls it when
// the servers may have lost their data.
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
func (s *Subscriptions) deliver(from channel, message string) {
	s.mu.Lock()
	var listeners []*listener
	if t := s.topics[from]; t != nil {
		listeners = t.listeners
	}
	s.mu.Unlock()
	for _, l := range listeners {
		if l.Message != nil {
			l.Message(message)
		}
	}
}

// close makes all listeners silent, and tells them that this is the end. The links end with the life of the servers.
func (s *Subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	var ended []*listener
	for _, t := range s.topics {
		ended = append(ended, t.listeners...)
	}
	clear(s.topics)
	s.mu.Unlock()
	for _, l := range ended {
		l.end()
	}
}

func (l *listener) end() {
	if l.Ended != nil {
		l.Ended()
	}
}
