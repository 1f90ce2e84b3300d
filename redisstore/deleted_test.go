package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// refusing tells when a request has been refused, and its agent knows that somebody waits for what is there.
type refusing struct {
	lockagent.Store
	refused chan lockagent.AcquireRequest

	mu   sync.Mutex // guards wake
	wake func()     // of the latest subscription
}

func (s *refusing) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		done(reply, err)
		switch {
		case reply.Queued || req.Queue && req.Kind == lockagent.Latch && err == nil && !reply.Granted:
			s.refused <- req
		case req.Kind == lockagent.Latch && err == nil && !reply.Granted: // the agent asks again, and says then that it has found the latch closed
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.wake != nil {
				s.wake()
			}
		}
	})
}

func (s *refusing) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) (cancel func()) {
	s.mu.Lock()
	s.wake = wake
	s.mu.Unlock()
	return s.Store.Subscribe(name, kind, wake)
}

// Whoever waits for what somebody deletes gets an error at once, however the messages of either travel. A waiter that had to look for itself
// would do so after seconds, and so many rounds would take too long.
func TestWaitersLearnOfADeletion(t *testing.T) {
	t.Parallel()
	const auto, on, off = redisstore.ShardedAuto, redisstore.ShardedOn, redisstore.ShardedOff
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for title, c := range map[string]struct {
		url              string
		waiting, deletes redisstore.Sharded
	}{
		"one server":                        {server.URL(), auto, auto},
		"sharded":                           {cluster.URL(), on, on},
		"classic":                           {cluster.URL(), off, off},
		"sharded waiters, classic deletion": {cluster.URL(), on, off},
		"classic waiters, sharded deletion": {cluster.URL(), off, on},
	} {
		for kind, of := range map[lockagent.LockKind]func(*channelapi.Locks, string) deleted{
			lockagent.Semaphore: deletedSemaphore, lockagent.Permits: deletedPermits, lockagent.Latch: deletedLatch,
		} {
			t.Run(title+"/"+string(kind), func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				refused := make(chan lockagent.AcquireRequest, 1000) // more than there are
				open := func(sharded redisstore.Sharded) *channelapi.Locks {
					store := openConfig(t, redisstore.Config{Sharded: sharded}, c.url)
					locks, err := channelapi.New(channelapi.Config{Store: &refusing{Store: store, refused: refused}})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = locks.Close() })
					return locks
				}
				deletes := open(c.deletes)
				agents := []*channelapi.Locks{open(c.waiting), open(c.waiting), deletes}
				for round := range 8 {
					name := fmt.Sprintf("%s %s %d", title, kind, round)
					d := of(deletes, name)
					if err := d.use(ctx); err != nil {
						t.Fatal(err)
					}
					var ends []<-chan error
					waits := make(map[lockagent.AgentID]bool)
					for _, agent := range agents {
						ends = append(ends, of(agent, name).await(ctx))
					}
					for len(waits) < len(agents) {
						select {
						case req := <-refused:
							if string(req.Name) == name {
								waits[req.Tenure.Agent] = true
							}
						case <-ctx.Done():
							t.Fatalf("round %d: %d of %d agents wait", round, len(waits), len(agents))
						}
					}
					if existed, err := d.remove(ctx); err != nil || !existed {
						t.Fatalf("Delete = %t, %v", existed, err)
					}
					for i, end := range ends {
						if err := <-end; err == nil || err.Error() != d.want.Error() || !errors.Is(err, d.want) {
							t.Fatalf("round %d: waiter %d ended with %v; want %v", round, i, err, d.want)
						}
					}
				}
			})
		}
	}
}

// deleted is something that agents wait for until somebody deletes it.
type deleted struct {
	use    func(context.Context) error // from now on all others have to wait
	await  func(context.Context) <-chan error
	remove func(context.Context) (bool, error)
	want   error
}

func deletedSemaphore(locks *channelapi.Locks, name string) deleted {
	s := locks.Semaphore(name)
	return deletedPermitsOf(s.TrySetPermits, s.AcquireAsync, s.Delete)
}

func deletedPermits(locks *channelapi.Locks, name string) deleted {
	p := locks.Permits(name)
	return deletedPermitsOf(p.TrySetPermits, p.AcquireAsync, p.Delete)
}

func deletedPermitsOf(
	set func(context.Context, int) (bool, error), acquire func(context.Context, int) <-chan channelapi.Grant, remove func(context.Context) (bool, error),
) deleted {
	return deleted{
		use: func(ctx context.Context) error {
			if _, err := set(ctx, 1); err != nil {
				return err
			}
			held := <-acquire(ctx, 1)
			return held.Err()
		},
		await: func(ctx context.Context) <-chan error {
			end := make(chan error, 1)
			waiter := acquire(ctx, 1)
			go func() { got := <-waiter; end <- got.Err() }()
			return end
		},
		remove: remove,
		want:   lockagent.ErrDeleted,
	}
}

func deletedLatch(locks *channelapi.Locks, name string) deleted {
	l := locks.Latch(name)
	return deleted{
		use:    func(ctx context.Context) error { return l.Set(ctx, 2) },
		await:  l.AwaitAsync,
		remove: l.Delete,
		want:   lockagent.ErrLatchGone,
	}
}
