package forgets

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockagent/lockagent/internal/forgettest"
)

// openRueidislock opens the locks of rueidislock as they come, but with as long a lease as the others have.
func openRueidislock(_ context.Context, url string) (forgettest.Locks, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyValidity: forgettest.Lease})
	if err != nil {
		return nil, err
	}
	return rueidisLocks{locker}, nil
}

type rueidisLocks struct{ locker rueidislock.Locker }

// Acquire implements [forgettest.Locks]. The library ends a hold with the context of its request. So the context that
// the library gets ends with ctx only until the lock is granted.
func (r rueidisLocks) Acquire(ctx context.Context, _ forgettest.Kind, name string, _ int) (forgettest.Grant, error) {
	asking, end := context.WithCancel(context.WithoutCancel(ctx))
	goesOn := context.AfterFunc(ctx, end)
	held, release, err := r.locker.WithContext(asking, name)
	if err != nil {
		end()
		return nil, err
	}
	if !goesOn() {
		release()
		return nil, ctx.Err()
	}
	return &rueidisGrant{held, release}, nil
}

// SetPermits implements [forgettest.Locks]. The library has no semaphores.
func (rueidisLocks) SetPermits(context.Context, forgettest.Kind, string, int) {}

// Close implements [forgettest.Locks].
func (r rueidisLocks) Close() { r.locker.Close() }

type rueidisGrant struct {
	held    context.Context
	release context.CancelFunc
}

// Token implements [forgettest.Grant]. The library has none.
func (*rueidisGrant) Token() uint64 { return 0 }

// Done implements [forgettest.Grant].
func (g *rueidisGrant) Done() <-chan struct{} { return g.held.Done() }

// Remaining implements [forgettest.Grant]. The library tells of no deadline: a hold goes on until its context ends.
func (g *rueidisGrant) Remaining() time.Duration {
	if g.held.Err() != nil {
		return 0
	}
	return time.Hour
}

// Release implements [forgettest.Grant]. The library tells of no reason.
func (g *rueidisGrant) Release() (lost string) {
	if g.held.Err() != nil {
		lost = "context ended"
	}
	g.release()
	return lost
}
