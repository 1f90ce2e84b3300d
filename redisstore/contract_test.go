package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

func TestContract(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		server.Do("FLUSHALL")
		return harness(t, server.URL(), func(string) *redistest.Server { return server })
	})
}

func TestContractInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	for name, sharded := range map[string]redisstore.Sharded{"Sharded": redisstore.ShardedOn, "Classic": redisstore.ShardedOff} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *storetest.Harness {
				for _, node := range cluster.Nodes {
					node.Do("FLUSHALL")
				}
				h := harness(t, cluster.URL(), cluster.NodeOf)
				h.Open = func(t testing.TB) lockagent.Store {
					return openConfig(t, redisstore.Config{Sharded: sharded}, cluster.URL())
				}
				_ = h.Store.Close()
				h.Store = h.Open(t)
				h.Reset = func(testing.TB) {
					for _, node := range cluster.Nodes {
						node.Do("FLUSHALL")
					}
				}
				return h
			})
		})
	}
}

func harness(t *testing.T, url string, nodeOf func(key string) *redistest.Server) *storetest.Harness {
	return &storetest.Harness{
		Store: open(t, url),
		Open:  func(t testing.TB) lockagent.Store { return open(t, url) },
		PlantHolder: func(_ testing.TB, name lockagent.Name, holder string, count int, lease time.Duration) {
			node := nodeOf(string(name))
			node.Do("DEL", string(name))
			node.Do("HSET", string(name), holder, strconv.Itoa(count))
			if lease > 0 {
				node.Do("PEXPIRE", string(name), strconv.FormatInt(lease.Milliseconds(), 10))
			}
		},
		PlantValue: func(_ testing.TB, name lockagent.Name) {
			nodeOf(string(name)).Do("SET", string(name), "something else")
		},
		Reset: func(testing.TB) { nodeOf("").Do("FLUSHALL") },
	}
}

func TestCompare(t *testing.T) {
	server := redistest.Start(t)
	model := memstore.New()
	storetest.Compare(t,
		[2]lockagent.Store{model, model.Share()},
		[2]lockagent.Store{open(t, server.URL()), open(t, server.URL())},
	)
}

// open opens a store that the test's cleanup closes.
func open(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	return openConfig(t, redisstore.Config{}, url)
}

func openConfig(t testing.TB, config redisstore.Config, url string) *redisstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), storetest.Patience)
	defer cancel()
	store, err := config.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
