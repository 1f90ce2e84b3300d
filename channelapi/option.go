package channelapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// AcquireOption changes how a lock is asked for. An option that makes no sense
// becomes the error of the grant.
type AcquireOption interface {
	apply(*actor.Request) error
}

type acquireOption func(*actor.Request) error

func (o acquireOption) apply(r *actor.Request) error { return o(r) }

// Wait bounds the wait for the lock. When d has passed the request ends with
// [lockagent.ErrTimeout]. It works beside the deadline of the context: whichever
// is first. d must be positive; to not wait at all use [Try].
func Wait(d time.Duration) AcquireOption {
	return acquireOption(func(r *actor.Request) error {
		if d <= 0 {
			return &lockagent.OptionError{Option: "wait", Reason: fmt.Sprintf("%v is not positive; use Try to not wait at all", d)}
		}
		r.Wait = d
		return nil
	})
}

// Lease asks for a fixed lease: the lock is held for at most d, is not renewed,
// and expires with [lockagent.LostExpired]. d must be between
// [lockagent.MinLease] and [lockagent.MaxLease]. Without it the lease is kept: it
// is renewed as long as this process lives and reaches the store.
//
// The holder is told a little before d has passed: the margin that its clock may
// need, a tenth of d but at most two seconds.
func Lease(d time.Duration) AcquireOption {
	return acquireOption(func(r *actor.Request) error {
		r.Lease = d
		return lockagent.CheckLease(d)
	})
}

// Try asks not to wait: if the lock is held, the request ends with a
// [*lockagent.HeldError] as soon as that is known.
func Try() AcquireOption {
	return acquireOption(func(r *actor.Request) error {
		r.Try = true
		return nil
	})
}

// applyAll returns everything that is wrong with the options, joined.
func applyAll(r *actor.Request, opts []AcquireOption) error {
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, &lockagent.OptionError{Option: "option", Reason: fmt.Sprintf("number %d is nil; leave it out", i)})
			continue
		}
		errs = append(errs, o.apply(r))
	}
	if r.Try && r.Wait != 0 {
		errs = append(errs, &lockagent.OptionError{Option: "wait", Reason: "Wait and Try exclude each other; leave one of them out"})
	}
	return errors.Join(errs...)
}
