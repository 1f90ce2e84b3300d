package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// A Store has every layer.
var (
	_ lockagent.Store    = (*Store)(nil)
	_ lockagent.Messages = (*Store)(nil)
	_ lockagent.Queue    = (*Store)(nil)
	_ lockagent.Rests    = (*Store)(nil)
	_ lockagent.Operator = (*Store)(nil)
	_ lockagent.Counters = (*Store)(nil)
	_ lockagent.History  = (*Store)(nil)
	_ lockagent.Grace    = (*Store)(nil)
)

// Store is a [lockagent.Store] on Redis. [Open] makes one; the zero Store is of no
// use. A Store is safe for concurrent use.
type Store struct {
	servers *transport.Servers
	room    script.Room   // in which scripts run
	bound   time.Duration // of a call
	logger  *slog.Logger
	denials sync.Once // guards the warning of a channel that is denied
	blind   sync.Once // guards the warning of a look that is denied

	database    int
	minReplicas int // that have to know of a tenure, or 0

	life    context.Context // done when the store is closed
	end     context.CancelFunc
	runs    sync.WaitGroup // the goroutine that runs incarnations
	closing sync.Once

	one *shard // nil in a Cluster

	families      map[lockagent.LockKind]*family
	lanes         *transport.Lanes[transport.Item]
	gathered      *renewals.Gatherer
	subscriptions *transport.Subscriptions
	listener      atomic.Pointer[listener] // nil if nobody listens
	clocks        clocks
	opened        opened
	incarnations  *incarnations
	looks         atomic.Bool // the store has begun to look at the server
	roll          roll
	identity      identity
}

// start sets up the parts that carry calls and messages.
func (s *Store) start() {
	s.families = families(s)
	s.countReplicas()
	s.subscriptions = transport.NewSubscriptions(s.servers)
	s.lanes = transport.NewLanes(s.servers, func() transport.Packer[transport.Item] { return (&packer{store: s}).pack })
	s.gathered = &renewals.Gatherer{BySlot: s.room.Cluster(), Send: s.renew}
	// A reset may have freed locks, and the end of a grace period does: wake all waiters.
	s.incarnations.on(&hook{
		reset: func(lockagent.Reset) { s.subscriptions.Again() },
		grace: func(p lockagent.GracePeriod) {
			if p.Ended != 0 {
				s.subscriptions.Again()
			}
		},
	})
}

// slot is the hash slot of a lock. It is 0 where slots mean nothing.
func (s *Store) slot(name lockagent.Name) uint16 {
	if !s.room.Cluster() {
		return 0
	}
	return hashslot.Of(string(name))
}

// shard is that of the server that serves a slot.
func (s *Store) shard(slot uint16) *shard {
	if s.one != nil {
		return s.one
	}
	home := s.servers.Home(slot)
	if of := s.incarnations.find(home); of != nil {
		return of
	}
	of := s.incarnations.shard(home, true)
	s.found(of)
	return of
}

// incarnate reports whether servers have incarnations. If several are behind one address, nobody knows which answers.
func (s *Store) incarnate() bool { return s.servers.Cluster() || !s.servers.Slotted() }

// OnReset implements [lockagent.Store]. The store calls f for one reset after the other, in
// their order. cancel may be called more than once.
func (s *Store) OnReset(f func(lockagent.Reset)) (cancel func()) {
	return s.incarnations.on(&hook{reset: f})
}

// RemembersSince implements [lockagent.History]. A Cluster, or several servers behind one address, cannot tell.
func (s *Store) RemembersSince() time.Time { return s.incarnations.remembersSince() }

// Queues implements [lockagent.Queue]. It is false for several servers behind one address.
func (s *Store) Queues() bool { return s.room.Queues() }

// Rests implements [lockagent.Rests]. Tenures may rest where locks have queues.
func (s *Store) Rests() bool { return s.room.Queues() }

// Close implements [lockagent.Store]. It waits for the store's goroutines, and always
// returns nil. A function that the store calls, such as done or wake, must not call Close.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.gathered.Close()
		s.endRoll()
		s.end()
		s.servers.Close()
		s.runs.Wait()
	})
	return nil
}
