package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

var _ lockagent.Store = (*Store)(nil)

// Store is a [lockagent.Store] on Redis. [Open] makes one; the zero Store is of no
// use. A Store is safe for concurrent use.
type Store struct {
	servers *transport.Servers
	id      string // among those that a lock can be passed on to
	queues  bool   // whether locks are passed on: the server is alone
	cluster bool
	slotted bool // the keys of a call have to be in one slot
	sharded bool
	publish string        // the command that wakes: PUBLISH or SPUBLISH
	bound   time.Duration // of a call
	logger  *slog.Logger

	life    context.Context // done when the store is closed
	end     context.CancelFunc
	runs    sync.WaitGroup // the goroutine of incarnations
	closing sync.Once

	lanes         *transport.Lanes[transport.Item]
	renewals      *renewals.Gatherer
	subscriptions *transport.Subscriptions
	wakes         *wakes
	incarnations  *incarnations
}

// start sets up what carries calls and wake-ups.
func (s *Store) start() {
	s.subscriptions = transport.NewSubscriptions(s.servers)
	s.lanes = transport.NewLanes(s.servers, s.newPacker)
	s.renewals = &renewals.Gatherer{BySlot: s.slotted, Send: s.renew}
	s.incarnations.onReset(func(lockagent.Reset) { s.subscriptions.Again() }) // locks may be free that nobody released
	s.wakes = newWakes(s.listen)
}

// listen subscribes to what is passed on to the store, before the channels of locks: who
// is queued when one of those stands can be passed the lock.
func (s *Store) listen() (cancel func()) {
	if !s.queues {
		return func() {}
	}
	passes := transport.Topic{Channel: passChannel(s.id), Early: true}
	return s.subscriptions.Subscribe(passes, transport.Listener{Message: s.passed, Stands: func(bool) {}})
}

func (s *Store) newPacker() transport.Packer[transport.Item] {
	p := &packer{
		publish:       s.publish,
		cluster:       s.slotted,
		countsOthers:  s.countsOthers(),
		queues:        s.queues,
		store:         s.id,
		placed:        make(map[waiting]bool),
		subscriptions: s.subscriptions,
		incarnations:  s.incarnations,
		send:          s.lanes.Send,
	}
	return p.pack
}

// slot is the hash slot of a key, and 0 where slots mean nothing.
func (s *Store) slot(key string) uint16 {
	if !s.slotted {
		return 0
	}
	return transport.Slot(key)
}

// send gives a call to its lane.
func (s *Store) send(c *transport.Call) {
	c.Slot = s.slot(c.Keys[0])
	s.lanes.Send(c)
}

// await sends a call and waits for the reply.
func (s *Store) await(c *transport.Call) (m rueidis.RedisMessage, err error) {
	answered := make(chan struct{})
	c.Done = func(reply rueidis.RedisMessage, failed error) {
		m, err = reply, failed
		close(answered)
	}
	s.send(c)
	<-answered
	return m, err
}

// countsOthers reports whether the reply to a publish tells how many received it. With
// classic messages it tells only of the node that was asked, if there are several.
func (s *Store) countsOthers() bool { return !s.slotted || s.sharded }

// Subscribe implements [lockagent.Store]. A store that is closed calls wake never.
// cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, call func(*lockagent.Pass)) (cancel func()) {
	w := s.wakes.add(name, call)
	unsubscribe := s.subscriptions.Subscribe(s.topic(name), transport.Listener{
		Message: func(string) { call(nil) },
		Stands:  func(bool) { call(nil) },
	})
	return func() {
		unsubscribe()
		s.wakes.remove(w)
	}
}

// topic is the channel of a lock.
func (s *Store) topic(name lockagent.Name) transport.Topic {
	return transport.Topic{Channel: channel(name), Sharded: s.sharded, Slot: s.slot(string(name))}
}

// passed tells those who wait for a lock what was passed on to one of them. A message that
// cannot be understood is a pass that is lost, as any may be.
func (s *Store) passed(message string) {
	name, pass, err := parsePass(message)
	if err != nil {
		return
	}
	for _, w := range s.wakes.of(name) {
		w.call(pass)
	}
}

// OnReset implements [lockagent.Store]. Resets are told one after the other, in
// their order. cancel may be called more than once.
func (s *Store) OnReset(f func(lockagent.Reset)) (cancel func()) {
	return s.incarnations.onReset(f)
}

// Close implements [lockagent.Store]. It waits for the store's goroutines, and
// returns nil, also when it is called again. It must not be called by a function
// that the store calls.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.renewals.Close()
		s.end()
		s.servers.Close()
		s.runs.Wait()
	})
	return nil
}
