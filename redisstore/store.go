package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
)

var _ lockagent.Store = (*Store)(nil)

// Store is a [lockagent.Store] on Redis. [Open] makes one; the zero Store is of no
// use. A Store is safe for concurrent use.
type Store struct {
	client  rueidis.Client
	carrier rueidis.Client // of the lanes: client, or a direct one
	direct  bool           // whether it is
	queues  bool           // whether locks are passed on: the server is alone
	dialer  *dialer
	cluster bool
	sharded bool
	publish string // the command that wakes: PUBLISH or SPUBLISH
	wire    wire
	bound   time.Duration // of a call

	life    context.Context // done when the store is closed
	end     context.CancelFunc
	runs    sync.WaitGroup // the goroutines of what follows
	closing sync.Once

	lanes         []*lane
	renewals      *renewals.Gatherer
	subscriptions *subscriptions
	incarnations  *incarnations
}

// laneCount is how many exchanges can be under way at the same time. A second one
// outside of a Cluster brought nothing: Redis does one thing at a time. In a
// Cluster each lane has a range of slots, as the nodes have, so that a node which
// does not answer holds up few calls to others.
const (
	laneCount        = 1
	laneCountCluster = 16
)

// start sets up what carries calls and wake-ups.
func (s *Store) start() {
	lanes := laneCount
	if s.cluster {
		lanes = laneCountCluster
	}
	s.subscriptions = newSubscriptions(s.wire, s.bound, func(l *link) {
		s.runs.Go(func() { l.run(s.life) })
	})
	s.subscriptions.passing = s.queues
	for range lanes {
		l := newLane(s.life, s.carrier, s.direct, s.bound, s.dialer)
		l.packer = packer{
			publish:       s.publish,
			cluster:       s.cluster,
			countsOthers:  s.countsOthers(),
			queues:        s.queues,
			store:         s.subscriptions.id,
			placed:        make(map[waiting]bool),
			subscriptions: s.subscriptions,
			incarnations:  s.incarnations,
			send:          l.send,
		}
		s.lanes = append(s.lanes, l)
		s.runs.Go(func() { l.run(&s.runs) })
	}
	s.renewals = &renewals.Gatherer{BySlot: s.cluster, Send: s.renew}
	s.incarnations.onReset(s.afterReset)
}

// afterReset does what the subscriptions need: locks may be free that nobody
// released, and after a failover the old master may live on, with connections to it.
func (s *Store) afterReset(lockagent.Reset) {
	s.subscriptions.wakeAll()
	if s.incarnations.watched {
		s.subscriptions.reconnect()
	}
}

// slot is the hash slot of a key, and 0 where slots mean nothing.
func (s *Store) slot(key string) uint16 {
	if !s.cluster {
		return 0
	}
	return slot(key)
}

// lane is the one for calls about keys of a slot.
func (s *Store) lane(slot uint16) *lane { return s.lanes[int(slot)*len(s.lanes)/slots] }

// send gives a call about a key to its lane.
func (s *Store) send(key string, c *call) { s.lane(s.slot(key)).send(c) }

// await sends a call and waits for the reply.
func (s *Store) await(key string, c *call) (m rueidis.RedisMessage, err error) {
	answered := make(chan struct{})
	c.done = func(reply rueidis.RedisMessage, failed error) {
		m, err = reply, failed
		close(answered)
	}
	s.send(key, c)
	<-answered
	return m, err
}

// countsOthers reports whether the reply to a publish tells how many received it.
// In a Cluster with classic messages it tells only of the node that was asked.
func (s *Store) countsOthers() bool { return !s.cluster || s.sharded }

// Subscribe implements [lockagent.Store]. A store that is closed calls wake never.
// cancel may be called more than once.
func (s *Store) Subscribe(name lockagent.Name, wake func(*lockagent.Pass)) (cancel func()) {
	return s.subscriptions.add(name, wake)
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
		s.subscriptions.close()
		s.end()
		for _, l := range s.lanes {
			l.close()
		}
		s.client.Close()
		s.runs.Wait()
		s.disconnect()
	})
	return nil
}

// disconnect closes the clients, also those that are not there yet.
func (s *Store) disconnect() {
	for _, client := range []rueidis.Client{s.client, s.carrier} {
		if client != nil {
			client.Close()
		}
	}
}
