package lockagent_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// openTwins opens two stores on one server. Then it calls before, and starts agents with one identity.
func openTwins(t *testing.T, redis *redistest.Server, before func()) (twins [2]*channelapi.Locks) {
	t.Helper()
	var stores [2]*redisstore.Store
	silent := patient
	silent.Logger = slog.New(slog.DiscardHandler)
	for i := range stores {
		store, err := silent.Open(waittest.Context(t), redis.URL())
		must(t, err)
		t.Cleanup(func() { must(t, store.Close()) })
		stores[i] = store
	}
	before()
	id := channelapi.NewAgentID()
	for i := range twins {
		locks, err := channelapi.New(channelapi.Config{Store: stores[i], ID: id, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		t.Cleanup(func() { _ = locks.Close() })
		twins[i] = locks
	}
	return twins
}

// workTogether has both agents take a lock again and again, until one of them is told that the other one has its
// identity. The other one goes on.
func workTogether(t *testing.T, twins [2]*channelapi.Locks) {
	t.Helper()
	ctx, cancel := context.WithCancel(waittest.Context(t))
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	var inside, together atomic.Int64
	told := make(chan int, len(twins))
	for i, locks := range twins {
		working.Go(func() {
			for ctx.Err() == nil {
				g, err := locks.Lock("door").Acquire(ctx)
				switch {
				case errors.Is(err, channelapi.ErrIdentityInUse):
					told <- i
					return
				case err != nil:
					continue // Redis may be away
				}
				if inside.Add(1) > 1 && g.Held() {
					together.Add(1)
				}
				inside.Add(-1)
				if err := g.Release(context.Background()); err != nil && !errors.Is(err, lockagent.ErrLost) &&
					!errors.Is(err, lockagent.ErrUnconfirmed) && !errors.Is(err, lockagent.ErrIdentityInUse) {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	defer func() {
		if n := together.Load(); n > 0 {
			t.Errorf("both had the lock at once, %d times", n)
		}
	}()
	select {
	case i := <-told:
		g, err := twins[1-i].Lock("desk").Acquire(ctx)
		must(t, err)
		must(t, g.Release(ctx))
	case <-ctx.Done():
		t.Fatal("nobody was told that his identity is in use")
	}
}

// Two agents of a library have one Config.ID. They never have one lock at the same time, and one of them ends: the
// one that came later.
func TestOneIDUsedTwice(t *testing.T) {
	t.Parallel()
	twins := openTwins(t, redistest.Start(t), func() {})
	workTogether(t, twins)
}

// Both agents began while Redis was away. One of them ends when it is back.
func TestOneIDUsedTwiceWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	twins := openTwins(t, redis, redis.Kill)
	redis.Restart()
	workTogether(t, twins)
}
