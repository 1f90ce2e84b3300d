package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// nodes knows the run of each node of a Cluster. Only look uses it, on one goroutine.
type nodes struct {
	servers      *transport.Servers
	bound        time.Duration // of the questions to one node
	incarnations *incarnations
	known        map[string]node // by address
}

// node is what is known of one node.
type node struct {
	run    string
	master bool
	// history is the replication id of the node's data. A replica that becomes the master gives
	// its data a new id. Then before is the id that the data had under the former master.
	history, before string
	at              lockagent.StoreTime // when it said so
	// gone says that it is not a master any more, and that its successor is not known yet.
	gone bool
}

// look asks every master of the table who it is, and reports two kinds of resets. A master that
// is in another run was restarted. A master that was a replica is the result of a failover, unless
// it was so already when look met it for the first time. A master that never was a replica is no
// reset. A master that the user may not ask is passed over.
func (n *nodes) look(ctx context.Context) error {
	var failed error
	found := make(map[string]node)
	for _, master := range n.servers.Masters() {
		now, err := n.lookAt(ctx, master)
		if err != nil {
			err = transport.Error(fmt.Errorf("%s: %w", master.Addr(), err))
			if errors.Is(err, lockagent.ErrNotPermitted) {
				n.incarnations.connected(master.Connected()) // nobody sees whether it was restarted before
			} else {
				failed = err
			}
			continue
		}
		found[master.Addr()] = now
	}
	first := len(n.known) == 0
	for addr, known := range n.known {
		now, met := found[addr]
		switch {
		case met && (now.master || !known.master):
			continue
		case met, failed == nil: // otherwise it may be the one that did not answer
			known.gone = known.master
		}
		found[addr] = known // until its successor is known
	}
	for addr, now := range found {
		known, met := n.known[addr]
		switch {
		case !now.master || now.gone || first:
		case met && known.master && !known.gone:
			if known.run != now.run {
				n.report("restarted", known, now)
			}
		case met || now.wasReplica():
			old := n.replacedBy(now, found)
			if old == "" && !met {
				// The old master may not have answered, or not have heard of its successor.
				now.master = false
				found[addr] = now
				failed = errSuccession
				continue
			}
			n.report("failed over", n.known[old], now)
			if found[old].gone {
				delete(found, old)
			}
		}
	}
	n.known = found
	return failed
}

// errSuccession has look called again soon.
var errSuccession = errors.New("a node has taken over from a master that is not known yet")

// wasReplica reports whether the node was a replica before it was a master.
func (n node) wasReplica() bool { return strings.Trim(n.before, "0") != "" }

// replacedBy is the address of the known master from which a new one has taken over, or "". That is
// the master of the data that the new one had before. The data get another id with their first
// replica, so it may also be a master that is gone.
func (n *nodes) replacedBy(now node, found map[string]node) (old string) {
	for addr, known := range n.known {
		switch {
		case !known.master:
		case known.history == now.before:
			return addr
		case found[addr].gone:
			old = addr
		}
	}
	return old
}

func (n *nodes) report(reason string, old, now node) {
	n.incarnations.report(lockagent.Reset{From: old.run, To: now.run, Reason: reason, After: old.at, Before: now.at})
}

func (n *nodes) lookAt(ctx context.Context, at *transport.Node) (node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.bound)
	defer cancel()
	replies := at.AskAll(ctx, []string{"INFO", "server"}, []string{"INFO", "replication"}, []string{"TIME"})
	server, err := replies[0].Text()
	if err != nil {
		return node{}, err
	}
	replication, err := replies[1].Text()
	if err != nil {
		return node{}, err
	}
	clock, err := replies[2].Items()
	if err != nil {
		return node{}, err
	}
	if len(clock) != 2 {
		return node{}, fmt.Errorf("time %v", clock)
	}
	seconds, err := clock[0].Number()
	micros, err2 := clock[1].Number()
	if err != nil || err2 != nil {
		return node{}, fmt.Errorf("time %v", clock)
	}
	return node{
		run:     infoField(server, "run_id"),
		master:  infoField(replication, "role") == "master",
		history: infoField(replication, "master_replid"),
		before:  infoField(replication, "master_replid2"),
		at:      lockagent.StoreTime(seconds*1_000_000 + micros),
	}, nil
}

// infoField returns one field of an INFO reply, or "" if it is not there.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
