package channelapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/lockagent/lockagent"
)

// Await receives the grant of a request. If ctx ends first it returns the cause of
// ctx; the grant is then taken back when the request's own context ends, so give
// the request that same ctx. A grant that is there already is always returned.
func Await(ctx context.Context, grant <-chan lockagent.Grant) (lockagent.Grant, error) {
	g, err := receive(ctx, grant)
	if err != nil {
		return lockagent.Grant{}, err
	}
	return g, outcome(ctx, g)
}

// Value receives the result of a question. If ctx ends first it returns the cause
// of ctx. A result that is there already is always returned.
func Value[T any](ctx context.Context, result <-chan lockagent.Result[T]) (T, error) {
	r, err := receive(ctx, result)
	if err != nil {
		return r.Value, err
	}
	return r.Value, r.Err
}

// Then calls f with the grant, in a goroutine of its own, once it is there, and
// delivers what f returns. If the lock was not granted f is not called and the
// grant's error is delivered. f releases the grant. The channel has capacity 1,
// delivers one value, is then closed, and needs no reader.
func Then[T any](grant <-chan lockagent.Grant, f func(lockagent.Grant) (T, error)) <-chan lockagent.Result[T] {
	out := make(chan lockagent.Result[T], 1)
	go func() {
		defer close(out)
		var r lockagent.Result[T]
		g := <-grant
		if r.Err = g.Err(); r.Err == nil {
			r.Value, r.Err = f(g)
		}
		out <- r
	}()
	return out
}

// Request is a lock together with how to ask for it. Make one with [Lock.With].
// The zero Request is of no lock; [First] and [All] refuse it.
type Request struct {
	lock *Lock
	opts []AcquireOption
}

// With is a request for the lock, for [First] and [All].
func (l *Lock) With(opts ...AcquireOption) Request { return Request{lock: l, opts: opts} }

// First asks for all of the locks at once and returns the first grant, and which
// request it belongs to. The other requests are withdrawn; what they were granted
// meanwhile goes back. If every request fails it returns -1 and their errors,
// joined; if ctx ends first, these are its cause.
func First(ctx context.Context, requests ...Request) (int, lockagent.Grant, error) {
	if err := checkRequests(requests); err != nil {
		return -1, lockagent.Grant{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which does not touch the grant that was received
	cases := make([]reflect.SelectCase, len(requests))
	for i, r := range requests {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(r.lock.Acquire(ctx, r.opts...))}
	}
	var errs []error
	for range requests {
		i, v, _ := reflect.Select(cases)
		g := v.Interface().(lockagent.Grant)
		err := outcome(ctx, g)
		if err == nil {
			return i, g, nil
		}
		errs = append(errs, fmt.Errorf("%q: %w", requests[i].lock.name, err))
		cases[i].Chan = reflect.ValueOf((<-chan lockagent.Grant)(nil)) // has delivered
	}
	return -1, lockagent.Grant{}, errors.Join(errs...)
}

// All asks for the locks one after the other, in the order of their names, so that
// callers who want the same locks never wait for each other in a circle. It
// returns the grants in the order of the requests. If one cannot be had it gives
// the others back and returns that one's error. Asking twice for one lock without a
// session is a [lockagent.OptionError], for it could only wait for itself.
//
// Each lease begins with its own grant: one that is fixed may have run out when the
// last lock is granted. [lockagent.Grant.Held] tells.
func All(ctx context.Context, requests ...Request) ([]lockagent.Grant, error) {
	if err := checkRequests(requests); err != nil {
		return nil, err
	}
	order := make([]int, len(requests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(requests[i].lock.name, requests[j].lock.name) })
	for k := 1; k < len(order); k++ {
		a, b := requests[order[k-1]].lock, requests[order[k]].lock
		if a.name == b.name && (a.session == nil || a.session != b.session) {
			return nil, &lockagent.OptionError{Option: "request", Reason: fmt.Sprintf("lock %q is asked for twice, and would wait for itself; ask once, or through one session", a.name)}
		}
	}
	grants := make([]lockagent.Grant, len(requests))
	for k, i := range order {
		g, err := requests[i].lock.Lock(ctx, requests[i].opts...)
		if err != nil {
			for _, j := range slices.Backward(order[:k]) {
				grants[j].ReleaseAsync(ctx)
			}
			return nil, fmt.Errorf("%q: %w", requests[i].lock.name, err)
		}
		grants[i] = g
	}
	return grants, nil
}

func checkRequests(requests []Request) error {
	if len(requests) == 0 {
		return &lockagent.OptionError{Option: "request", Reason: "there is none; name at least one lock"}
	}
	for i, r := range requests {
		if r.lock == nil {
			return &lockagent.OptionError{Option: "request", Reason: fmt.Sprintf("number %d is of no lock; make it with Lock.With", i)}
		}
	}
	return nil
}

// outcome is the error of a grant as it was received. One that was taken back
// before, because ctx ended, says so.
func outcome(ctx context.Context, g lockagent.Grant) error {
	err := g.Err()
	if errors.Is(err, lockagent.ErrNotGranted) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// receive receives what is in c or, if nothing is there yet, what comes before ctx
// ends. Otherwise it returns the cause of ctx.
func receive[T any](ctx context.Context, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	default:
	}
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}
