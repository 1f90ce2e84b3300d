package forgettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/redisstore"
)

// Lease is that of the agents.
const Lease = 4 * time.Second

var lostDeadline = lockagent.LostDeadline.String()

// OpenLockagent opens the locks of this project.
func OpenLockagent(ctx context.Context, url string) (Locks, error) {
	quiet := slog.New(slog.DiscardHandler) // what goes wrong shows in the figures
	store, err := redisstore.Config{Logger: quiet}.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	locks, err := channelapi.New(channelapi.Config{Store: store, Lease: Lease, Logger: quiet})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &ours{locks, store}, nil
}

type ours struct {
	*channelapi.Locks
	store *redisstore.Store
}

// Acquire implements [Locks].
func (o *ours) Acquire(ctx context.Context, kind Kind, name string, permits int) (Grant, error) {
	var g lockagent.Grant
	var err error
	switch kind {
	case Plain:
		g, err = o.Lock(name).Acquire(ctx)
	case Fair:
		g, err = o.FairLock(name).Acquire(ctx)
	case Fenced:
		g, err = o.FencedLock(name).Acquire(ctx)
	case Spin:
		g, err = o.SpinLock(name).Acquire(ctx)
	case Read:
		g, err = o.ReadLock(name).Acquire(ctx)
	case Write:
		g, err = o.WriteLock(name).Acquire(ctx)
	case Semaphore:
		g, err = o.Locks.Semaphore(name).Acquire(ctx, permits)
	case Permits:
		g, err = o.Locks.Permits(name).Acquire(ctx, permits)
	default:
		err = fmt.Errorf("no kind %q", kind)
	}
	return ourGrant{g}, err
}

// SetPermits implements [Locks]. A store that is away is asked again soon.
func (o *ours) SetPermits(ctx context.Context, kind Kind, name string, permits int) {
	switch kind {
	case Semaphore:
		_, _ = o.Locks.Semaphore(name).TrySetPermits(ctx, permits)
	case Permits:
		_, _ = o.Locks.Permits(name).TrySetPermits(ctx, permits)
	}
}

// Close implements [Locks].
func (o *ours) Close() {
	_ = o.Locks.Close() // what could not be given back dies with the server
	_ = o.store.Close()
}

type ourGrant struct{ lockagent.Grant }

// Token implements [Grant].
func (g ourGrant) Token() uint64 { return uint64(g.Grant.Token()) }

// Release implements [Grant].
func (g ourGrant) Release() string {
	if lost, ok := errors.AsType[*lockagent.LostError](g.Grant.Release(context.Background())); ok {
		return lost.Reason.String()
	}
	return ""
}
