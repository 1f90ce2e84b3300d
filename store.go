package lockagent

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Store arbitrates locks between agents. Packages redisstore and memstore implement it. A Store serves one agent.
//
// # A store of your own
//
// These six methods are what every store has. To write one for plain locks, read this file only, and follow
// examples/filestore. What a store may have beside are layers, each an interface with a page of its own. Use [Layer] to
// ask a store for one:
//
//	Messages  tells agents what happens to their tenures
//	Queue     passes a lock that is released to the tenure that waited longest
//	Rests     lets an agent keep a lock while nobody holds it
//	Operator  breaks locks, and tells who has them
//	Counters  has semaphores and latches
//	History   tells what audits, and stores made of stores, have to know of the past
//	Grace     has the holders come back to a store that has forgotten them
//
// The kinds of locks beside plain ones have pages, too, see [LockKind] and [Mode]. So have replicas, see
// [ReplicasError].
//
// Package storetest has this contract as a suite of tests, with chapters for every store and for each layer. An agent
// works with a store of any layers. It makes no use of those that are not there, and refuses what needs one with an
// [*OptionError]. Without History its events name no store, so an audit does not prove what this agent does.
//
// A comment on a field says which layer or kind it is for. The field is zero, and ignored, in a store without that.
//
// # Calls
//
// Every call is asynchronous: its method does not wait for the store. The store calls done
// exactly once, from any goroutine, possibly before the method has returned. done must not
// block. A call costs no goroutine of its own. The store bounds the time of each call: when
// the bound has passed, the error is [ErrStoreUnavailable].
//
// The context carries values, such as a trace. A context that ends does not end the call. There is one exception,
// which a store of your own need not know: package redisstore may make a call in the goroutine of a caller who only
// waits for the outcome. The agent marks the context of such a call. If that context ends, the call may end with an
// error that is not definite.
//
// A store holds no mutex while it calls done, wake, hear or the f of OnReset: these
// functions may call the store again.
//
// # Errors
//
// [ErrWrongType], [ErrWrongKind], [ErrLatchGone], [ErrNotPermitted], [ErrNoTokens], [ErrWithdrawn], [ErrBadName] and
// [ErrBadOption] are definite: the call had no effect, and trying again will not help. [ErrTooFewReplicas] of an
// Acquire is definite, too. Trying again does not help after [ErrClosed] either. But a call that was under way when the
// store was closed may have taken effect, so close the agent before its store. [Definite] knows these errors, and
// [ErrDeleted], which is the agent's, see [Counters].
//
// A [*GraceError] of an Acquire, a Break or a change of permits is not definite, but that call neither granted nor
// broke nor changed anything. See [Grace].
//
// After any other error the call may have taken effect, or may do so later. Then make the
// same call again, or release the tenure. Every call can be repeated.
//
// # Tenures
//
// A store knows tenures. It does not know the owners of an agent. A tenure is an agent and a
// number that is used once. So a repeated or late call never touches another tenure than
// its own.
//
// # Kinds
//
// Every call names the [LockKind] of its lock. A store that does not have a kind answers with an [*OptionError].
//
// # Tokens
//
// A tenure begins at a time T of the store's clock, in microseconds. Its k-th hold has the
// token T + k - 1. For example: the first three holds of a tenure that begins at 5000 have
// the tokens 5000, 5001 and 5002. T is greater than every token that the lock had before.
// The store's clock never goes back.
//
// # Concurrency
//
// A Store is safe for concurrent use. An agent never has an Acquire and a Release of one
// tenure under way at once. A Release may overtake a Renew of its tenure: the reply to that
// Renew does not matter. After a reset no Release should overtake a Renew, see [Grace].
type Store interface {
	// Acquire tries once to begin a tenure. It is granted if the lock is free. It is also
	// granted if this tenure has the lock already, by a call whose reply was lost. The
	// lease then starts anew, and never ends earlier than before. The error is [ErrWithdrawn]
	// if the tenure was withdrawn before: only a late call meets that.
	Acquire(ctx context.Context, req AcquireRequest, done func(AcquireReply, error))

	// Renew starts the lease of a tenure anew. It never shortens the lease. A store may put a
	// renewal off, to gather several: for a small part of the lease, and for at most a tenth
	// of a second.
	Renew(ctx context.Context, req RenewRequest, done func(RenewReply, error))

	// Release ends a tenure, and wakes the waiters. If the request is Unanswered, Release
	// also withdraws the tenure: an Acquire of the tenure that arrives within a minute has no
	// effect.
	Release(ctx context.Context, req ReleaseRequest, done func(ReleaseReply, error))

	// Subscribe calls wake whenever another Acquire of the lock may succeed:
	//
	//   - when the subscription stands, for the first time or after an interruption;
	//   - when the store is closed: every Acquire says so;
	//   - at every Release or Break that frees the lock.
	//
	// Wake-ups may be spurious, and may be lost. So a waiter also tries again when the
	// holder's lease is over. wake must not block. The store may call wake once more after
	// cancel has returned.
	Subscribe(name Name, kind LockKind, wake func()) (cancel func())

	// OnReset calls f when the store turns out to be another incarnation than before: it was
	// restarted, flushed, or replaced by a replica. It also calls f when somebody has set the
	// store's clock, because leases may have ended early. f must not block.
	OnReset(f func(Reset)) (cancel func())

	// Close ends all calls under way with ErrClosed, and ends all that the store has running
	// in this process. It frees no lock. It may be called again.
	Close() error
}

// MaxTenure is the greatest number of a [Tenure]: Lua counts up to it without a gap.
const MaxTenure = 1<<53 - 1

// Tenure identifies one agent's time with a lock in the store.
type Tenure struct {
	Agent  AgentID
	Number uint64 // between 1 and MaxTenure; an agent uses each number once for a lock
}

