package channelapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// First asks for all of the locks at once, and returns the first grant. [lockagent.Grant.Name] tells
// which lock it is. First withdraws the other requests, and gives their grants back. If
// every request fails, First returns all their errors, joined.
func First(ctx context.Context, locks ...AnyLock) (Grant, error) {
	return first(ctx, locks, nil)
}

// first is First, with a watcher of the requests, or nil.
func first(ctx context.Context, locks []AnyLock, watch actor.Watcher) (Grant, error) {
	handles, err := handlesOf(locks)
	if err != nil {
		return Grant{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // does not touch the grant that First received
	cases := make([]reflect.SelectCase, len(handles))
	for i, h := range handles {
		req := h.request()
		req.Watch = watch
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(h.ask(ctx, req))}
	}
	var errs []error
	for range handles {
		i, v, _ := reflect.Select(cases)
		g := v.Interface().(Grant)
		err := handles[i].outcome(ctx, g)
		if err == nil {
			return g, nil
		}
		errs = append(errs, about(handles[i], err))
		cases[i].Chan = reflect.ValueOf((<-chan Grant)(nil)) // has delivered
	}
	return Grant{}, errors.Join(errs...)
}

// FirstAsync is [First] for select. The channel has capacity 1, delivers one grant, and needs
// no reader. If nobody has received the grant when ctx ends, after Config.Claim, when the locks
// are closed or shut down, or when the hold is lost, the grant goes back. The channel then delivers the reason: a
// [*WaitError] if ctx ended, [ErrClosed] or [ErrSessionClosed], and otherwise [ErrNotGranted].
//
// FirstAsync closes the channel after that, or after the first such event if somebody has
// received the grant. So a second receive waits, and then yields the zero Grant.
func FirstAsync(ctx context.Context, locks ...AnyLock) <-chan Grant {
	return offering(ctx, locks, func(watch actor.Watcher) ([]Grant, error) {
		g, err := first(ctx, locks, watch)
		return []Grant{g}, err
	}, func(grants []Grant, err error) Grant {
		if err != nil {
			return lockagent.Denied("", "", err)
		}
		return grants[0]
	})
}

// All acquires all of the locks. It tries all of them at once. If all are free, that takes about as
// long as one. If one is not, All keeps those whose names sort before it, and gives back the others.
// It acquires the rest one after the other, in the order of their names. So two calls of All never
// wait for each other in a circle. The grants are in the order of the arguments. If a request
// fails, All gives the other grants back, the last one first, and returns the error.
//
// The [Wait] of each lock counts from the call of All. So All fails as soon as one has passed whose lock it does not
// have: with Wait(5*time.Second) for all of the locks, All returns within 5 s.
//
// Locks that the caller holds already can still make a circle. For example: one caller holds
// z and calls All(a), another holds a and calls All(z). All returns an [*OptionError] if a
// session asks for a lock that sorts before a lock that the session holds. All does not see
// the locks that the caller holds without a session.
//
// All also returns an OptionError if it is to acquire one lock twice, because the second
// request would wait for the first. Two handles of the same session are no such case, nor are locks of the
// same name in two stores.
//
// Fixed leases begin together, when all locks are held: while All waits for a lock, it extends those of the others. All
// does not wait until the store has confirmed the last extensions: see [lockagent.Grant.Remaining]. If one of the holds
// is lost before the last lock is granted, All gives the other grants back and returns the [*LostError].
func All(ctx context.Context, locks ...AnyLock) ([]Grant, error) {
	var on onItsWay
	defer on.arrived.Store(true)
	return all(ctx, locks, &on)
}

// onItsWay watches requests whose owner receives the grants later than the agent knows.
type onItsWay struct {
	actor.NopWatcher
	arrived atomic.Bool
}

// Received implements [actor.Watcher].
func (o *onItsWay) Received() bool { return o.arrived.Load() }

// all is All, with a watcher of the requests.
func all(ctx context.Context, locks []AnyLock, watch actor.Watcher) ([]Grant, error) {
	handles, err := handlesOf(locks)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(handles))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := handles[i], handles[j]
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.locks.identity(), b.locks.identity()))
	})
	for k, i := range order {
		h := handles[i]
		if h.session != nil {
			if last := h.session.lastHeld(); last > h.name && !h.session.holds(h.name) {
				return nil, &OptionError{Option: "lock", Reason: fmt.Sprintf("the session holds %q already, and "+
					"somebody who holds %q may be waiting for that; "+
					"ask for all of them at once, or in the order of their names", last, h.name)}
			}
		}
		if k > 0 {
			if g := handles[order[k-1]]; g.isSame(h) && (g.session == nil || g.session != h.session) {
				return nil, &OptionError{
					Option: "lock",
					Reason: fmt.Sprintf(
						"%q is asked for twice, and would wait for itself; ask once, or through one session", h.name,
					),
				}
			}
		}
	}
	for _, h := range handles {
		if req := h.request(); req.Wait < 0 { // the others need not be asked for
			_, err := h.acquire(ctx, req)
			return nil, about(h, err)
		}
	}
	c := collection{
		handles: handles, order: order, watch: watch,
		bounds: make([]context.Context, len(handles)), grants: make([]Grant, len(handles)),
	}
	return c.all(ctx)
}

// isSame reports whether both handles are of one lock: the same name in the same store.
func (h *handle) isSame(other *handle) bool {
	return h.name == other.name && (h.locks == other.locks || h.locks.identity() == other.locks.identity())
}

// collection is what one call of All has been granted.
type collection struct {
	handles []*handle
	order   []int // of the handles, by name
	watch   actor.Watcher

	bounds []context.Context // by handle; it ends with the wait for that lock, or for one after it
	grants []Grant           // by handle; the zero Grant is none
}

