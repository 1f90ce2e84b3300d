package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// nodes knows which run of which server each node of a Cluster is. Only look
// uses it.
type nodes struct {
	client       rueidis.Client
	bound        time.Duration // of the questions to one node
	incarnations *incarnations
	known        map[string]node // by address
}

// node is what is known of one node.
type node struct {
	run    string
	master string // the address of the master that it follows; empty if it is one
	at     lockagent.StoreTime
}

// look asks every node who it is, and reports those masters that are not what
// they were: restarted, or the replica of another. A node that is met for the
// first time is taken as it is.
func (n *nodes) look(ctx context.Context) error {
	var failed error
	found := make(map[string]node)
	for addr, client := range n.client.Nodes() {
		now, err := n.lookAt(ctx, client)
		if err != nil {
			println(time.Now().UnixMilli()%100000, "look", addr, err.Error())
			failed = storeError(fmt.Errorf("%s: %w", addr, err))
			if before, ok := n.known[addr]; ok {
				found[addr] = before
			}
			continue
		}
		found[addr] = now
		println(time.Now().UnixMilli()%100000, "look", addr, now.run, now.master, n.known[addr].run, n.known[addr].master)
		before, ok := n.known[addr]
		switch {
		case !ok || now.master != "":
		case before.master != "":
			was := n.known[before.master]
			n.incarnations.report(lockagent.Reset{From: was.run, To: now.run, Reason: "failed over", After: was.at, Before: now.at})
		case before.run != now.run:
			n.incarnations.report(lockagent.Reset{From: before.run, To: now.run, Reason: "restarted", After: before.at, Before: now.at})
		}
	}
	n.known = found
	return failed
}

func (n *nodes) lookAt(ctx context.Context, client rueidis.Client) (node, error) {
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
	found := node{run: infoField(server, "run_id"), at: lockagent.StoreTime(clock[0]*1_000_000 + clock[1])}
	if host := infoField(replication, "master_host"); host != "" {
		found.master = net.JoinHostPort(host, infoField(replication, "master_port"))
	}
	return found, nil
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
