package channelapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Option changes the requests of a handle. Pass it to [Locks.Lock] or [Session.Lock]. If an
// option is wrong, every request of the handle ends with the error.
type Option interface{ apply(*actor.Request) error }

type option func(*actor.Request) error

func (o option) apply(r *actor.Request) error { return o(r) }

// Wait bounds the wait for the lock, and nothing else. When d has passed, the request ends
// with a [*WaitError] that is [ErrTimeout]. The deadline of the context may end the wait
// earlier. If d is not positive, as in Wait(time.Until(past)), the request times out at
// once, without a call to the store. To ask once and not wait, use [Try].
//
// The waits for several locks, as with [All] and [First], count from the same moment: the call.
func Wait(d time.Duration) Option {
	return option(func(r *actor.Request) error {
		r.Wait = d
		if d <= 0 {
			r.Wait = -1
		}
		return nil
	})
}

// Try makes the request not wait. If somebody holds the lock, the request ends with a
// [*HeldError] as soon as the agent or the store says so. If the store may have forgotten who holds
// it, the request ends with a [*GraceError], which tells when to try again.
func Try() Option {
	return option(func(r *actor.Request) error {
		r.Try = true
		return nil
	})
}

// Lease asks for a fixed lease. The agent does not renew it: the hold lasts for at most d,
// and then ends with [LostExpired]. d must be between [MinLease] and [MaxLease]. Without
// this option the lease is kept: the agent renews it as long as this process lives and
// reaches the store.
//
// The hold ends a little before d has passed, by Config.Margin. [lockagent.Grant.Extend] restarts a
// fixed lease. The holds of a [Session] have one lease of a lock, see there.
func Lease(d time.Duration) Option {
	return option(func(r *actor.Request) error {
		r.Lease = d
		return lockagent.CheckLease(d)
	})
}

// NoRest has the lock go back to the store when the hold ends, and not rest in this process: see Config.NoRest. It is
// for a lock that other programs ask for without a wait, or look at.
func NoRest() Option {
	return option(func(r *actor.Request) error {
		r.NoRest = true
		return nil
	})
}

// Outlive leaves a fixed lease in the store when the [Locks] are closed or shut down: nobody
// else is granted the lock before the lease has run out. For this process the hold ends with
// [LostClosed]. A release of the grant ends the lease as usual, and so does [Session.Close].
// Outlive is for work that must happen only once in a period, even if the process restarts or dies. So the lock is
// granted only when the store has confirmed the whole lease. [Locks.Shutdown] does not wait for such holds.
//
// It needs [Lease]. A session that holds the lock already, for a shorter time, is refused with an [*OptionError]:
// extend that hold. For example, a report that goes out once a day:
//
//	lock := locks.Lock("report", Try(), Lease(24*time.Hour), Outlive())
//	if _, err := lock.Acquire(ctx); err == nil {
//		send() // and do not release the grant
//	}
func Outlive() Option {
	return option(func(r *actor.Request) error {
		r.Outlive = true
		return nil
	})
}

// requestOf applies the options to a request. Its error joins all that is wrong with them.
func requestOf(kind *actor.Request, opts []Option) (*actor.Request, error) {
	r := *kind
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, &OptionError{
				Option: "option", Reason: fmt.Sprintf("number %d is nil; leave it out", i),
			})
			continue
		}
		errs = append(errs, o.apply(&r))
	}
	if r.Try && r.Wait != 0 {
		errs = append(errs, &OptionError{
			Option: "wait", Reason: "Wait and Try exclude each other; leave one of them out",
		})
	}
	if r.Outlive && r.Lease == 0 {
		errs = append(errs, &OptionError{
			Option: "outlive", Reason: "a lease that is kept ends with whoever keeps it; add Lease",
		})
	}
	return &r, errors.Join(errs...)
}
