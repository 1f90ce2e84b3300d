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
	select {
	case g := <-grant:
		return g, g.Err()
	default:
	}
	select {
	case g := <-grant:
		return g, g.Err()
	case <-ctx.Done():
		return lockagent.Grant{}, context.Cause(ctx)
	}
}

// Value receives the result of a question. If ctx ends first it returns the cause
// of ctx.
func Value[T any](ctx context.Context, result <-chan lockagent.Result[T]) (T, error) {
	select {
	case r := <-result:
		return r.Value, r.Err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
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
	if len(requests) == 0 {
		return -1, lockagent.Grant{}, errNoRequests
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
		if g.Err() == nil {
			return i, g, nil
		}
		errs = append(errs, fmt.Errorf("%q: %w", requests[i].lock.name, g.Err()))
		cases[i].Chan = reflect.ValueOf((<-chan lockagent.Grant)(nil)) // has delivered
	}
	return -1, lockagent.Grant{}, errors.Join(errs...)
}

// All asks for the locks one after the other, in the order of their names, so that
// callers who want the same locks never wait for each other in a circle. It
// returns the grants in the order of the requests. If one cannot be had it gives
// the others back and returns that one's error. Asking twice for one lock without a
// session is a [lockagent.OptionError], for it could only wait for itself.
func All(ctx context.Context, requests ...Request) ([]lockagent.Grant, error) {
	if len(requests) == 0 {
		return nil, errNoRequests
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
				grants[j].Release(ctx)
			}
			return nil, fmt.Errorf("%q: %w", requests[i].lock.name, err)
		}
		grants[i] = g
	}
	return grants, nil
}

var errNoRequests = &lockagent.OptionError{Option: "request", Reason: "there is none; name at least one lock"}

// wait receives an outcome, unless ctx ends first.
func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
