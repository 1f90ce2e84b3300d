package lockagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// WaitError answers a request that was not granted in time, or whose context was cancelled.
// It tells a lock that is held from a store that is silent. For example, an HTTP server
// answers
//
//	case errors.Is(err, ErrStoreUnavailable): // 503: nobody knows who holds the lock
//	case errors.Is(err, ErrTimeout):          // 409: somebody else holds it
//
// A WaitError matches [ErrTimeout] and [context.DeadlineExceeded] if TimedOut is true, and
// otherwise [context.Canceled]. It matches [ErrStoreUnavailable] if Silent is positive, or if Store is a
// [*GraceError]. It wraps Err. Nothing changes a WaitError after it was made, so it is safe for concurrent
// use. The zero WaitError is of no use.
type WaitError struct {
	Name   Name
	Kind   LockKind      // as which the request used the name; empty if it was for several names
	Waited time.Duration // since the lock had the request, which is a little later than the call on a busy machine
	// Holder held the lock when the agent last knew. It is an [Owner] of this agent, or the
	// text in the store. It is empty if the agent never knew.
	Holder string
	// Silent is how long the store has not answered this agent about this lock. It is 0 if
	// the store answered the last call, or if the last call has only just begun.
	Silent time.Duration
	// Permits is how many permits of a semaphore the request wanted. It is 0 for a lock.
	Permits int
	// TimedOut says that the wait of the request passed, or that its context reached its
	// deadline. Otherwise the context was cancelled.
	TimedOut bool
	// Err is [ErrTimeout] if the wait of the request passed, and otherwise the cause of its
	// context.
	Err error
	// Store is the error of the last call to the store. It is nil if the store is not silent,
	// or if the agent still waits for the answer. If the wait ended in a grace period of the store,
	// Store is a [*GraceError], and Silent is 0.
	Store error
}

func (e *WaitError) Error() string {
	var b strings.Builder
	ended := "was cancelled"
	if e.TimedOut {
		ended = "timed out"
	}
	what := "lock"
	switch {
	case e.Permits > 0 || e.Kind == Semaphore || e.Kind == Permits:
		what = "permits of"
	case e.Kind == Latch:
		what = "latch"
	}
	fmt.Fprintf(&b, "lockagent: wait for %s %q %s after %v", what, e.Name, ended, e.Waited)
	switch free, total, known := freePermits(e.Holder); {
	case e.Permits > 0 && e.Holder == PermitsNotSet:
		b.WriteString("; nobody had set their number: set it with TrySetPermits")
	case e.Permits > 0 && known && e.Permits > total && e.Kind == Semaphore: // other programs may have more
		fmt.Fprintf(&b, "; %d were wanted, more than the %d that are free or known to be taken", e.Permits, total)
	case e.Permits > 0 && known && e.Permits > total:
		fmt.Fprintf(&b, "; %d were wanted, more than the %d that there are", e.Permits, total)
	case e.Permits > 0 && known:
		fmt.Fprintf(&b, "; %d were wanted, and %d were free", e.Permits, free)
	case e.Permits > 0:
		fmt.Fprintf(&b, "; %d were wanted", e.Permits)
	case e.Holder != "":
		fmt.Fprintf(&b, "; it was held by %q", e.Holder)
	}
	if e.Silent > 0 {
		fmt.Fprintf(&b, "; the store has not answered for %v", e.Silent)
	}
	switch grace, waits := errors.AsType[*GraceError](e.Store); {
	case waits:
		fmt.Fprintf(&b, "; %s", grace.reason())
	case e.Store != nil:
		fmt.Fprintf(&b, " (%v)", e.Store)
	}
	//nolint:errorlint // an error that wraps one of these says more than ended
	if e.Err != nil && e.Err != ErrTimeout && e.Err != context.DeadlineExceeded && e.Err != context.Canceled {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is reports whether e matches target, as [WaitError] says. It also matches all that Store
// matches.
func (e *WaitError) Is(target error) bool {
	switch target {
	case ErrTimeout, context.DeadlineExceeded:
		return e.TimedOut
	case context.Canceled:
		return !e.TimedOut
	case ErrStoreUnavailable:
		return e.Silent > 0 || errors.Is(e.Store, ErrGrace)
	}
	return e.Store != nil && errors.Is(e.Store, target)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }
