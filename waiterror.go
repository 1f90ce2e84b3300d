package lockagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// WaitError answers a request whose wait ended before the lock was granted: its time was
// over, or its context ended. It tells a lock that is held from a store that is silent:
// Holder says who held the lock, Silent for how long the store has not answered.
//
// It is [ErrTimeout] and [context.DeadlineExceeded] if TimedOut, [ErrStoreUnavailable]
// if the store is silent, and it wraps Err. It is not changed once it was made, so it is
// safe for concurrent use. The zero WaitError is of no use.
type WaitError struct {
	Name   Name
	Waited time.Duration // since the request was made
	// Holder is who held the lock when the agent last knew: an [Owner] of this agent, or
	// what the store says. It is empty if the agent never knew.
	Holder string
	// Silent is for how long the store has not answered this agent about this lock, or 0
	// if it has answered.
	Silent time.Duration
	// TimedOut says that the time was over: the wait of the request had passed, or the
	// deadline of its context, whatever cause that has. Otherwise the context was cancelled.
	TimedOut bool
	// Err is [ErrTimeout] if the wait of the request passed, or the cause of its context.
	Err error
	// Store is what the last call to the store failed with. It is nil if the store is not
	// silent, or if its answer is still awaited.
	Store error
}

func (e *WaitError) Error() string {
	var b strings.Builder
	ended := "was cancelled"
	if e.TimedOut {
		ended = "timed out"
	}
	fmt.Fprintf(&b, "lockagent: wait for lock %q %s after %v", e.Name, ended, e.Waited)
	if e.Holder != "" {
		fmt.Fprintf(&b, "; it was held by %q", e.Holder)
	}
	if e.Silent > 0 {
		fmt.Fprintf(&b, "; the store has not answered for %v", e.Silent)
	}
	if e.Store != nil {
		fmt.Fprintf(&b, " (%v)", e.Store)
	}
	if e.Err != nil && e.Err != ErrTimeout && e.Err != context.DeadlineExceeded && e.Err != context.Canceled {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is reports whether target is [ErrTimeout] or [context.DeadlineExceeded] and the time
// was over, or [ErrStoreUnavailable] and the store is silent, or what Store is.
func (e *WaitError) Is(target error) bool {
	switch target {
	case ErrTimeout, context.DeadlineExceeded:
		return e.TimedOut
	case ErrStoreUnavailable:
		return e.Silent > 0
	}
	return e.Store != nil && errors.Is(e.Store, target)
}

// Unwrap returns Err.
func (e *WaitError) Unwrap() error { return e.Err }
