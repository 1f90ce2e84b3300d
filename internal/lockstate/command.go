package lockstate

import (
	"time"

	"github.com/lockagent/lockagent"
)

// RequestID identifies a request within its agent. It is [Moment].Fresh of the step in which
// the request arrived, and never 0.
type RequestID uint64

// CallID identifies a call to release, to leave or to break. An [Unlocked] event answers the call. After an [AskBreak]
// event the shell answers it. The shell chooses the id, which is never 0.
type CallID uint64

// Mode says which other grants may be held at the same time.
type Mode uint8

// The modes.
const (
	// Exclusive: none, except those of the same session.
	Exclusive Mode = iota
	// Shared: other Shared grants, in this agent and in others.
	Shared
)

// Request is one wish to hold the lock.
type Request struct {
	ID      RequestID // set on arrival
	Arrived Instant   // set on arrival
	Owner   lockagent.Owner
	Mode    Mode
	Permits int           // of a semaphore; the same as 1 if it is 0
	Lease   time.Duration // fixed, or 0 for a kept lease
	Try     bool          // do not wait
	Session bool          // Owner may hold the lock several times
	NoRest  bool          `json:",omitempty"` // the lock goes back when the hold has ended, and does not rest
	Outlive bool          `json:",omitempty"` // the fixed lease lasts even if this process ends: see [State.covered]

	// Holds is how many holds the owner wants to make of the grant, one after the other. Each has a token of its own. 0
	// is 1.
	Holds uint16 `json:",omitempty"`
}

// Command is input of a step: one of the types below, or [Extend].
type Command interface{ command() }

// Commands from the owners of this agent and from the shell.
type (
	// Acquire asks for the lock. The [Requested] event tells the id of the request.
	Acquire struct{ Request Request }

	// Cancel ends the wait of a request with Err, because its time has passed or its context
	// has ended. If the lock has been granted already, a [Reclaiming] event follows, unless somebody
	// is known to have received the grant.
	Cancel struct {
		ID       RequestID
		TimedOut bool
		Err      error
	}

	// Release gives up one grant. Call is answered. ID is 0 if Owner has received no grant that it could give up. The
	// answer is then an error. Lost is why the owner counts the hold as lost, or 0: the end of the hold is such a
	// loss then.
	Release struct {
		ID    RequestID
		Owner lockagent.Owner
		Call  CallID
		Lost  lockagent.LossReason
	}

	// Unclaimed says that nobody has the grant of a request: the shell took it back out of
	// its channel, or the application dropped it.
	Unclaimed struct{ ID RequestID }

	// Break ends all holds of the lock. Call is answered. If this agent does not hold the lock
	// alone, an [AskBreak] event follows: the shell asks the store, and answers. A Break with a Token
	// ends only the hold of this agent that has the token. If there is no such hold, the answer is
	// [lockagent.ErrNotHeld].
	Break struct {
		Call     CallID
		Operator string
		Token    lockagent.Token
	}

	// OwnerGone ends all requests and holds of an owner. Call is answered.
	OwnerGone struct {
		Owner lockagent.Owner
		Call  CallID
	}

	// Close ends all requests and holds. Nothing is granted any more.
	Close struct{}

	// Detach leaves the lock to another process, see [Resume]. Requests are answered as by Close, and the answer to
	// a call is [lockagent.ErrUnconfirmed]. Nothing is given back, and no hold ends.
	Detach struct{}

	// Tick says that the instant of [State.Alarm] has come.
	Tick struct{}
)

// Messages of the store. Tenure is the number of a tenure of this agent. Messages may be
// late or repeated.
type (
	// Woken says that an attempt may now succeed. If All is set, messages to those who wait may have
	// been lost, and the store may have taken their places: then each waiter has to ask.
	Woken struct{ All bool }

	// Passed says that a release passed the lock to the tenure.
	Passed struct {
		Tenure      uint64
		Token       lockagent.Token     // of the first hold
		At          lockagent.StoreTime // when the store passed the lock
		Clock       string              // the store's clock that showed At
		Incarnation string              // of the store
		Outsiders   int                 // how many wait
		Contested   bool                // an agent waits that cannot have the lock while the tenure has it
		Unconfirmed bool                // the store does not vouch for the pass: the tenure does not begin by it
	}

	// Standby says that a release passed the lock to a tenure ahead of this one in the
	// store's queue. Remaining is what is left of the lease of the other tenure.
	Standby struct {
		Tenure    uint64
		Remaining time.Duration
	}

	// Wanted says that another agent waits for the lock that the tenure has.
	Wanted struct{ Tenure uint64 }

	// Broken says that Operator broke the tenure.
	Broken struct {
		Tenure   uint64
		At       lockagent.StoreTime // when it was over in the store
		Operator string
	}

	// Missed says that messages of the store may have been lost.
	Missed struct{}

	// Vacate says that a request of this agent uses the name as another kind of lock. A tenure that
	// rests is returned: no message of the store would tell the agent that the lock is wanted.
	Vacate struct{}

	// StoreReset says that the store may have forgotten the tenure: it is another incarnation.
	StoreReset struct{}
)

// The store's answers, with the number of the tenure that the call was about. [Attempted]
// asks for an AcquireReplied, [Renewing] for a RenewReplied, [Returning] and [Withdrawing] for a
// ReleaseReplied, and [Disowning] for a DisownReplied.
type (
	AcquireReplied struct {
		Tenure uint64
		Reply  lockagent.AcquireReply
		Err    error

		sibling bool // another part of a [Fair] has the tenure that the reply names as the holder
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
func (Vacate) command()         {}
func (Missed) command()         {}
func (StoreReset) command()     {}
func (AcquireReplied) command() {}
func (RenewReplied) command()   {}
func (ReleaseReplied) command() {}
func (DisownReplied) command()  {}
