package channelapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// First asks for all of the locks at once and returns the first grant. Its name tells
// which lock it is of. The other requests are withdrawn; what they were granted meanwhile
// goes back. If every request fails First returns their errors, joined.
func First(ctx context.Context, locks ...AnyLock) (Grant, error) {
	handles, err := handlesOf(locks)
	if err != nil {
		return Grant{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which does not touch the grant that was received
	cases := make([]reflect.SelectCase, len(handles))
	for i, h := range handles {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(h.ask(ctx, h.req))}
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

// FirstAsync is [First] for select. The channel is like that of [Lock.AcquireAsync]: the
// grant goes back if nobody has received it when ctx ends, or after Config.Claim.
func FirstAsync(ctx context.Context, locks ...AnyLock) <-chan Grant {
	return offer(ctx, claimOf(locks), func() Grant {
		g, err := First(ctx, locks...)
		if err != nil {
			return lockagent.Denied("", "", err)
		}
		return g
	}, func(g Grant) { g.ReleaseAsync(ctx) })
}

// All asks for the locks one after the other, in the order of their names. So callers who
// want the same locks never wait for each other in a circle. The grants come in the order
// in which the caller named the locks. If a request fails, All gives the other locks back
// and returns its error.
//
// Locks that are held already can still make a circle: one caller holds z and asks for a,
// another holds a and asks for z. All cannot put them in order any more. It returns an
// [*OptionError] if a session asks for a lock that sorts before one it holds. Of what is
// held without a session All does not know.
//
// To ask twice for one lock is an OptionError, too, unless one session does: the second
// request would wait for the first.
//
// Each lease begins with its own grant: one that is fixed may have run out when the last
// lock is granted. [lockagent.Grant.Held] tells.
func All(ctx context.Context, locks ...AnyLock) ([]Grant, error) {
	handles, err := handlesOf(locks)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(handles))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(handles[i].name, handles[j].name) })
	for k, i := range order {
		h := handles[i]
		if h.session != nil {
			if last := h.session.lastHeld(); last > h.name && !h.session.holds(h.name) {
				return nil, &OptionError{Option: "lock", Reason: fmt.Sprintf("the session holds %q already, and somebody who holds %q may be waiting for that; "+
					"ask for all of them at once, or in the order of their names", last, h.name)}
			}
		}
		if k > 0 {
			if g := handles[order[k-1]]; g.name == h.name && (g.session == nil || g.session != h.session) {
				return nil, &OptionError{Option: "lock", Reason: fmt.Sprintf("%q is asked for twice, and would wait for itself; ask once, or through one session", h.name)}
			}
		}
	}
	grants := make([]Grant, len(handles))
	for k, i := range order {
		g, err := handles[i].acquire(ctx, handles[i].req)
		if err != nil {
			for _, j := range slices.Backward(order[:k]) {
				grants[j].ReleaseAsync(ctx)
			}
			return nil, about(handles[i], err)
		}
		grants[i] = g
	}
	return grants, nil
}

// AllAsync is [All] for select. The channel has capacity 1, delivers one value, is then
// closed, and needs no reader: the grants go back if nobody has received them when ctx
// ends, or after Config.Claim.
func AllAsync(ctx context.Context, locks ...AnyLock) <-chan Result[[]Grant] {
	return offer(ctx, claimOf(locks), func() (r Result[[]Grant]) {
		r.Value, r.Err = All(ctx, locks...)
		return r
	}, func(r Result[[]Grant]) {
		for _, g := range slices.Backward(r.Value) {
			g.ReleaseAsync(ctx)
		}
	})
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
			return nil, &OptionError{Option: "lock", Reason: fmt.Sprintf("number %d is nil; make it with Locks.Lock or Session.Lock", i)}
		}
	}
	return handles, nil
}

// claimOf is for how long a grant of the locks may lie in its channel.
func claimOf(locks []AnyLock) time.Duration {
	for _, l := range locks {
		if l != nil && l.base() != nil && l.base().locks != nil {
			return l.base().locks.claim
		}
	}
	return DefaultClaim
}

// about says which lock an error is about.
func about(h *handle, err error) error { return fmt.Errorf("%q: %w", h.name, err) }
