package lockagent

import "time"

// Status is what is known of a lock at one moment. It may be out of date when it
// is read: never decide by it whether to use what the lock protects.
//
// The zero Status is that of a lock that nobody holds.
type Status struct {
	Name   Name
	Locked bool

	// Holder is who has the lock, as the store writes it: an agent and the number
	// of its tenure, or whatever another program put there.
	Holder string
	// Remaining is what is left of the lease in the store; negative if it has no
	// end, 0 if nobody holds the lock.
	Remaining time.Duration

	// Owner, Token and HoldCount are known if the asked agent is the holder;
	// otherwise HoldCount is what the store says.
	Owner     Owner
	Token     Token
	HoldCount int

	// Waiters is how many requests wait in the asked agent.
	Waiters int
}

// HeldBy reports whether owner holds the lock through the agent that was asked.
func (s Status) HeldBy(owner Owner) bool { return s.Locked && owner != "" && s.Owner == owner }

// Result is what a channel delivers that answers a question: a value, or the
// error that stands in its way. The zero Result carries no error, so receive
// from a channel of results only once.
type Result[T any] struct {
	Value T
	Err   error
}
