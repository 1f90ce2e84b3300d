package transport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// Item is what an owner asks for. A packer makes calls of items that travel together.
type Item interface {
	// Refuse answers an item that is not going to be packed. It must not block.
	Refuse(err error)
}

// Packer makes calls of items. The order of the calls is the order in which the server
// makes them. Where [Servers.Slotted] is true, all keys of a call are in one slot.
//
// Each lane has a packer, which it uses for one batch at a time. Calls of earlier batches
// may be being answered meanwhile. The slice of items is the lane's again when the packer
// has returned, and the slice of calls is the packer's when it is used again.
type Packer[I Item] func(items []I) []*Call

// Lanes carry calls to the servers. Each server has one lane, so that one that does not
// answer holds up no calls to others. While a lane makes an exchange, what comes gathers, and
// travels together: when the exchange is over, or as soon as it is as much as is under way. What comes
// alone leaves at once.
//
// Every call is answered within [Config.Call] of its coming. [NewLanes] makes Lanes; the
// zero Lanes are of no use.
type Lanes[I Item] struct {
	servers   *Servers
	newPacker func() Packer[I]
	quick     time.Duration // an exchange is left to a caller if the last one took less

	mu    sync.RWMutex // guards lanes
	lanes map[*Node]*lane[I]
}

// NewLanes returns the lanes to servers, which close them. Each lane has a packer of its
// own. There is one call of NewLanes for Servers.
func NewLanes[I Item](s *Servers, newPacker func() Packer[I]) *Lanes[I] {
	l := &Lanes[I]{servers: s, newPacker: newPacker, quick: quick, lanes: make(map[*Node]*lane[I])}
	s.register(l.retired, l.close)
	return l
}

// Add gives an item to the lane of whoever serves a slot. It does not wait. If ctx came
// with an errand, the exchange may be left to the caller; nothing else of ctx is used.
func (l *Lanes[I]) Add(ctx context.Context, slot uint16, item I) {
	l.add(ctx, entry[I]{item: item, slot: slot, made: time.Now()})
}

// Send gives a call to the lane of whoever serves its slot. It does not wait.
func (l *Lanes[I]) Send(c *Call) {
	c.made, c.asking, c.tries = time.Now(), false, 0
	l.add(l.servers.life, entryOf[I](c))
}

func entryOf[I Item](c *Call) entry[I] { return entry[I]{call: c, slot: c.Slot, made: c.made} }

func (l *Lanes[I]) add(ctx context.Context, e entry[I]) {
	for {
		node := l.servers.Master(e.slot)
		if node == nil {
			l.servers.Doubt()
			e.refuse(fmt.Errorf("%w: no node of the Cluster is known to serve slot %d", lockagent.ErrStoreUnavailable, e.slot))
			return
		}
		if lane := l.lane(node); lane != nil && lane.put(ctx, e) {
			return
		}
		if l.servers.life.Err() != nil {
			e.refuse(lockagent.ErrClosed)
			return
		}
		// The node was retired just now. The table says by whom it is replaced.
	}
}

// addAll adds what waited in a lane before.
func (l *Lanes[I]) addAll(waiting []entry[I]) {
	each(len(waiting), func(i int) { l.add(l.servers.life, waiting[i]) })
}

// lane returns the lane of a node, which may be new, or nil if there cannot be one any
// more.
func (l *Lanes[I]) lane(n *Node) *lane[I] {
	l.mu.RLock()
	lane := l.lanes[n]
	l.mu.RUnlock()
	if lane != nil {
		return lane
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.life.Err() != nil { // which comes before retired, and before close
		return nil
	}
	if lane = l.lanes[n]; lane == nil {
		lane = newLane(l, n)
		l.lanes[n] = lane
	}
	return lane
}

// resend has a call made by a node, unless there is not enough time left.
func (l *Lanes[I]) resend(c *Call, to *Node) bool {
	if time.Since(c.made) > l.servers.config.Call/2 {
		return false
	}
	lane := l.lane(to)
	return lane != nil && lane.put(l.servers.life, entryOf[I](c))
}

// retired closes the lane of a node. What waits there goes to whoever serves now.
func (l *Lanes[I]) retired(n *Node) {
	l.mu.Lock()
	lane := l.lanes[n]
	delete(l.lanes, n)
	l.mu.Unlock()
	if lane == nil {
		return
	}
	if waiting := lane.close(); len(waiting) > 0 {
		l.servers.runs.Go(func() { l.addAll(waiting) }) // because some may have to be refused
	}
}

// close answers what waits. What is under way ends with the life of the servers.
func (l *Lanes[I]) close() {
	l.mu.Lock()
	lanes := l.lanes
	l.lanes = nil
	l.mu.Unlock()
	for _, lane := range lanes {
		waiting := lane.close()
		each(len(waiting), func(i int) { waiting[i].refuse(lockagent.ErrClosed) })
	}
}

// each answers all of n, one after the other, also if one of them ends the goroutine.
func each(n int, answer func(i int)) {
	i := 0
	defer func() {
		if rest := i + 1; rest < n {
			each(n-rest, func(i int) { answer(rest + i) })
		}
	}()
	for ; i < n; i++ {
		answer(i)
	}
}
