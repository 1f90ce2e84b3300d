package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// wire is how messages travel: to all nodes, or sharded.
type wire interface {
	// node is the address of the node that has the messages of a slot, and empty if any node
	// has them, or none that is known.
	node(slot uint16) string
	// locate finds out anew what node returns, for all slots, but takes special
	// care of that of a lock, unless its name is empty. If it cannot, it leaves it as
	// it was: it is called again when there is no connection to that node.
	locate(ctx context.Context, lock lockagent.Name)
	// connect opens a connection to a node.
	connect(at string) (rueidis.DedicatedClient, error)
	subscribe(b rueidis.Builder, channel string) rueidis.Completed
	unsubscribe(b rueidis.Builder, channel string) rueidis.Completed
}

// classicWire is that of PUBLISH and SUBSCRIBE. A Cluster carries such messages to
// all of its nodes.
type classicWire struct{ client rueidis.Client }

func (classicWire) node(uint16) string { return "" }

func (classicWire) locate(context.Context, lockagent.Name) {}

func (w classicWire) connect(string) (rueidis.DedicatedClient, error) {
	conn, _ := w.client.Dedicate() // closed rather than given back: it may have subscriptions
	return conn, nil
}

func (classicWire) subscribe(b rueidis.Builder, channel string) rueidis.Completed {
	return b.Subscribe().Channel(channel).Build()
}

func (classicWire) unsubscribe(b rueidis.Builder, channel string) rueidis.Completed {
	return b.Unsubscribe().Channel(channel).Build()
}

// shardedWire is that of SPUBLISH and SSUBSCRIBE: the messages of a slot stay with
// the node that has it.
type shardedWire struct {
	client rueidis.Client
	// ask makes any call about a lock. If its slot has moved, the client learns of
	// the node that has it now, which it may not have known.
	ask func(lockagent.Name)

	mu     sync.Mutex // guards what follows
	owners []owner    // in the order of the slots
}

// owner is the master that has some slots.
type owner struct {
	first, last uint16
	addr        string
}

func (w *shardedWire) node(slot uint16) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := slices.BinarySearchFunc(w.owners, slot, func(o owner, slot uint16) int {
		switch {
		case o.last < slot:
			return -1
		case o.first > slot:
			return 1
		}
		return 0
	})
	if !found {
		return ""
	}
	return w.owners[i].addr
}

// locate asks every node which slots it has. The client knows too, but does not
// tell; and a node's word for itself needs no address of its own.
func (w *shardedWire) locate(ctx context.Context, lock lockagent.Name) {
	if lock != "" {
		w.ask(lock)
	}
	var owners []owner
	for addr, node := range w.client.Nodes() {
		text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
		if err == nil {
			owners = append(owners, ownedBy(addr, text)...)
		}
	}
	if len(owners) == 0 {
		return
	}
	slices.SortFunc(owners, func(a, b owner) int { return int(a.first) - int(b.first) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners = owners
}

// ownedBy reads what a node says of itself in its reply to CLUSTER NODES. A line
// of that has an id, an address, flags, five more fields, and the slots: "5",
// "7-99", or one in brackets that is on its way.
func ownedBy(addr, text string) (owners []owner) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") || !strings.Contains(fields[2], "master") {
			continue
		}
		for _, r := range fields[8:] {
			from, to, isRange := strings.Cut(r, "-")
			if !isRange {
				to = from
			}
			first, err := strconv.ParseUint(from, 10, 16)
			last, err2 := strconv.ParseUint(to, 10, 16)
			if err == nil && err2 == nil {
				owners = append(owners, owner{first: uint16(first), last: uint16(last), addr: addr})
			}
		}
	}
	return owners
}

var errNoNode = errors.New("no node of the Cluster is known to have the slot")

func (w *shardedWire) connect(at string) (rueidis.DedicatedClient, error) {
	node := w.client.Nodes()[at]
	if node == nil {
		return nil, errNoNode
	}
	conn, _ := node.Dedicate() // closed rather than given back: it may have subscriptions
	return conn, nil
}

func (*shardedWire) subscribe(b rueidis.Builder, channel string) rueidis.Completed {
	return b.Ssubscribe().Channel(channel).Build()
}

func (*shardedWire) unsubscribe(b rueidis.Builder, channel string) rueidis.Completed {
	return b.Sunsubscribe().Channel(channel).Build()
}
