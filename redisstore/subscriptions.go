package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// subscriptions has the wake-ups of a store. Each lock that is waited for has one
// subscription on the server, however many wait for it, and all of them share one
// connection; with sharded messages, one to each node of the Cluster.
type subscriptions struct {
	wire  wire
	start func(*link)   // runs a link on a goroutine of its own
	bound time.Duration // of one exchange with the server
	// id is the store's among those that a lock can be passed on to, if passing is true.
	id      string
	passing bool

	mu     sync.Mutex // guards what follows, and what says so in topic and link
	topics map[string]*topic
	links  map[string]*link // by node
	// awaited is how many topics somebody waits for. While there are some, the
	// channel for what is passed on to the store is subscribed to as well.
	awaited int
	closed  bool
}

// topic is the channel of a lock, or of two that share it.
type topic struct {
	channel string
	name    lockagent.Name // of the lock, or of one of the two
	slot    uint16

	// What follows is guarded by subscriptions.mu.
	wakes []*wake // replaced when it changes, so that it can be read without mu
	link  *link   // who looks after it; nil if nobody does any more
	stand standing
	due   bool // it is among the work of its link
	fresh bool // somebody joined who has not been woken yet
}

// standing is how a topic stands on the server.
type standing uint8

const (
	absent    standing = iota // not subscribed
	uncertain                 // a command is under way that changes it
	stands                    // subscribed
)

// wake is one call of Subscribe.
type wake struct {
	name lockagent.Name
	call func(*lockagent.Pass)
}

func newSubscriptions(wire wire, bound time.Duration, start func(*link)) *subscriptions {
	return &subscriptions{
		wire: wire, bound: bound, start: start, id: string(lockagent.NewAgentID()),
		topics: make(map[string]*topic), links: make(map[string]*link),
	}
}

// add subscribes.
func (s *subscriptions) add(name lockagent.Name, f func(*lockagent.Pass)) (cancel func()) {
	w := &wake{name: name, call: f}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return func() {}
	}
	ch := channel(name)
	t := s.topics[ch]
	if t == nil {
		t = &topic{channel: ch, name: name, slot: slot(string(name))}
		s.topics[ch] = t
	}
	if len(t.wakes) == 0 {
		s.awaited++
	}
	t.wakes = append(slices.Clip(t.wakes), w)
	t.fresh = true
	s.assign(t)
	return func() { s.remove(t, w) }
}

// assign has a topic looked at by its link. It gives it one first if it has none,
// and starts that if need be. It expects mu to be held.
func (s *subscriptions) assign(t *topic) {
	if t.link == nil {
		at := s.wire.node(t.slot)
		l := s.links[at]
		if l == nil {
			l = newLink(s, at)
			s.links[at] = l
			s.start(l)
		}
		t.link = l
		l.topics[t] = true
	}
	t.link.add(t)
}

func (s *subscriptions) remove(t *topic, w *wake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(t.wakes, w) {
		return
	}
	t.wakes = slices.DeleteFunc(slices.Clone(t.wakes), func(other *wake) bool { return other == w })
	if len(t.wakes) == 0 {
		s.awaited--
	}
	if len(t.wakes) == 0 && t.link != nil {
		t.link.add(t)
	}
}

// counted reports whether the server may count this store among those who
// receive a message in a channel.
func (s *subscriptions) counted(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	return t != nil && t.stand != absent
}

// wake wakes all who wait for a channel.
func (s *subscriptions) wake(channel string) {
	s.mu.Lock()
	var wakes []*wake
	if t := s.topics[channel]; t != nil {
		wakes = t.wakes
	}
	s.mu.Unlock()
	for _, w := range wakes {
		w.call(nil)
	}
}

// pass tells those who wait for a lock what was passed on to one of them.
func (s *subscriptions) pass(name lockagent.Name, pass *lockagent.Pass) {
	s.mu.Lock()
	var wakes []*wake
	if t := s.topics[channel(name)]; t != nil {
		wakes = t.wakes
	}
	s.mu.Unlock()
	for _, w := range wakes {
		if w.name == name { // and not another lock that shares the channel
			w.call(pass)
		}
	}
}

// wakeAll wakes everybody.
func (s *subscriptions) wakeAll() {
	s.mu.Lock()
	var wakes []*wake
	for _, t := range s.topics {
		wakes = append(wakes, t.wakes...)
	}
	s.mu.Unlock()
	for _, w := range wakes {
		w.call(nil)
	}
}

// reconnect has all connections made anew: the server may be another.
func (s *subscriptions) reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		signal(l.again)
	}
}

// close wakes nobody any more. The links end when the life of the store does.
func (s *subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	clear(s.topics)
}
