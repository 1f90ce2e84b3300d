package lockagent

import (
	"context"
	"time"
)

// Operator is a layer of a [Store]: somebody who holds no lock may look at locks, and free
// them. Without it, an agent refuses to break locks and to tell their status, with an [*OptionError].
type Operator interface {
	// Break frees a lock, whatever tenure or program has it. It wakes the waiters, and sends
	// [MessageBroken] to the agent of the tenure. It reports whether the lock was held. A key
	// that is no lock stays, and the error is [ErrWrongType]. In a grace period the error is a [*GraceError]: the
	// holder may come back, see [Grace].
	Break(ctx context.Context, req BreakRequest, done func(BreakReply, error))

	// Inspect tells what the store knows of a lock.
	Inspect(ctx context.Context, name Name, kind LockKind, done func(Inspection, error))
}

// BreakRequest frees a lock, whoever has it.
type BreakRequest struct {
	Name Name
	Kind LockKind
	// Operator is who breaks the lock: any text up to [MaxNameLen] bytes, or empty.
	Operator string
}

// BreakReply answers a [BreakRequest].
type BreakReply struct {
	// Broken is false if nobody held the lock.
	Broken bool
	// At is when the store broke the lock, or found it free.
	At StoreTime
}

// Inspection is what a store knows of one lock.
type Inspection struct {
	Held      bool
	Holder    string        // as in AcquireReply
	HoldCount int           // as the holder wrote it: always 1 for a Tenure of an agent whose identity is of NewAgentID
	Remaining time.Duration // negative if the lease has no end
}
