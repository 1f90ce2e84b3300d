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

// Mode says who may hold the lock beside a grant.
type Mode uint8

// The modes.
const (
	// Exclusive: nobody else.
	Exclusive Mode = iota
	// Shared: others whose grants are Shared, here and in tenures of other agents.
	Shared
)

// Request is one wish to hold the lock.
type Request struct {
	ID      RequestID // set on arrival
	Arrived Instant   // set on arrival
	Owner   lockagent.Owner
	Mode    Mode
	Lease   time.Duration // fixed, or 0 for a lease that is kept
	Try     bool          // do not wait
	Session bool          // Owner may hold the lock several times
}

// Command is what may be said to a lock. The concrete types are below.
type Command interface{ command() }

// What the owners of this agent want.
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

	// Release gives up one grant. Call is answered. If ID is 0, Owner has received
	// no grant that it could give up, and the answer says so.
	Release struct {
		ID    RequestID
		Owner lockagent.Owner
		Call  CallID
	}

	// Unclaimed says that the shell took the grant of a request back out of its
	// channel.
	Unclaimed struct{ ID RequestID }

	// Break ends the holds of this agent. Call is answered; if this agent does
	// not hold the lock, by the shell, after it asked the store.
	Break struct{ Call CallID }

	// OwnerGone ends everything an owner holds or waits for. Call is answered.
	OwnerGone struct {
		Owner lockagent.Owner
		Call  CallID
	}

	// Close ends everything. Nothing is granted any more.
	Close struct{}

	// Detach leaves the lock to another process, see [State.Snapshot]. Requests and calls
	// are answered as on closing. Nothing is given back, and no hold ends.
	Detach struct{}

	// Tick says that the instant of [State.Alarm] has come.
	Tick struct{}
)

// What the store says without being asked. The tenures are those of this agent, by
// their numbers. Any of this may be late or repeated.
type (
	// Woken says that an attempt may newly succeed.
	Woken struct{}

	// Passed says that a release passed the lock to the tenure.
	Passed struct {
		Tenure      uint64
		Token       lockagent.Token
		At          lockagent.StoreTime
		Clock       string
		Incarnation string
		Outsiders   int
	}

	// Standby says that a release passed the lock to the tenure in front of this one
	// in the store's queue, with so much of its lease remaining.
	Standby struct {
		Tenure    uint64
		Remaining time.Duration
	}

	// Wanted says that another agent waits for what the tenure has.
	Wanted struct{ Tenure uint64 }

	// Broken says that somebody broke the tenure.
	Broken struct {
		Tenure uint64
		At     lockagent.StoreTime
	}

	// Missed says that messages of the store may have been lost.
	Missed struct{}

	// StoreReset says that the store may have forgotten the tenure.
	StoreReset struct{}
)

// What the store answers to the calls that [Attempted], [Renewing], [Returning] or
// [Withdrawing], and [Disowning] asked for, by the number of their tenure.
type (
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
	DisownReplied struct {
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
func (Detach) command()         {}
func (Tick) command()           {}
func (Woken) command()          {}
func (Passed) command()         {}
func (Standby) command()        {}
func (Wanted) command()         {}
func (Broken) command()         {}
func (Missed) command()         {}
func (StoreReset) command()     {}
func (AcquireReplied) command() {}
func (RenewReplied) command()   {}
func (ReleaseReplied) command() {}
func (DisownReplied) command()  {}
