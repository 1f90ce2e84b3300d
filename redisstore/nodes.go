package redisstore

import (
	"context"
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
	// history is the replication id of the node's data. A replica that takes over as the master
	// gives its data a new id. before is then the id that they had under the master before it.
	history, before string
	at              lockagent.StoreTime // when it said so
}

// look asks every master of the table who it is, and reports two kinds of resets. A master that
// is in another run was restarted. A master that was a replica, or has taken over from a known
// master, is the result of a failover. Any other node that look meets for the first time is no
// reset.
func (n *nodes) look(ctx context.Context) error {
	var failed error
	found := make(map[string]node)
	for _, master := range n.servers.Masters() {
		addr := master.Addr()
		now, err := n.lookAt(ctx, master)
		known, met := n.known[addr]
		if err != nil {
			failed = transport.Error(fmt.Errorf("%s: %w", addr, err))
			continue
		}
		found[addr] = now
		switch {
		case !now.master:
		case known.master && known.run != now.run:
			n.report("restarted", known, now)
		case !known.master:
			if old := n.replacedBy(now); met || old.master {
				n.report("failed over", old, now)
			}
		}
	}
	if failed != nil { // a node that did not answer may have the data of a master that is gone: keep that
		for addr, known := range n.known {
			if _, met := found[addr]; !met {
				found[addr] = known
			}
		}
	}
	n.known = found
	return failed
}

// replacedBy is the known master from which a new one has taken over, or the zero node. That is the
// master of the data that the new one had before. The data get another id with their first replica,
// so it may also be a master that is not in the table any more.
func (n *nodes) replacedBy(now node) (gone node) {
	if strings.Trim(now.before, "0") == "" {
		return node{} // it was never a replica
	}
	present := make(map[string]bool)
	for _, master := range n.servers.Masters() {
		present[master.Addr()] = true
	}
	for addr, known := range n.known {
		switch {
		case !known.master:
		case known.history == now.before:
			return known
		case !present[addr]:
			gone = known
		}
	}
	return gone
}

func (n *nodes) report(reason string, old, now node) {
	n.incarnations.report(lockagent.Reset{From: old.run, To: now.run, Reason: reason, After: old.at, Before: now.at})
}

func (n *nodes) lookAt(ctx context.Context, at *transport.Node) (node, error) {
	client := at.Client()
	ctx, cancel := context.WithTimeout(ctx, n.bound)
	defer cancel()
	b := client.B()
	replies := client.DoMulti(ctx,
		b.Info().Section("server").Build(),
		b.Info().Section("replication").Build(),
		b.Time().Build(),
	)
	server, err := replies[0].ToString()
	if err != nil {
		return node{}, err
	}
	replication, err := replies[1].ToString()
	if err != nil {
		return node{}, err
	}
	clock, err := replies[2].AsIntSlice()
	if err != nil {
		return node{}, err
	}
	if len(clock) != 2 {
		return node{}, fmt.Errorf("time %v", clock)
	}
	return node{
		run:     infoField(server, "run_id"),
		master:  infoField(replication, "role") == "master",
		history: infoField(replication, "master_replid"),
		before:  infoField(replication, "master_replid2"),
		at:      lockagent.StoreTime(clock[0]*1_000_000 + clock[1]),
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
