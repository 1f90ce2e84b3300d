package channelapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Option says how a lock is asked for. It stands with the name of the lock, in
// [Locks.Lock] and [Session.Lock]. An option that makes no sense becomes the error of each
// grant.
type Option interface{ apply(*actor.Request) error }

type option func(*actor.Request) error

func (o option) apply(r *actor.Request) error { return o(r) }

// Wait bounds the wait for the lock, and nothing else. When d has passed the request ends
// with a [*WaitError] that is [ErrTimeout]. It works beside the deadline of the context:
// whichever is first. If d is not positive, as in Wait(time.Until(past)), the time has
// passed already: the request times out and nobody is asked. To ask once and not wait
// use [Try].
func Wait(d time.Duration) Option {
	return option(func(r *actor.Request) error {
		r.Wait = d
		if d <= 0 {
			r.Wait = -1
		}
		return nil
	})
}

// Try asks not to wait: if the lock is held, the request ends with a [*HeldError] as
// soon as that is known.
func Try() Option {
	return option(func(r *actor.Request) error {
		r.Try = true
		return nil
	})
}

// Lease asks for a fixed lease: the lock is held for at most d, is not renewed, and
// expires with [LostExpired]. d must be between [MinLease] and [MaxLease]. Without it the
// lease is kept: it is renewed as long as this process lives and reaches the store.
//
// The holder is told a little before d has passed, by Config.Margin.
func Lease(d time.Duration) Option {
	return option(func(r *actor.Request) error {
		r.Lease = d
		return lockagent.CheckLease(d)
	})
}

// Outlive has a fixed lease stay in the store when the [Locks] are closed or shut down:
// nobody else is granted the lock before the lease has run out. For this process the hold is
// over then, with [LostClosed]. A release ends the lease as ever, and so does the close of a
// [Session]. It is for what may happen once in a period, even if those who do it are
// restarted. It makes sense with [Lease] only.
func Outlive() Option {
	return option(func(r *actor.Request) error {
		r.Outlive = true
		return nil
	})
}

// requestOf is what the options ask for. The error joins everything that is wrong with them.
func requestOf(opts []Option) (r actor.Request, err error) {
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, &OptionError{Option: "option", Reason: fmt.Sprintf("number %d is nil; leave it out", i)})
			continue
		}
		errs = append(errs, o.apply(&r))
	}
	if r.Try && r.Wait != 0 {
		errs = append(errs, &OptionError{Option: "wait", Reason: "Wait and Try exclude each other; leave one of them out"})
	}
	if r.Outlive && r.Lease == 0 {
		errs = append(errs, &OptionError{Option: "outlive", Reason: "a lease that is kept ends with whoever keeps it; add Lease"})
	}
	return r, errors.Join(errs...)
}
