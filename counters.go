package lockagent

import "context"

// Counters is a layer of a [Store]: it has semaphores and latches. Without it, an agent refuses calls about either with
// an [*OptionError], and the fields of requests and replies that name the layer are zero.
//
// # Permits
//
// A tenure of a semaphore has one or several permits in place of the lock. So several tenures have permits at once.
// An Acquire is granted if enough permits are free, and no other tenure with a place comes first. A semaphore that
// nobody has set has no permits, and no queue. Its waiters wait until somebody sets it. If a request finds no number
// where it has found one before, the agent takes that for a deletion: the request ends with [ErrDeleted]. If the tenure
// had a place, its Acquire wakes the others. A tenure of a semaphore that was deleted is over, also if the name is in
// use as another kind by now.
//
// A Release passes the free permits to the tenures in the queue, one after the other, as long as they suffice for the
// next. So a request for many permits is not kept out by requests for few. If permits are left for the next tenure, or
// have come back in another way than by a Release, the first tenures in the queue get a [MessageStandby] with nothing
// remaining: their Acquires are granted, one after the other.
//
// Of the kind [Permits] the store knows how many permits there are. A tenure that wants more than that has no place,
// and loses the one that it has. Its agent asks again when it is woken. Of the kind [Semaphore] other programs may have
// permits that the store does not know of, so no request is known to be too large.
//
// The permits of a tenure whose lease is over come back: each call to the semaphore sees to that, but for an Inspect,
// which only looks. A Break ends all tenures, and gives their permits back.
//
// # Latches
//
// Nobody holds a [Latch]. Acquire asks whether the latch is open, that is: whether there is none of that name. A
// grant means no more than that: there is no tenure, and nothing to renew or to release. If the latch is closed, Holder
// is empty, and Remaining negative. Renew, Release, Break and Inspect of a latch end with an [*OptionError].
//
// A latch that is not there any more may have been counted down to 0. Or it is gone for another reason: somebody
// deleted it, it expired, or the store lost its data. The store remembers for a minute that a latch was counted down.
// Otherwise a waiter that has found the latch closed before gets the error [ErrLatchGone].
//
// # In an AcquireRequest
//
// Permits is the number of permits that the tenure shall have, the same in all requests of a tenure. 0 is 1. Locks
// have only one.
//
// FoundClosed says that the waiter has found the latch closed before.
//
// # In an AcquireReply
//
// NotSet says that nobody has set the number of permits of the semaphore. Then Holder is empty, and Remaining
// negative. Only if not granted.
//
// Holder of a semaphore is "others (3 of 5 permits free)", with their numbers as in [PermitsReply]. Remaining is what
// is left of the lease that ends first.
//
// Total is the number of permits of a semaphore: those that are free, and those that are known to be taken, see
// [PermitsReply]. It is 0 if the tenure had its permits before: the number may have been lowered since. Only if
// granted.
type Counters interface {
	// Permits reads or changes the permits of a semaphore, whoever has them. A change that makes more permits free, or
	// of the kind [Permits] adds some, wakes all waiters. In a grace period the error of a change is a [*GraceError]: the
	// holders may come back, and with them the number, see [Grace].
	Permits(ctx context.Context, req PermitsRequest, done func(PermitsReply, error))
	// Latch reads or changes the count of a latch.
	Latch(ctx context.Context, req LatchRequest, done func(LatchReply, error))
}
