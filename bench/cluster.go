package main

import (
	"context"
	"fmt"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// clusterNodes is how many masters the Cluster has.
const clusterNodes = 3

// onLoneServer is the row of what lockagent does on a lone server.
const onLoneServer = contender.Lockagent + ", lone server"

// cluster measures lockagent on a Cluster beside lockagent on a lone server, where locks are
// contended for.
func (b *bench) cluster(ctx context.Context) error {
	t := &table{
		Name:  "cluster",
		Title: fmt.Sprintf("Contended locks on a Cluster of %d nodes, beside a lone server", clusterNodes),
		Columns: []column{
			{Key: "one-64", Title: "one lock, 64 goroutines: grants/s"},
			{Key: "x-one-64", Title: "x lone server", Spread: true},
			{Key: "one-8x8", Title: "8 processes x 8: grants/s"},
			{Key: "x-one-8x8", Title: "x lone server", Spread: true},
			{Key: "handoff", Title: "hand-off p50 µs"},
			{Key: "x-handoff", Title: "x lone server"},
			{Key: "failed", Title: "failed"},
		},
		Notes: []string{
			"The ratios are of times, so less is better: of the time between two grants, and of a hand-off between two " +
				"processes. Rounds, and hand-offs, alternate between the Cluster and the lone server. All nodes share the " +
				"machine's cores.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	lone, err := startServer()
	if err != nil {
		return err
	}
	defer lone.stop()
	nodes, err := startCluster(clusterNodes)
	if err != nil {
		return err
	}
	defer nodes.stop()
	kind, _ := contender.Named(contender.Lockagent)
	onLone, onCluster := newSeries(), newSeries()
	for _, c := range []crowd{oneProcess, eightProcesses} {
		for range b.plan.SharedRounds {
			base, err := b.crowd(ctx, lone, c, kind, task{})
			if err != nil {
				return fmt.Errorf("lone server: %s: %w", c.name, err)
			}
			o, err := b.crowd(ctx, nodes, c, kind, task{})
			if err != nil {
				return fmt.Errorf("cluster: %s: %w", c.name, err)
			}
			onLone.add(c.name, base.rate())
			onCluster.add(c.name, o.rate())
			onCluster.add("x-"+c.name, base.rate()/o.rate())
			onLone.failures(base)
			onCluster.failures(o)
		}
	}
	if err := b.clusterHandoffs(ctx, lone, nodes, kind, onLone, onCluster); err != nil {
		return err
	}
	t.Rows = []*row{onLone.row(onLoneServer), onCluster.row(contender.Lockagent)}
	return nil
}

// failures adds the waits of a round that failed.
func (s *series) failures(o *crowdOutcome) {
	s.add("failed", float64(o.Failed))
	if o.Error != "" {
		s.note = o.Error
	}
}

func (b *bench) clusterHandoffs(
	ctx context.Context, lone, nodes *server, kind contender.Kind, onLone, onCluster *series,
) error {
	var all handoffsInTurn
	defer func() { all.end() }()
	for _, s := range []*server{lone, nodes} {
		h := &handoffs{server: s, kind: kind, n: b.plan.HandOffs}
		all = append(all, h)
		var err error
		if h.pair, err = b.startHandoff(ctx, s, kind); err != nil {
			return err
		}
	}
	if err := all.pass(b, ctx, nil); err != nil {
		return err
	}
	for i, found := range []*series{onLone, onCluster} {
		ways := stat.NewHistogram()
		for _, way := range all[i].ways {
			ways.Record(way)
		}
		found.add("handoff", stat.Us(ways.At(50)))
		found.add("failed", float64(all[i].failed))
	}
	onCluster.add("x-handoff", onCluster.values["handoff"][0]/onLone.values["handoff"][0])
	return nil
}
