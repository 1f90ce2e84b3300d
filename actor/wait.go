package actor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Lock is [Agent.Acquire] for callers who wait for the grant. If ctx ends first, or the wait
// passes, Lock takes the request or its grant back, and returns a grant that has a
// [*lockagent.WaitError]. Lock never returns the zero Grant.
//
// It costs less than Acquire if ctx can end: the caller watches ctx itself.
func (a *Agent) Lock(ctx context.Context, name lockagent.Name, req Request) lockagent.Grant {
	var begin lockstate.Instant
	caller := ctx
	if req.Wait == 0 { // otherwise the caller has to be able to leave
		caller = inPerson(ctx)
	} else {
		begin = a.clock.now()
	}
	d := new(delivery) // the actor forgets it when it knows who received the grant
	r := &request{agent: a, Request: req, waited: true, caller: caller, delivery: d}
	a.ask(ctx, name, r)
	if d.over() { // most often: the lock was free
		return r.received(d.receive())
	}
	wake := a.waker()
	if !d.await(wake) {
		a.wakers.Put(wake)
		return r.received(d.receive())
	}
	if req.Wait == 0 {
		begin = a.clock.now()
	}
	var passed <-chan time.Time
	if req.Wait > 0 {
		timer := time.NewTimer(begin.Sub(a.clock.now()) + req.Wait)
		defer timer.Stop()
		passed = timer.C
	}
	var err error
	select {
	case <-wake:
		a.wakers.Put(wake)
		return r.received(d.receive())
	case <-passed:
		err = lockagent.ErrTimeout
		send(r.entry, &cancelMsg{request: r, err: err, timedOut: true, wait: true})
	case <-ctx.Done():
		err = ended(ctx, name, a.clock.now().Sub(begin))
		send(r.entry, &cancelMsg{request: r, err: context.Cause(ctx), timedOut: timedOut(ctx)})
	}
	<-wake
	a.wakers.Put(wake)
	g, ok := d.receive()
	if !ok { // the lock was granted, and the grant taken back
		return lockagent.Denied(name, req.Owner, err)
	}
	return g
}

// received returns the grant that a caller got from the channel of the request. If the channel
// was empty, because the hold is over, the error of the grant says why.
func (r *request) received(g lockagent.Grant, ok bool) lockagent.Grant {
	if ok {
		return g
	}
	cause := r.cause()
	if lost, _ := errors.AsType[*lockagent.LostError](cause); lost != nil && lost.Reason == lockagent.LostClosed {
		cause = lockagent.ErrClosed
	}
	return lockagent.Denied(r.entry.name, r.Owner, cause)
}

// ended is the error of a request whose context ended. The caller knows no more than that.
func ended(ctx context.Context, name lockagent.Name, waited time.Duration) error {
	return &lockagent.WaitError{Name: name, Waited: waited, TimedOut: timedOut(ctx), Err: context.Cause(ctx)}
}

func timedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// explain is the error of a request that was not granted.
func (l *lock) explain(e *lockstate.Event) error {
	if l.draining || !e.TimedOut && !e.Cancelled {
		return e.Err
	}
	err := &lockagent.WaitError{
		Name: l.entry.name, Waited: e.Now.Sub(e.Request.Arrived), Holder: l.holder(),
		TimedOut: e.TimedOut, Err: e.Err, Store: l.news.err(), Permits: e.Request.Permits,
	}
	if err.Permits > 0 { // what the store says of a semaphore tells more than one of its holders
		err.Holder = cmp.Or(l.news.holder(), err.Holder)
	}
	_, _, count, _ := l.state.Hold()
	err.Silent = l.news.silent(e.Request.Arrived, e.Now, count > 0)
	return err
}

// holder is who has the lock: the owner of this agent's oldest grant, or what the store last
// said. It is empty if that is not known.
func (l *lock) holder() string {
	if owner, _, count, _ := l.state.Hold(); count > 0 {
		return string(owner)
	}
	return l.news.holder()
}

// news is what the lock knows of the store, for the errors of requests that wait. It is small
// while all is well.
type news struct {
	since lockstate.Instant // when the store's silence began: the first call without an answer was sent; 0 if none
	bad   *badNews          // nil while all is well
}

type badNews struct {
	holder string // the holder elsewhere, by the store's last answer
	err    error  // the error of the last call, unless the store has answered since
}

// slow is how long a call may take before the store counts as silent. The store may put a
// renewal off for half of that.
const slow = 200 * time.Millisecond

func (n *news) asked(now lockstate.Instant) {
	if n.since == 0 {
		n.since = max(now, 1)
	}
}

// heard notes how a call ended.
func (n *news) heard(err error) {
	answered := err == nil || lockagent.Definite(err)
	if answered {
		n.since = 0
	}
	switch holder := n.holder(); {
	case !answered:
		n.bad = &badNews{holder, err}
	case n.err() != nil:
		n.told(holder)
	}
}

// told notes the holder elsewhere.
func (n *news) told(holder string) { n.bad = &badNews{holder: holder} }

func (n *news) holder() string {
	if n.bad == nil {
		return ""
	}
	return n.bad.holder
}

func (n *news) err() error {
	if n.bad == nil {
		return nil
	}
	return n.bad.err
}

// silent is for how long the store has been silent, for a request that arrived at an instant. A
// call that is under way counts if it takes long. It also counts if the request has waited for
// nothing else. local says that the request waits for a holder of this agent.
func (n *news) silent(arrived, now lockstate.Instant, local bool) time.Duration {
	if n.since == 0 {
		return 0
	}
	silent := now.Sub(n.since)
	if n.err() == nil && silent < slow && (local || n.since > max(arrived, 1)) {
		return 0
	}
	return silent
}
