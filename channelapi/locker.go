package channelapi

import (
	"context"
	"sync"
	"time"
)

// Locker is the lock as a [sync.Locker], for code that takes nothing else. Prefer [Lock.Do]. A
// mutex cannot be lost, but this lock can. The code under it does not learn of the loss: it
// has no context that ends, and no token to write with.
//
// Lock panics with the error if the lock is not granted: ctx has ended, or the request
// failed. ctx and the options bound the wait for another goroutine that uses the Locker, too.
// Unlock panics with the [*LostError] if the hold had been lost: the work may have overlapped
// with the work of another holder. Unlock without Lock panics with [ErrNotHeld].
//
// Goroutines that use one Locker exclude each other even when the hold is lost.
func (l *Lock) Locker(ctx context.Context) sync.Locker {
	return &locker{lock: l, ctx: ctx, inside: make(chan Grant, 1), turn: make(chan struct{}, 1)}
}

type locker struct {
	lock   *Lock
	ctx    context.Context
	turn   chan struct{} // full between Lock and Unlock
	inside chan Grant    // has the grant between Lock and Unlock
}

func (l *locker) Lock() {
	ctx, stop := l.lock.bounded(l.ctx)
	defer stop()
	req := l.lock.request()
	req.Wait = 0
	if err := l.enter(ctx, req.Try); err != nil {
		panic(err)
	}
	g, err := l.lock.acquire(ctx, req)
	if err != nil {
		<-l.turn
		panic(err)
	}
	l.inside <- g
}

// enter waits for the goroutine between Lock and Unlock.
func (l *locker) enter(ctx context.Context, try bool) error {
	begin := time.Now()
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	if try {
		return &HeldError{Name: l.lock.name, Holder: string(l.lock.locks.ID()), Left: -1}
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return waitError(ctx, l.lock.name, l.lock.req.Kind.OrPlain(), time.Since(begin))
	}
}

func (l *locker) Unlock() {
	select {
	case g := <-l.inside:
		<-l.turn
		if err := release(l.ctx, nil, g); err != nil {
			panic(err)
		}
	default:
		panic(ErrNotHeld)
	}
}
