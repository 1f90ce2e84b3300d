package actor

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Lock is [Agent.Acquire] for callers who wait for the grant. When ctx ends first, or the
// wait passes, the request is withdrawn or its grant taken back, and the grant that is
// returned has a [*lockagent.WaitError]. Lock never returns the zero Grant.
//
// It costs less than Acquire if ctx can end: the caller watches ctx itself.
func (a *Agent) Lock(ctx context.Context, name lockagent.Name, req Request) lockagent.Grant {
	begin := a.clock.now()
	values, finish := ctx, func() {}
	if req.Wait == 0 { // a caller whose wait is bounded has to be able to leave
		values, finish = inPerson(ctx)
	}
	r := &request{agent: a, Request: req, waited: true, caller: values, out: make(chan lockagent.Grant, 1)}
	out := r.out // the actor lets go of it when the grant has been received
	a.ask(ctx, name, r)
	finish()
	select {
	case g, ok := <-out: // most often: the lock was free
		return r.received(g, ok)
	default:
	}
	var passed <-chan time.Time
	if req.Wait > 0 {
		timer := time.NewTimer(begin.Sub(a.clock.now()) + req.Wait)
		defer timer.Stop()
		passed = timer.C
	}
	var err error
	select {
	case g, ok := <-out:
		return r.received(g, ok)
	case <-passed:
		err = lockagent.ErrTimeout
		send(r.entry, &cancelMsg{request: r, err: err, timedOut: true, wait: true})
	case <-ctx.Done():
		err = ended(ctx, name, a.clock.now().Sub(begin))
		send(r.entry, &cancelMsg{request: r, err: context.Cause(ctx), timedOut: timedOut(ctx)})
	}
	g, ok := <-out
	if !ok { // it was granted, and taken back
		return lockagent.Denied(name, req.Owner, err)
	}
	return g
}

// received is what a caller is given who received from the channel of a request. A
// grant that was taken out of it, because its hold is over, says why.
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

// ended is the error of a request whose context ended, as far as the caller knows.
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
		Name: l.entry.name, Waited: e.Now.Sub(e.Request.Arrived), Holder: l.news.holder(),
		TimedOut: e.TimedOut, Err: e.Err, Store: l.news.err(),
	}
	owner, _, count, _ := l.state.Hold()
	if count > 0 {
		err.Holder = string(owner)
	}
	err.Silent = l.news.silent(e.Request.Arrived, e.Now, count > 0)
	return err
}

// news is what a lock has from the store, as far as those who wait want to know. It is small
// while all is well.
type news struct {
	since lockstate.Instant // when the first call was sent that has had no answer; 0 if there is none
	bad   *badNews          // nil if there are none
}

type badNews struct {
	holder string // who had the lock elsewhere when the store last answered
	err    error  // what the last call failed with, unless the store has answered since
}

// slow is how long a call to a store may take that nobody would call silent. A renewal may be
// put off for half of it.
const slow = 200 * time.Millisecond

func (n *news) asked(now lockstate.Instant) {
	if n.since == 0 {
		n.since = max(now, 1)
	}
}

// heard is told how a call ended.
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

// told is told who has the lock elsewhere.
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

// silent is for how long the store has been silent to a request that arrived at some
// instant. A call that is under way is no silence, unless it takes long, or the request has
// waited for nothing else. local says that the request waits for a holder of this agent.
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
