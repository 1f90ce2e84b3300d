package channelapi

import (
	"context"
	"sync"
)

// Locker is the lock as a [sync.Locker], for code that takes nothing else. You should not
// want it. A mutex cannot be lost, but this lock can, and whoever works under it is not
// told: there is no context that ends, no token, and no error to return.
//
// Lock panics with the error if the lock is not granted: ctx has ended, or the request
// failed. Unlock panics with the [*LostError] if the hold had been lost: what was done
// under it may have overlapped with another holder's work. Unlock without Lock is fatal, as
// with [sync.Mutex].
//
// Goroutines that use one Locker exclude each other even when the hold is lost.
func (l *Lock) Locker(ctx context.Context) sync.Locker { return &locker{lock: l, ctx: ctx} }

type locker struct {
	lock *Lock
	ctx  context.Context

	mu sync.Mutex // held between Lock and Unlock; guards what follows
	g  Grant
}

func (l *locker) Lock() {
	l.mu.Lock()
	g, err := l.lock.Acquire(l.ctx)
	if err != nil {
		l.mu.Unlock()
		panic(err)
	}
	l.g = g
}

func (l *locker) Unlock() {
	g := l.g
	l.mu.Unlock()
	if err := release(l.ctx, nil, g); err != nil {
		panic(err)
	}
}
