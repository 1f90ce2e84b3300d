package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// ending is how far the end of an agent has come: first it drains, then what is left is
// cut short.
type ending struct {
	drain, cut, detach, await sync.Once

	over atomic.Bool   // nothing is left
	done chan struct{} // closed when that has been recorded

	snapshot AgentSnapshot // of Detach

	ended     atomic.Int64 // holds that were cut short
	abandoned atomic.Int64 // tenures that could not be returned
}

// Shutdown refuses new requests with [lockagent.ErrClosed], answers those that wait with the
// same, and lets the holders finish until ctx ends. Then it ends what is left, like
// [Agent.Close], and returns the cause of ctx if there were holds to be ended. Holders can
// release their locks meanwhile, and their leases are kept.
//
// An error that is [lockagent.ErrUnconfirmed] is that of Close. Shutdown and Close may be called
// several times and together: each waits for the end.
func (a *Agent) Shutdown(ctx context.Context) error {
	a.drain()
	select {
	case <-a.ending.done:
		return a.unconfirmed()
	default:
	}
	select {
	case <-a.ending.done:
		return a.unconfirmed()
	case <-ctx.Done():
	}
	err := a.Close()
	if a.ending.ended.Load() > 0 {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// Close ends every hold with [lockagent.LostClosed] and every request with
// [lockagent.ErrClosed], returns to the store what the agent has there, and waits
// until all of that is done. The time it takes is bounded by the store's own
// bounds: what cannot be returned is left to run out with its lease, and Close
// returns an error that is [lockagent.ErrUnconfirmed]. A hold whose request has Outlive is over
// for this process, too, but its lease is left in the store. Closing again waits for the
// first call and returns the same.
func (a *Agent) Close() error {
	a.drain()
	a.ending.cut.Do(func() { a.registry.close(func(e *entry) { send(e, &closeMsg{}) }) })
	<-a.ending.done
	return a.unconfirmed()
}

func (a *Agent) unconfirmed() error {
	if n := a.ending.abandoned.Load(); n > 0 {
		return fmt.Errorf("actor: close: %d locks: %w", n, lockagent.ErrUnconfirmed)
	}
	return nil
}

func (a *Agent) drain() {
	a.ending.drain.Do(func() {
		a.registry.close(func(e *entry) { send(e, &drainMsg{}) })
		a.awaitEnd()
	})
}

// awaitEnd has the agent stop when the last lock has left. The registry has to be closed.
func (a *Agent) awaitEnd() {
	a.ending.await.Do(func() {
		go func() {
			defer close(a.ending.done)
			a.registry.live.Wait()
			a.ending.over.Store(true)
			a.deafen()
			a.ticks.stop()
			a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventAgentStopped})
		}()
	})
}

// drain answers those who wait. The lock closes when nobody holds it.
func (l *lock) drain() {
	l.draining = true
	ids := l.requests.keys()
	slices.Sort(ids)
	for _, id := range ids {
		if r := l.requests.get(id); r != nil && !r.granted() {
			l.step(lockstate.Cancel{ID: id, Err: lockagent.ErrClosed})
		}
	}
}

// drained reports whether a lock that drains has nobody left.
func (l *lock) drained() bool {
	return l.draining && !l.closing && l.requests.len() == 0 && l.calls.len() == 0
}

func (l *lock) close() {
	l.draining, l.closing = true, true
	l.step(lockstate.Close{})
}

// cutShort is told of a hold that the closing ends.
func (l *lock) cutShort(r *request) {
	if r.Outlive && l.now < lockstate.Instant(r.fixed.Load()) {
		l.outliving = append(l.outliving, r.tenure)
	} else {
		l.agent.ending.ended.Add(1)
	}
}

// keep is the return of a tenure that stays in the store: the state machine is told that
// the store will not hear of it.
func (l *lock) keep(e *lockstate.Event) {
	c := &storeCall[lockagent.ReleaseReply]{lock: l, tenure: e.Tenure}
	c.begin()
	c.done(lockagent.ReleaseReply{}, lockagent.ErrClosed)
}
