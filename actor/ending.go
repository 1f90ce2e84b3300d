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

// ending is how far the end of an agent has come. First the agent drains. Then it cuts the
// holds that are left short.
type ending struct {
	drain, cut, detach, await sync.Once

	over atomic.Bool   // all actors have gone
	done chan struct{} // closed when that event has been recorded

	ended     atomic.Int64 // holds that were cut short
	abandoned atomic.Int64 // tenures that could not be returned
	stays     atomic.Bool  // the store may have tenures of the agent when it has ended, and not only abandoned ones
}

// Shutdown answers all requests with [lockagent.ErrClosed], those that wait and new ones, and
// lets the holders finish until ctx ends. It takes back grants that nobody has received, and does not wait for holds
// whose requests have Outlive. Meanwhile holders can release their locks, and their leases are kept. Then Shutdown ends
// the holds that are left, like [Agent.Close], and returns the cause of ctx if there were any.
//
// Shutdown can also return the error of Close, see there. Shutdown and Close may be called
// several times and together: each call waits for the end.
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
		return errors.Join(lockagent.CauseOf(ctx), err)
	}
	return err
}

// Close ends every hold with [lockagent.LostClosed] and every request with
// [lockagent.ErrClosed], and releases the agent's tenures in the store. It waits until that is
// done. The store bounds the time of each release. If a release fails, the lease of that
// tenure runs out by itself, and Close returns an error that is [lockagent.ErrUnconfirmed].
//
// A hold whose request has Outlive ends in this process, but not in the store. Another call of
// Close waits for the first one, and returns the same.
func (a *Agent) Close() error {
	a.drain()
	a.identity.settle(verdictCut)
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

// awaitEnd stops the agent when the last actor has gone. The registry has to be closed before.
func (a *Agent) awaitEnd() {
	a.ending.await.Do(func() {
		go func() {
			defer close(a.ending.done)
			a.registry.live.Wait()
			a.ending.over.Store(true)
			if a.layers.grace != nil && !a.ending.stays.Load() && a.ending.abandoned.Load() == 0 {
				a.layers.grace.Left()
			}
			a.deafen()
			a.broadcast.end()
			a.storeTime.stop()
			a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventAgentStopped})
		}()
	})
}

// drain answers the requests that wait, and takes back the grants that lie in their channels. The lock closes when
// nobody holds it.
func (l *lock) drain() {
	l.draining = true
	ids := l.requests.keys()
	slices.Sort(ids)
	for _, id := range ids {
		r := l.requests.get(id)
		if r == nil || r.granted() && r.waited { // who waits in Lock receives the grant
			continue
		}
		r.cancelled = true // so that nobody is told to receive grants
		l.step(lockstate.Cancel{ID: id, Err: l.agent.identity.closed()})
	}
}

// drained reports whether the lock drains and has no request, hold or call left. Nobody releases a hold that is to
// outlive this process.
func (l *lock) drained() bool {
	if !l.draining || l.closing || l.calls.len() > 0 {
		return false
	}
	for r := range l.requests.all {
		if !r.granted() || !r.outlives() {
			return false
		}
	}
	return true
}

func (l *lock) close() {
	l.draining, l.closing = true, true
	l.step(lockstate.Close{})
}

// outlives reports whether the hold of a request that was granted stays in the store when the agent closes, and is not
// over by the clock.
func (r *request) outlives() bool { return r.Outlive && r.Remaining() > 0 }

// cutShort notes a hold that Close ends.
func (l *lock) cutShort(r *request) {
	if !r.outlives() {
		l.agent.ending.ended.Add(1)
		return
	}
	l.outliving = append(l.outliving, r.tenure)
	l.agent.ending.stays.Store(true)
	if r.fixed.Load() > r.deadline.Load() { // an extension that the store has not confirmed
		l.agent.ending.abandoned.Add(1)
	}
}

// keep leaves a tenure in the store: it makes no call, and answers the state machine that the
// store is closed.
func (l *lock) keep(e *lockstate.Event) {
	c := &storeCall[lockagent.ReleaseReply]{lock: l, tenure: e.Tenure}
	l.entry.pin()
	c.done(lockagent.ReleaseReply{}, lockagent.ErrClosed)
}
