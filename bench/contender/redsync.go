package contender

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// keptLease is the lease of locks that the benchmark has to keep, and of which it
// renews each when a third has passed. It is the default of lockagent.
const keptLease = 30 * time.Second

var redsyncKinds = []Kind{
	{
		Name: "redsync", Family: Redsync, Waits: true, Sends: []string{"set", "setnx"},
		Setup: "as its README has it: a go-redis pool, 32 tries, 50 to 250 ms apart",
		Open: func(_ context.Context, addr string) (Contender, error) {
			client := redis.NewClient(&redis.Options{Addr: addr})
			return newRedsync(redsyncgoredis.NewPool(client), func() { _ = client.Close() }), nil
		},
	},
	{
		Name: "redsync-best", Family: Redsync, Waits: true, Sends: []string{"set", "setnx"},
		Setup: "a rueidis client with one connection, which pipelines best, tries without end, 2 to 6 ms apart: faster " +
			"hand-off for more commands",
		Open: func(_ context.Context, addr string) (Contender, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{addr}, DisableCache: true, PipelineMultiplex: -1,
			})
			if err != nil {
				return nil, err
			}
			return newRedsync(rueidisPool{client}, client.Close,
				redsync.WithTries(math.MaxInt),
				redsync.WithRetryDelayFunc(func(int) time.Duration { return 2*time.Millisecond + rand.N(4*time.Millisecond) }),
			), nil
		},
	},
}

type redsyncer struct {
	sync  *redsync.Redsync
	opts  []redsync.Option
	close func()
}

func newRedsync(pool redsyncredis.Pool, closePool func(), opts ...redsync.Option) *redsyncer {
	return &redsyncer{redsync.New(pool), opts, closePool}
}

type redsyncHeld struct {
	mutex *redsync.Mutex
	lost  atomic.Bool
}

func (r *redsyncer) Lock(ctx context.Context, name string) (Held, error) {
	return r.lock(ctx, name, r.opts)
}

func (r *redsyncer) lock(ctx context.Context, name string, opts []redsync.Option) (*redsyncHeld, error) {
	mutex := r.sync.NewMutex(name, opts...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return &redsyncHeld{mutex: mutex}, nil
}

// Keep implements [Keeper]: the library renews nothing by itself.
func (r *redsyncer) Keep(ctx context.Context, name string) (Held, error) {
	held, err := r.lock(ctx, name, append(r.opts[:len(r.opts):len(r.opts)], redsync.WithExpiry(keptLease)))
	if err != nil {
		return nil, err
	}
	go keep(&held.lost, func() error {
		ok, err := held.mutex.Extend()
		if err == nil && !ok {
			err = errors.New("redsync: not extended")
		}
		return err
	})
	return held, nil
}

// keep renews until that fails.
func keep(lost *atomic.Bool, renew func() error) {
	for range time.Tick(keptLease / 3) {
		if renew() != nil {
			lost.Store(true)
			return
		}
	}
}

func (r *redsyncer) Close() { r.close() }

func (h *redsyncHeld) Unlock() error {
	ok, err := h.mutex.Unlock()
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}

func (h *redsyncHeld) Lost() bool { return h.lost.Load() }
