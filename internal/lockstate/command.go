package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// RequestID identifies a request within its agent. It is the Fresh number of the
// step in which the request arrived, and never 0.
type RequestID uint64

// CallID identifies a call that is answered by an [Unlocked] event. It is chosen
// by the shell and never 0.
type CallID uint64

// Request is one wish to hold the lock.
type Request struct {
	ID      RequestID // set on arrival
	Arrived Instant   // set on arrival
	Owner   lockagent.Owner
	Lease   time.Duration // fixed, or 0 for a lease that is kept
	Try     bool          // do not wait
	Session bool          // Owner may hold the lock several times
}

// Command is what may be said to a lock. The concrete types are below.
type Command interface{ command() }

type (
	// Acquire asks for the lock. Requested tells the id that the request got.
	Acquire struct{ Request Request }

	// Cancel ends the wait of a request with Err: because its time had passed, or
	// because its context ended. If the request has been granted, but nobody may
	// have received the grant yet, the shell is asked to take it back.
	Cancel struct {
		ID       RequestID
		TimedOut bool
		Err      error
	}

	// Release gives up one grant: the one of request ID, or, if that is 0, the
	// youngest of Owner. Call is answered.
	Release struct {
		ID    RequestID
		Owner lockagent.Owner
		Call  CallID
	}

	// Unclaimed says that the shell took the grant of a request back out of its
	// channel.
	Unclaimed struct{ ID RequestID }

	// Break ends the hold, whoever has it. Call is answered; if this agent does
	// not hold the lock, by the shell, after it asked the store.
	Break struct{ Call CallID }

	// OwnerGone ends everything an owner holds or waits for. Call is answered.
	OwnerGone struct {
		Owner lockagent.Owner
		Call  CallID
	}

	// Close ends everything. Nothing is granted any more.
	Close struct{}

	// Woken says that an attempt may newly succeed.
	Woken struct{}

	// Passed says that the lock was passed on to a tenure of this agent in the store's
	// queue. A pass to another agent is none of ours. One whose token is not above a
	// floor that the agent knows must not be granted from: the shell makes it a Woken,
	// and the next attempt, which finds its own tenure, has tokens above the floor.
	Passed struct{ Pass lockagent.Pass }

	// StoreReset says that the store may have forgotten the tenure.
	StoreReset struct{}

	// Tick says that the instant of [State.Alarm] has come.
	Tick struct{}

	// AcquireReplied, RenewReplied and ReleaseReplied answer the store calls that
	// Attempted, Renewing and Returning asked for, by their tenure's number.
	AcquireReplied struct {
		Tenure uint64
		Reply  lockagent.AcquireReply
		Err    error
	}
	RenewReplied struct {
		Tenure uint64
		Reply  lockagent.RenewReply
		Err    error
	}
	ReleaseReplied struct {
		Tenure uint64
		Reply  lockagent.ReleaseReply
		Err    error
	}
)

func (Acquire) command()        {}
func (Cancel) command()         {}
func (Release) command()        {}
func (Unclaimed) command()      {}
func (Break) command()          {}
func (OwnerGone) command()      {}
func (Close) command()          {}
func (Woken) command()          {}
func (Passed) command()         {}
func (StoreReset) command()     {}
func (Tick) command()           {}
func (AcquireReplied) command() {}
func (RenewReplied) command()   {}
func (ReleaseReplied) command() {}
