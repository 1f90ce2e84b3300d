package transport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// Item is something that the store asks for. A [Packer] makes calls of items that travel
// together: for example, one call of a script that acquires ten locks, of ten items.
type Item interface {
	// Refuse answers an item that is not going to be packed. It must not block.
	Refuse(err error)
}

// Packer makes calls of items. The server makes the calls in their order. Where
// [Servers.Slotted] is true, all keys of a call are in one slot.
//
// Each track of a lane has a packer of its own, and uses it for one batch at a time. While a
// packer runs, calls of earlier batches may still be answered. The packer must not keep the
// slice of items. The lane uses the slice of calls until the packer runs again.
type Packer[I Item] func(items []I) []*Call

// Lanes carry calls to the servers. Each server has one lane, so a server that does not
// answer delays no calls to the others. A call that finds its lane idle leaves at once. Calls
// that find it busy gather. They travel together when the exchange under way is over, or when
// as many have gathered as are under way, see [worthwhile].
//
// Every call is answered within [Config.Call] after it was added. [NewLanes] makes Lanes; the
// zero Lanes are of no use.
type Lanes[I Item] struct {
	servers   *Servers
	newPacker func() Packer[I]

	mu    sync.RWMutex // guards lanes
	lanes map[*Node]*lane[I]
}

// NewLanes returns the lanes to servers. They end when the servers are closed. Call it once for
// Servers. newPacker is called for each track of each lane.
func NewLanes[I Item](s *Servers, newPacker func() Packer[I]) *Lanes[I] {
	l := &Lanes[I]{servers: s, newPacker: newPacker, lanes: make(map[*Node]*lane[I])}
	s.register(l.retired, l.close)
	return l
}

// Add gives an item to the lane of the node that serves a slot. It does not wait, unless the caller is there in person,
// see package inperson. If nobody else has business with that node, Add then makes the exchange, and answers the item
// before it returns. The end of ctx ends that exchange, and costs its connection, which nobody else uses. Nothing else
// of ctx matters.
func (l *Lanes[I]) Add(ctx context.Context, slot uint16, item I) {
	l.add(ctx, entry[I]{item: item, slot: slot, made: time.Now()})
}

// Send gives a call to the lane of the node that serves its slot. It does not wait.
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
			e.refuse(fmt.Errorf("%w: no node of the Cluster is known to serve slot %d",
				lockagent.ErrStoreUnavailable, e.slot))
			return
		}
		if lane := l.lane(node); lane != nil && lane.put(ctx, e) {
			return
		}
		if l.servers.life.Err() != nil {
			e.refuse(lockagent.ErrClosed)
			return
		}
		// The node was retired just now. The table has its successor.
	}
}

// addAll adds the entries that waited in a closed lane.
func (l *Lanes[I]) addAll(waiting []entry[I]) {
	Each(len(waiting), func(i int) { l.add(l.servers.life, waiting[i]) })
}

// lane returns the lane of a node. If there is none, it makes one, or returns nil if the node
// was given up.
func (l *Lanes[I]) lane(n *Node) *lane[I] {
	l.mu.RLock()
	lane := l.lanes[n]
	l.mu.RUnlock()
	if lane != nil {
		return lane
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.life.Err() != nil { // the life ends before retired and close are called
		return nil
	}
	if lane = l.lanes[n]; lane == nil {
		lane = newLane(l, n)
		l.lanes[n] = lane
	}
	return lane
}

// resend gives a call to the lane of a node. It reports false if the node was given up, or if
// too little time is left for another exchange.
func (l *Lanes[I]) resend(c *Call, to *Node) bool {
	if time.Since(c.made) > l.servers.config.Call/2 {
		return false
	}
	lane := l.lane(to)
	return lane != nil && lane.put(l.servers.life, entryOf[I](c))
}

// retired closes the lane of a node. The calls that wait there go to the node's successor.
func (l *Lanes[I]) retired(n *Node) {
	l.mu.Lock()
	lane := l.lanes[n]
	delete(l.lanes, n)
	l.mu.Unlock()
	if lane == nil {
		return
	}
	if waiting := lane.close(); len(waiting) > 0 {
		l.servers.runs.Go(func() { l.addAll(waiting) }) // because add may refuse some, which calls the store
	}
}

// close refuses the calls that wait. Exchanges under way end with the life of the servers.
func (l *Lanes[I]) close() {
	l.mu.Lock()
	lanes := l.lanes
	l.lanes = nil
	l.mu.Unlock()
	for _, lane := range lanes {
		waiting := lane.close()
		Each(len(waiting), func(i int) { waiting[i].refuse(lockagent.ErrClosed) })
	}
}

// Each calls answer for 0 to n-1, even if one of these calls ends the goroutine.
func Each(n int, answer func(i int)) {
	i := 0
	defer func() {
		if rest := i + 1; rest < n {
			Each(n-rest, func(i int) { answer(rest + i) })
		}
	}()
	for ; i < n; i++ {
		answer(i)
	}
}