// String is the tenure as stores write it: the agent, a colon, the number.
func (t Tenure) String() string { return string(t.Agent) + ":" + strconv.FormatUint(t.Number, 10) }

// ParseTenure is the inverse of [Tenure.String]. It reports false for any other text, such
// as a holder that another program wrote.
func ParseTenure(s string) (Tenure, bool) {
	agent, number, found := strings.Cut(s, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	t := Tenure{Agent: AgentID(agent), Number: n}
	if !found || err != nil || t.Check() != nil || t.String() != s {
		return Tenure{}, false
	}
	return t, true
}

// StoreTime is an instant on the clock of a store, in microseconds since 1970. Two
// StoreTimes of one lock in one store can be compared. No StoreTime can be compared with
// the clock of an agent.
type StoreTime int64

// Add returns t + d. It drops the part of d below a microsecond.
func (t StoreTime) Add(d time.Duration) StoreTime { return t + StoreTime(d.Microseconds()) }

// Sub is the time from u to t.
func (t StoreTime) Sub(u StoreTime) time.Duration { return time.Duration(t-u) * time.Microsecond }

// AcquireRequest asks for a tenure.
type AcquireRequest struct {
	Name   Name
	Kind   LockKind
	Mode   Mode // the same in all Acquires of a tenure
	Tenure Tenure
	Lease  time.Duration // between MinLease and MaxLease; the store rounds it up to its unit

	// Floor is the greatest token of this lock that the agent knows of, or 0. The tenure
	// begins above it, even if the store has forgotten the lock.
	Floor Token

	// The fields below ask for what a layer gives, and its page tells of them.

	Queue       bool      // asks for a place, see [Queue]
	Arrived     StoreTime // see [Queue]
	Rests       bool      // asks for a tenure that may rest, see [Rests]
	Contends    bool      // of a [SpinLock]
	Permits     int       // see [Counters], as the next one
	FoundClosed bool
	Exact       bool // see [History]
}

// AcquireReply answers an [AcquireRequest].
type AcquireReply struct {
	Granted bool

	// Token is the token of the tenure's first hold. Only if granted.
	Token Token
	// At is when the store decided.
	At StoreTime
	// Incarnation names the present incarnation of the store. It is empty if the store cannot
	// tell. A store that lost its data has a new one.
	Incarnation string

	// Holder has the lock instead: the text of a [Tenure], or the text that another program
	// wrote. Only if not granted.
	Holder string
	// Remaining is for how long the lock stays busy if no call ends that earlier: until the holder's lease is over. It
	// is negative if that has no end. Only if not granted.
	Remaining time.Duration

	// The fields below are zero without the layer, whose page tells of them.

	Queued      bool // see [Queue], as the next three
	AskWithin   time.Duration
	Outsiders   int
	Contested   bool
	Rests       bool // see [Rests], as the next one
	HolderRests bool
	NotSet      bool // see [Counters], as the next one
	Total       int
	Clock       string // see [History]
	Replicas    int    // see [ReplicasError]
}

// RenewRequest asks for more time in a tenure.
type RenewRequest struct {
	Name   Name
	Kind   LockKind
	Tenure Tenure
	Lease  time.Duration

	// Mode [Shared] makes an exclusive tenure of a [ReadWriteLock] shared: the downgrade. Any other mode
	// leaves the tenure as it is.
	Mode Mode

	// Urgent says that little is left of the lease: the store does not put the renewal off.
	Urgent bool

	Watched bool  // see [Queue]; a store without ignores it
	Last    Token // see [Grace], as the next two; a store without ignores them
	Permits int
	Total   int
}

// RenewReply answers a [RenewRequest].
type RenewReply struct {
	// Held is false if the tenure is over: the lock is free, or another's.
	Held bool
	At   StoreTime

	Contested bool // see [Queue]; zero without
	Replicas  int  // see [ReplicasError]; zero without replicas
}

// ReleaseRequest ends a tenure.
type ReleaseRequest struct {
	Name   Name
	Kind   LockKind
	Tenure Tenure

	// Last is the token of the tenure's last hold, or 0 if it had none. Later tenures
	// begin above it.
	Last Token
	// Unanswered says that an Acquire of the tenure had no reply, so it may still arrive.
	Unanswered bool

	Trace string // see [Queue]; a store without ignores it
}

// ReleaseReply answers a [ReleaseRequest].
type ReleaseReply struct {
	// Released is false if the tenure did not have the lock: it was over, had never begun,
	// or was released by an earlier call whose reply was lost.
	Released bool
	// At is when the tenure was released, or found not to have the lock.
	At StoreTime
	// Others is the least number of other agents that the Release woke, or -1 if the store
	// cannot tell. An agent that gets -1 yields as if there were some.
	Others int

	Passed bool // see [Queue]; zero without
}

// Reset says that a store is another incarnation than before.
type Reset struct {
	// From and To name the incarnations before and after. They are equal if only the clock
	// was set, or the store has another identity: nothing was forgotten.
	From, To string
	// Reason is for people: "restarted", "emptied", "failed over", "clock stepped",
	// "other identity".
	Reason string
	// The reset happened between After and Before. Both are zero if the store has no [History].
	// After is the last known time of the old incarnation, on its clock. Before is the first
	// known time of the new incarnation, on its clock.
	After, Before StoreTime
	// Step is by how much the clock was set forward, or back if it is negative. It is an
	// estimate, and 0 if the clock was not set or nobody knows. After and Before are readings of
	// the clock, perhaps many minutes apart: they only tell when it was set.
	Step time.Duration
	// Store is the identity of the store before the reset, if it has another one now. Only with a [History].
	Store string
}
