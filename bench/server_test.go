package main

import (
	"testing"

	"github.com/lockagent/lockagent/internal/redisserver"
)

// What a Cluster has done is what all of its nodes have.
func TestNodesAreCountedTogether(t *testing.T) {
	requireRedis(t)
	s, err := startCluster(clusterNodes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	if mode, err := s.nodes[0].Do("CLUSTER", "INFO"); err != nil || redisserver.Field(mode, "cluster_size") != "3" {
		t.Errorf("it is no Cluster of three: %v, %v", mode, err)
	}
	before, err := s.counts()
	if err != nil {
		t.Fatal(err)
	}
	for _, watch := range s.watches {
		if _, err := watch.Do("EVAL", "return 1", "0"); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.counts()
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Since(before).Scripts(); n != clusterNodes {
		t.Errorf("%d scripts were counted, want %d", n, clusterNodes)
	}
}

func TestServerTimeIsOfScripts(t *testing.T) {
	requireRedis(t)
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	do := func(args ...string) {
		t.Helper()
		if _, err := s.watches[0].Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	side := serverSide{run: func(_, times int) error {
		for range times {
			do("EVAL", "for i = 1, 20000 do redis.call('PING') end", "0") // an acquire
			do("EVAL", "return 1", "0")                                   // and a release
		}
		return nil
	}}
	cost, err := side.measure(s, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	if cost.locks != 4 {
		t.Errorf("%v locks in a call, want 4", cost.locks)
	}
	if cost.usec < 1 {
		t.Errorf("a pair took %v us: that of the scripts is missing", cost.usec)
	}
	side.run = func(_, times int) error {
		do("EVAL", "return 1", "0")
		do("EVAL", "return 1", "0")
		for range 100 {
			do("PING")
		}
		return nil
	}
	other, err := side.measure(s, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if other.locks != 1 {
		t.Errorf("%v locks in a call, want 1: what is no script counts", other.locks)
	}
}