func (c *collection) all(ctx context.Context) ([]Grant, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	held, letGo := context.WithCancel(context.WithoutCancel(ctx)) // all that was granted so far
	defer letGo()
	bound := waiting
	for _, i := range slices.Backward(c.order) {
		var stop context.CancelFunc
		bound, stop = c.handles[i].bounded(bound)
		defer stop()
		c.bounds[i] = bound
	}
	if len(c.order) > 1 {
		c.try(ctx)
	}
	fail := func(i int, err error) ([]Grant, error) {
		if err != nil && errors.Is(context.Cause(waiting), errGone) {
			<-held.Done() // what held was made from may have ended a moment before it
		}
		if held.Err() != nil {
			err = whyLost(context.Cause(held))
		} else {
			err = about(c.handles[i], err)
		}
		c.giveBack(ctx, c.order)
		return nil, err
	}
	extended := 0 // of the locks in their order
	for k, i := range c.order {
		var err error
		if !c.grants[i].Held() {
			for ; extended < k; extended++ {
				c.extend(waiting, c.order[extended])
			}
			req := c.handles[i].request()
			req.Wait = 0
			req.Watch = c.watch
			c.grants[i], err = c.handles[i].acquire(c.bounds[i], req)
		}
		if err == nil {
			held = c.grants[i].Context(held)
			defer context.AfterFunc(held, func() { stop(errGone) })()
		}
		if err != nil || held.Err() != nil {
			return fail(i, err)
		}
	}
	for _, i := range c.order[:extended] {
		if lease := c.lease(i); lease != 0 {
			c.grants[i].ExtendAsync(ctx, lease) // the hold tells how long it can be trusted
		}
	}
	return c.grants, nil
}

// bounded is ctx for a request without a wait of its own. It ends when the wait of the handle has passed, from now on.
func (h *handle) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := h.request().Wait
	if wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait, ErrTimeout)
}

// lease is the fixed lease of a lock, or 0.
func (c *collection) lease(i int) time.Duration { return c.handles[i].req.Lease }

// extend extends a fixed lease again and again until ctx ends.
func (c *collection) extend(ctx context.Context, i int) {
	lease, g := c.lease(i), c.grants[i]
	if lease == 0 {
		return
	}
	go func() {
		again := time.NewTicker(lease / 3)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				g.ExtendAsync(ctx, lease) // whether the hold is lost, its context tells
			case <-ctx.Done():
				return
			}
		}
	}()
}

// try asks for all locks at once, and waits for none. It keeps the grants up to the first lock, by name, that
// it does not get.
func (c *collection) try(ctx context.Context) {
	answers := make([]<-chan Grant, len(c.order))
	for k, i := range c.order {
		req := c.handles[i].request()
		req.Try, req.Wait, req.Watch = true, 0, c.watch
		answers[k] = c.handles[i].ask(c.bounds[i], req)
	}
	for k, i := range c.order {
		c.grants[i] = <-answers[k]
	}
	kept := 0
	for kept < len(c.order) && c.grants[c.order[kept]].Held() {
		kept++
	}
	c.giveBack(ctx, c.order[kept:])
}

// giveBack releases what was granted of these, the last one first.
func (c *collection) giveBack(ctx context.Context, order []int) {
	for _, i := range slices.Backward(order) {
		c.grants[i].ReleaseAsync(ctx) // nothing happens if there is no grant
		c.grants[i] = Grant{}
	}
}

// errGone ends the wait for a lock because another one was lost.
var errGone = errors.New("lockagent: a hold was lost")

// Grants is the outcome of [AllAsync]: the grants, or the reason why there are none. The zero
// Grants has none, and its Err is [ErrNotGranted].
type Grants struct {
	list []Grant
	err  error
}

// Err is nil if all locks were granted. Otherwise it is the error of [All], or the reason why
// the grants went back.
func (g Grants) Err() error {
	if len(g.list) == 0 && g.err == nil {
		return ErrNotGranted
	}
	return g.err
}

// List has the grants in the order of the arguments. It is empty if Err is not nil.
func (g Grants) List() []Grant { return g.list }

// AllAsync is [All] for select. The channel is like that of [FirstAsync]. All grants go back
// as soon as one of the holds is lost. A second receive yields the zero [Grants].
func AllAsync(ctx context.Context, locks ...AnyLock) <-chan Grants {
	return offering(ctx, locks, func(watch actor.Watcher) ([]Grant, error) {
		return all(ctx, locks, watch)
	}, func(grants []Grant, err error) Grants { return Grants{grants, err} })
}

func handlesOf(locks []AnyLock) ([]*handle, error) {
	if len(locks) == 0 {
		return nil, &OptionError{Option: "lock", Reason: "there is none; name at least one"}
	}
	handles := make([]*handle, len(locks))
	for i, l := range locks {
		if l != nil {
			handles[i] = l.base()
		}
		if handles[i] == nil {
			return nil, &OptionError{
				Option: "lock", Reason: fmt.Sprintf("number %d is nil; make it with Locks.Lock or Session.Lock", i),
			}
		}
	}
	return handles, nil
}

// claimOf is how long a grant of the locks may lie in its channel.
func claimOf(locks []AnyLock) time.Duration {
	for _, l := range locks {
		if l != nil && l.base() != nil && l.base().locks != nil {
			return l.base().locks.claim
		}
	}
	return DefaultClaim
}

// about adds the name of the lock to an error.
func about(h *handle, err error) error { return fmt.Errorf("%q: %w", h.name, err) }
