package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// An agent of an earlier version does not show in Redis as which kind it has a lock. Who waits for a plain lock gets it
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
					showNothing(c.nodes, name)
					waiter := ours.Lock(name).AcquireAsync(ctx)
					waittest.Until(t, "a place in the queue", func() bool {
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

// showNothing makes the holder of a lock write what an agent of an earlier version does, which shows no kind.
func showNothing(nodes []*redistest.Server, name string) {
	for _, node := range nodes {
		if len(node.Do("KEYS", name).([]any)) == 0 {
			continue // another node has it
		}
		for _, field := range node.Do("HKEYS", name).([]any) {
			node.Do("HSET", name, field.(string), "1")
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

// Agents that contend for one name as several kinds are told so. Otherwise one kind would keep the others waiting for as long as it contends.
func TestWaitersOfTwoKinds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *channelapi.Locks {
		locks, err := channelapi.New(channelapi.Config{Store: openConfig(t, redisstore.Config{}, server.URL())})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		return locks
	}
	holder, one, two := open(), open(), open()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for _, c := range []struct {
		first, second func(*channelapi.Locks, string) *channelapi.Lock
		places        string
		want          channelapi.KindError
	}{
		{fairLock, plainLock, "lockagent_places", channelapi.KindError{Name: "fair, plain", Kind: lockagent.PlainLock, Used: lockagent.FairLock}},
		{fairLock, spinLock, "lockagent_places", channelapi.KindError{Name: "fair, spin", Kind: lockagent.SpinLock, Used: lockagent.FairLock}},
		{plainLock, fairLock, "lockagent_queue", channelapi.KindError{Name: "plain, fair", Kind: lockagent.FairLock, Used: lockagent.PlainLock}},
		{plainLock, spinLock, "lockagent_queue", channelapi.KindError{Name: "plain, spin", Kind: lockagent.SpinLock, Used: lockagent.PlainLock}},
	} {
		name := string(c.want.Name)
		held, err := holder.Lock(name).Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		showNothing([]*redistest.Server{server}, name)
		waiter := c.first(one, name).AcquireAsync(ctx)
		waittest.Until(t, "a place in the queue", func() bool { return server.Do("EXISTS", c.places+":{"+name+"}") == int64(1) })
		_, err = c.second(two, name).Acquire(ctx)
		if told, _ := errors.AsType[*channelapi.KindError](err); told == nil || *told != c.want {
			t.Errorf("error %v, want %v", err, &c.want)
		}
		for _, g := range []func() (channelapi.Grant, error){
			func() (channelapi.Grant, error) { return held, held.Err() },
			func() (channelapi.Grant, error) { g := <-waiter; return g, g.Err() },
			func() (channelapi.Grant, error) { return c.second(two, name).Acquire(ctx) }, // nobody uses the name any more
		} {
			grant, err := g()
			if err != nil {
				t.Fatal(err)
			}
			if err := grant.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func plainLock(l *channelapi.Locks, name string) *channelapi.Lock { return l.Lock(name) }
func fairLock(l *channelapi.Locks, name string) *channelapi.Lock  { return l.FairLock(name) }
func spinLock(l *channelapi.Locks, name string) *channelapi.Lock  { return l.SpinLock(name) }
