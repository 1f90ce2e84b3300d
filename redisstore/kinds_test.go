package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
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

// The name was in use as a number lately, and now its key has something that is no string. No kind uses that, so the error must not name the
// kind that used it before.
func TestANumberThatAnotherTypeReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	ask := func(name lockagent.Name, kind lockagent.LockKind) error {
		req := wish(name, agentA, 1)
		req.Kind = kind
		_, err := storetest.Acquire(t, store, req)
		return err
	}
	for _, used := range []lockagent.LockKind{lockagent.Latch, lockagent.Semaphore, lockagent.Permits} {
		for typ, write := range map[string][]string{"list": {"RPUSH", "", "a"}, "zset": {"ZADD", "", "1", "a"}, "set": {"SADD", "", "a"}} {
			name := lockagent.Name(string(used) + " " + typ)
			if used == lockagent.Latch {
				_, err := latch(t, store, lockagent.LatchRequest{Name: name, Op: lockagent.LatchSet, Count: 2, Change: "set"})
				if err != nil {
					t.Fatal(err)
				}
			} else {
				set := lockagent.PermitsRequest{Name: name, Kind: used, Op: lockagent.TrySetPermits, N: 2, Change: "set"}
				if _, err := storetest.Permits(t, store, set); err != nil {
					t.Fatal(err)
				}
				if err := ask(name, used); err != nil { // so tenures with permits are beside the number, too
					t.Fatal(err)
				}
			}
			write[1] = string(name)
			server.Do("DEL", string(name))
			server.Do(write...)
			for _, kind := range kinds {
				if err := ask(name, kind); !errors.Is(err, lockagent.ErrWrongType) {
					t.Errorf("a %s that is a %s by now, as %s: %v; want ErrWrongType", used, typ, kind, err)
				}
			}
		}
	}
}
