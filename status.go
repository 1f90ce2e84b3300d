package lockagent

import "time"

// Status describes a lock at one moment. It may be out of date when the caller reads it.
// Do not decide by it whether to use the resource that the lock protects.
//
// The zero Status describes a lock that nobody holds.
type Status struct {
	Name   Name
	Locked bool

	// Holder has the lock, as the store writes it: the text of a [Tenure], or the text that
	// another program put there.
	Holder string
	// Remaining is what is left of the lease in the store. It is negative if the lease has no
	// end, and 0 if nobody holds the lock.
	Remaining time.Duration

	// Owner and Token are set if the asked agent has the lock. HoldCount is then the number
	// of the owner's grants. Otherwise it is the count in the store. That of an agent is 1, but for an agent whose
	// identity is not of [NewAgentID]: its count means nothing.
	Owner     Owner
	Token     Token
	HoldCount int

	// Resting says that the asked agent keeps the lock, and none of its owners holds it. Locked is false then. The
	// agent gives the lock to its next request, and gives it back when another agent wants it. Other agents see it as
	// Locked.
	Resting bool

	// Waiters is the number of requests that wait in the asked agent.
	Waiters int
}

// HeldBy reports whether owner holds the lock through the agent that was asked.
func (s Status) HeldBy(owner Owner) bool { return s.Locked && owner != "" && s.Owner == owner }

// Result is the answer to a question, on a channel: a value or an error. A closed channel
// yields the zero Result, which carries no error. So receive from such a channel only once.
type Result[T any] struct {
	Value T
	Err   error
}
