package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// otherWays are the settings, and the commands of a program that hears the other way alone.
var otherWays = []struct {
	sharded            redisstore.Sharded
	subscribe, publish string
}{
	{redisstore.ShardedAuto, "SUBSCRIBE", "PUBLISH"},
	{redisstore.ShardedOff, "SSUBSCRIBE", "SPUBLISH"},
}

// locksWithSetting opens locks whose messages travel as a setting says.
func locksWithSetting(t *testing.T, cluster *redistest.Cluster, sharded redisstore.Sharded) *channelapi.Locks {
	t.Helper()
	locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, redisstore.Config{Sharded: sharded}, cluster.URL()), Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// A program may hear only the other way. It hears of all that it may wait for.
func TestMessagesGoBothWays(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	for _, way := range otherWays {
		messagesGoBothWays(t, cluster, locksWithSetting(t, cluster, way.sharded), way.subscribe)
	}
	// A service of several servers behind one address. Programs of Java may know its nodes.
	cluster = redistest.StartCluster(t, 1)
	locks, err := channelapi.New(channelapi.Config{Store: open(t, "redis://"+service(t, cluster.Nodes[0])), Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	messagesGoBothWays(t, cluster, locks, "SSUBSCRIBE")
}

func messagesGoBothWays(t *testing.T, cluster *redistest.Cluster, locks *channelapi.Locks, subscribe string) {
	const place = "33333333-3333-4333-8333-333333333333:7"
	had := func(lock *channelapi.Lock) func(context.Context) error {
		return func(ctx context.Context) error {
			return lock.Do(ctx, func(context.Context, channelapi.Grant) error { return nil })
		}
	}
	broken := func(lock *channelapi.Lock) func(context.Context) error {
		return func(ctx context.Context) error {
			held, err := lock.Acquire(ctx)
			if err != nil {
				return err
			}
			_, err = lock.Break(ctx, "test")
			<-held.Context(ctx).Done()
			return err
		}
	}
	for _, c := range []struct {
		what, channel, payload string
		do                     func(context.Context) error
	}{
		{"plain", "redisson_lock__channel:{plain}", "0", had(locks.Lock("plain"))},
		{"plain broken", "redisson_lock__channel:{plain}", "0", broken(locks.Lock("plain"))},
		{"fenced", "redisson_lock__channel:{fenced}", "0", had(locks.FencedLock("fenced"))},
		{"read", "redisson_rwlock:{door}", "0", had(locks.ReadLock("door"))},
		{"write", "redisson_rwlock:{door}", "1", had(locks.WriteLock("door"))},
		{"write broken", "redisson_rwlock:{door}", "1", broken(locks.WriteLock("door"))},
		{"semaphore", "redisson_sc:{pool}", "3", func(ctx context.Context) error { _, err := locks.Semaphore("pool").AddPermits(ctx, 3); return err }},
		{"semaphore released", "redisson_sc:{pool}", "3", func(ctx context.Context) error {
			return locks.Semaphore("pool").Do(ctx, 2, func(context.Context, channelapi.Grant) error { return nil })
		}},
		{"semaphore deleted", "redisson_sc:{pool}", "0", func(ctx context.Context) error {
			_, err := locks.Semaphore("pool").Delete(ctx)
			return err
		}},
		{"permits", "redisson_sc:{seats}", "2", func(ctx context.Context) error { _, err := locks.Permits("seats").AddPermits(ctx, 2); return err }},
		{"latch set", "redisson_countdownlatch__channel__{start}", "01", func(ctx context.Context) error { return locks.Latch("start").Set(ctx, 1) }},
		{"latch", "redisson_countdownlatch__channel__{start}", "00", func(ctx context.Context) error {
			_, err := locks.Latch("start").CountDown(ctx)
			return err
		}},
		{"fair", "redisson_lock__channel:{queue}:" + place, "0", func(ctx context.Context) error {
			return locks.FairLock("queue").Do(ctx, func(context.Context, channelapi.Grant) error {
				node := cluster.NodeOf("queue")
				node.Do("RPUSH", "redisson_lock_queue:{queue}", place)
				node.Do("ZADD", "redisson_lock_timeout:{queue}", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), place)
				return nil
			})
		}},
	} {
		node := cluster.NodeOf(c.channel)
		waiter := node.Dial()
		if _, err := waiter.Do(subscribe, c.channel); err != nil {
			t.Fatal(err)
		}
		if err := c.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		message, err := waiter.Receive()
		if parts, _ := message.([]any); err != nil || len(parts) != 3 || parts[2] != c.payload {
			t.Errorf("%s, %s: heard %v, %v; want %q", subscribe, c.what, message, err, c.payload)
		}
		waiter.Close()
	}
	for _, node := range cluster.Nodes {
		node.Do("FLUSHALL")
	}
}

// A program may publish only the other way. Agents hear it.
func TestAgentsHearBothWays(t *testing.T) {
	t.Parallel()
	redistest.NeedsSharded(t)
	cluster := redistest.StartCluster(t, 3)
	for _, way := range otherWays {
		store := openConfig(t, redisstore.Config{Sharded: way.sharded}, cluster.URL())
		for kind, channel := range map[lockagent.LockKind]string{
			lockagent.PlainLock: "redisson_lock__channel", lockagent.FencedLock: "redisson_lock__channel", lockagent.ReadWriteLock: "redisson_rwlock",
			lockagent.Semaphore: "redisson_sc", lockagent.Permits: "redisson_sc", lockagent.Latch: "redisson_countdownlatch__channel_",
		} {
			name := lockagent.Name("hear " + string(kind))
			channel += ":{" + string(name) + "}"
			if kind == lockagent.Latch {
				channel = "redisson_countdownlatch__channel__{" + string(name) + "}"
			}
			woken := make(chan bool, 100)
			defer store.Subscribe(name, kind, func() { woken <- true })()
			<-woken
			node := cluster.NodeOf(string(name))
			waittest.Until(t, way.publish+" to wake who waits for "+string(kind), func() bool {
				for len(woken) > 0 {
					<-woken
				}
				node.Do(way.publish, channel, "0")
				select {
				case <-woken:
					return true
				case <-time.After(10 * time.Millisecond):
					return false
				}
			})
		}
	}
}

// Agents with different settings contend, as while a setting is changed in a fleet. All of them have turns, and no
// two hold a lock.
func TestAgentsWithDifferentSettings(t *testing.T) {
	t.Parallel()
	const goroutines, turns = 2, 3
	cluster := redistest.StartCluster(t, 3)
	agents := []*channelapi.Locks{
		locksWithSetting(t, cluster, redisstore.ShardedOn), locksWithSetting(t, cluster, redisstore.ShardedOn), locksWithSetting(t, cluster, redisstore.ShardedOff),
	}
	if _, err := agents[0].Semaphore("semaphore").AddPermits(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	type work func(context.Context, func(context.Context, channelapi.Grant) error) error
	for kind, of := range map[string]func(*channelapi.Locks) work{
		"plain": func(l *channelapi.Locks) work { return l.Lock("plain").Do },
		"fair":  func(l *channelapi.Locks) work { return l.FairLock("fair").Do },
		"write": func(l *channelapi.Locks) work { return l.WriteLock("write").Do },
		"semaphore": func(l *channelapi.Locks) work {
			return func(ctx context.Context, f func(context.Context, channelapi.Grant) error) error {
				return l.Semaphore("semaphore").Do(ctx, 1, f)
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var contenders sync.WaitGroup
			var within atomic.Int32
			left := make([]atomic.Int32, len(agents)*goroutines)
			for i := range left {
				left[i].Store(turns)
				do := of(agents[i%len(agents)])
				contenders.Go(func() {
					for ctx.Err() == nil {
						err := do(ctx, func(context.Context, channelapi.Grant) error {
							if within.Add(1) != 1 {
								t.Error("two hold the lock")
							}
							left[i].Add(-1)
							within.Add(-1)
							return nil
						})
						if err != nil && ctx.Err() == nil {
							t.Errorf("agent %d: %v", i%len(agents), err)
							return
						}
					}
				})
			}
			defer func() {
				for i := range left {
					if n := left[i].Load(); n > 0 {
						t.Errorf("a goroutine of agent %d has %d turns to go", i%len(agents), n)
					}
				}
			}()
			waittest.Until(t, "all to have had their turns", func() bool {
				for i := range left {
					if left[i].Load() > 0 {
						return false
					}
				}
				return true
			})
			stop()
			contenders.Wait()
		})
	}
}
