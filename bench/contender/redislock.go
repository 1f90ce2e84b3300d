package contender

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var redislockKinds = []Kind{
	{
		Name: "redislock", Family: Redislock, Waits: true,
		Setup: "as its README has it: a go-redis client, tries 100 ms apart, waits of at most 10 s",
		Open:  openRedislock(&redis.Options{}, 100*time.Millisecond),
	},
	{
		Name: "redislock-best", Family: Redislock, Waits: true,
		Setup: "64 connections, so that none of 64 goroutines waits for one, and tries 4 ms apart: faster hand-off for " +
			"more commands",
		Open: openRedislock(&redis.Options{PoolSize: 64}, 4*time.Millisecond),
	},
}

type redisLocker struct {
	conn  *redis.Client
	locks *redislock.Client
	retry time.Duration
}

func openRedislock(options *redis.Options, retry time.Duration) func(context.Context, string) (Contender, error) {
	return func(_ context.Context, addr string) (Contender, error) {
		options := *options
		options.Addr = addr
		conn := redis.NewClient(&options)
		return &redisLocker{conn, redislock.New(conn), retry}, nil
	}
}

type redisHeld struct {
	lock *redislock.Lock
	lost atomic.Bool
}

// Lock relies on the deadline of ctx, of which the library needs one.
func (r *redisLocker) Lock(ctx context.Context, name string) (Held, error) { return r.lock(ctx, name) }

func (r *redisLocker) lock(ctx context.Context, name string) (*redisHeld, error) {
	lock, err := r.locks.Obtain(ctx, name, keptLease, &redislock.Options{RetryStrategy: redislock.LinearBackoff(r.retry)})
	if err != nil {
		return nil, err
	}
	return &redisHeld{lock: lock}, nil
}

// Keep implements [Keeper]: the library renews nothing by itself.
func (r *redisLocker) Keep(ctx context.Context, name string) (Held, error) {
	held, err := r.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	go keep(&held.lost, func() error { return held.lock.Refresh(context.Background(), keptLease, nil) })
	return held, nil
}

func (r *redisLocker) Close() { _ = r.conn.Close() }

func (h *redisHeld) Unlock() error { return h.lock.Release(context.Background()) }
func (h *redisHeld) Lost() bool    { return h.lost.Load() }
