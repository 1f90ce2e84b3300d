package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// Some kinds look alike in Redis, so no store can refuse a name that two agents use as two of them. Who waits for a plain lock gets it
// when the other kind is released, and not when it asks again, which is after ten seconds. So many rounds would take too long.
func TestAPlainWaiterBehindAnotherKind(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for title, c := range map[string]struct {
		url     string
		nodes   []*redistest.Server
		sharded redisstore.Sharded
	}{
		"one server": {server.URL(), []*redistest.Server{server}, redisstore.ShardedAuto},
		"sharded":    {cluster.URL(), cluster.Nodes, redisstore.ShardedOn},
		"classic":    {cluster.URL(), cluster.Nodes, redisstore.ShardedOff},
	} {
		open := func() *channelapi.Locks {
			locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, redisstore.Config{Sharded: c.sharded}, c.url)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = locks.Close() })
			return locks
		}
		ours, theirs := open(), open()
		for kind, other := range map[string]func(string, ...channelapi.Option) *channelapi.Lock{"spin": theirs.SpinLock, "fair": theirs.FairLock} {
			t.Run(title+"/"+kind, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				name := title + " " + kind
				for range 8 {
					held, err := other(name).Acquire(ctx)
					if err != nil {
						t.Fatal(err)
					}
					waiter := ours.Lock(name).AcquireAsync(ctx)
					redistest.Eventually(t, "a place in the queue", func() bool {
						for _, node := range c.nodes {
							for _, key := range node.Do("KEYS", "lockagent_queue*").([]any) {
								if key == "lockagent_queue:{"+name+"}" {
									return true
								}
							}
						}
						return false
					})
					if err := held.Release(ctx); err != nil {
						t.Fatal(err)
					}
					got := <-waiter
					if err := got.Err(); err != nil {
						t.Fatal(err)
					}
					if err := got.Release(ctx); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
