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
// passes, Lock returns a grant that has a [*lockagent.WaitError]. A grant that comes at that instant counts as
// received. Lock never returns the zero Grant.
//
// It costs less than Acquire if ctx can end: the caller watches ctx itself.
func (a *Agent) Lock(ctx context.Context, name lockagent.Name, req Request) lockagent.Grant {
	req.Slot = nil
	begin := lockstate.Instant(0)
	if req.Wait > 0 {
		begin = a.clock.now()
	}
	r := &request{agent: a, Request: req, waited: true, caller: ctx}
	a.ask(ctx, name, r)
	if !r.delivery.over() { // most often it is: the lock was free
		r.await(ctx, begin)
	}
	o := r.delivery.receive()
	if cause := r.Cause(); cause != nil {
		o.err = r.overtaken(cause)
	}
	return r.grant(name, &o)
}

// await waits for the outcome. When ctx ends, or the wait passes, it has the actor end the request. begin is when Lock
// was called, if the wait is bounded.
func (r *request) await(ctx context.Context, begin lockstate.Instant) {
	a := r.agent
	wake := a.waker()
	defer func() { a.wakers.Put(wake) }()
	if !r.delivery.await(wake) {
		return
	}
	var passed <-chan time.Time
	if r.Wait > 0 {
		timer := time.NewTimer(begin.Sub(a.clock.now()) + r.Wait)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-wake:
		return
	case <-passed:
		send(r.entry, &cancelMsg{request: r, err: lockagent.ErrTimeout, timedOut: true, wait: true})
	case <-ctx.Done():
		send(r.entry, &cancelMsg{request: r, err: context.Cause(ctx), timedOut: timedOut(ctx)})
	}
	<-wake // by a denial, or by a grant that came first
}

// overtaken is the error for a caller who waited in Lock, and whose hold was over before Lock could return.
func (r *request) overtaken(cause error) error {
	lost, _ := errors.AsType[*lockagent.LostError](cause)
	if lost != nil && (lost.Reason == lockagent.LostClosed || lost.Reason == lockagent.LostIdentity) {
		return r.agent.identity.closed()
	}
	return cause
}

// ended is the error of a request whose context had ended before.
func ended(ctx context.Context, name lockagent.Name, kind lockagent.LockKind) error {
	return &lockagent.WaitError{Name: name, Kind: kind.OrPlain(), TimedOut: timedOut(ctx), Err: context.Cause(ctx)}
}

func timedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// explain is the error of a request that was not granted.
func (l *lock) explain(e *lockstate.Event) error {
	if l.draining || !e.TimedOut && !e.Cancelled {
		return e.Err
	}
	err := &lockagent.WaitError{
		Name: l.entry.name, Kind: l.entry.kind, Waited: e.Now.Sub(e.Request.Arrived), Holder: l.holder(),
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
