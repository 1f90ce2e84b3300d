package lockagent

import (
	"context"
	"strconv"
	"time"
)

// Store arbitrates locks between agents. It is the port behind which Redis, or
// memory, or a quorum of stores stands; package storetest holds the contract as
// a suite of tests that every implementation passes.
//
// # Calls
//
// Every call is asynchronous: the method returns without waiting for the store,
// and done is called exactly once, from any goroutine, possibly before the
// method has returned. done must not block. No call needs a goroutine of its
// own. The context carries values only, such as a trace. A store bounds the time of a
// call by itself and reports [ErrStoreUnavailable] when the bound is passed.
//
// A store holds no mutex while it calls done, wake or what OnReset was given: the
// agent goes on from there, and may call the store again before it returns.
//
// # Errors
//
// [ErrWrongType], [ErrNotPermitted], [ErrWithdrawn], [ErrBadName] and
// [ErrBadOption] are definite: the call had no effect, and trying again will not
// help. Trying again does not help after [ErrClosed] either, but a call that was
// under way when the store was closed may have taken effect: close the agents
// first. After any other error the call may have taken effect, now or later. All
// calls are idempotent, so the way out of that doubt is to make the same call
// again, or to Release.
//
// # Tenures
//
// What a store knows of is an agent's tenure, not the owners it serves. Each
// tenure has an identity that is used once: the numbers that an agent uses for
// one lock only grow. A repeated or late call can therefore never touch another
// tenure than its own.
//
// # Passing on
//
// A store may have a queue for each lock: the tenures that wait for it, in the order
// in which they came. A Release then passes the lock on to the tenure that has waited
// longest, in the same instant, and tells that one only, where it would wake everybody
// else and have all of them try. A store without a queue never says that it queued or
// passed on anything.
//
// A tenure comes into the queue by an Acquire that asks for it and finds the lock
// busy. It keeps its place when it asks again; the tokens of its newest request count.
// It leaves the queue when it has been granted the lock, when the lock is passed on to
// it, when it is released, and when the queue finds that its Store is not subscribed
// to the lock. An agent has one tenure at a time in the queue of a lock.
//
// A Release of a tenure that has the lock passes it on
//
//   - if nobody waits outside of the queue: there are no more Stores subscribed to the
//     lock, other than the releaser's own, than other Stores have tenures in the queue. Who
//     waits without a place, as a program that knows nothing of queues does, would be
//     passed over for ever. Otherwise the lock is free and everybody is woken.
//   - to the first tenure in the queue whose Store is subscribed. Those before it leave
//     the queue. If there is none, the lock is free and everybody is woken.
//   - for [PassLease], with as many tokens as were asked for. They begin above the last
//     one of the lock, and no lower than the clock.
//
// Break, the end of a lease and a reset pass nothing on, and a reset empties the queue.
// The queue reserves nothing: an Acquire that finds the lock free is granted, whoever
// waits.
//
// A Store is safe for concurrent use. Acquire and Release of one tenure are never
// under way at once; a Release may overtake a Renew, whose reply then does not
// matter.
type Store interface {
	// Acquire tries once to begin a tenure. It is granted if the lock is free, or
	// if this very tenure has it already (an earlier call whose reply was lost);
	// then the lease starts anew. It never ends earlier for that. If it is busy, the
	// tenure is put into the queue, if that is asked for and there is one. The reply is
	// an ErrWithdrawn if the tenure was released before, which only a call that arrives
	// late can meet.
	Acquire(ctx context.Context, req AcquireRequest, done func(AcquireReply, error))

	// Renew starts the lease of a tenure anew. It never shortens what remains.
	// Implementations coalesce renewals; a renewal may be put off for a small part of
	// its lease to find company, and for no more than a tenth of a second.
	Renew(ctx context.Context, req RenewRequest, done func(RenewReply, error))

	// Release ends a tenure and wakes the agents that wait. If one of them is in the
	// queue, the lock may be passed on to it instead, see above. Released before it was
	// acquired, the tenure is withdrawn: an Acquire that arrives later has no effect.
	// Repeated, it has the same reply. Of an agent's tenures of a lock, the last to end
	// is remembered for that.
	Release(ctx context.Context, req ReleaseRequest, done func(ReleaseReply, error))

	// Break frees a lock, whoever has it, and wakes the agents that wait. It
	// reports whether the lock was held. What is no lock is an ErrWrongType, and
	// stays.
	Break(ctx context.Context, name Name, done func(BreakReply, error))

	// Inspect tells what the store knows of a lock.
	Inspect(ctx context.Context, name Name, done func(Inspection, error))

	// Subscribe has wake called whenever an attempt to acquire may newly succeed:
	// once the subscription stands, at every release that frees the lock, and whenever
	// the subscription stands again after it was interrupted, for a release may have
	// been missed. Wake-ups may be spurious and may be lost, so waiters also try
	// again when the remaining lease of the holder has passed. wake must not
	// block. After cancel has returned, wake may still be called once.
	//
	// wake is given nil, or what has been passed on to a tenure that came into the
	// queue through this Store. That may be a tenure of another agent that shares it.
	// All subscribers are given the same Pass, which must not be changed. It may come
	// before the reply that tells that the tenure is in the queue, late, and twice.
	Subscribe(name Name, wake func(*Pass)) (cancel func())

	// OnReset has f called when the store is found to be another incarnation
	// than before: it was restarted, flushed, or replaced by a replica. f must
	// not block.
	OnReset(f func(Reset)) (cancel func())

	// Close ends all calls under way with ErrClosed and lets everything go that
	// the store holds locally. It frees no lock. It may be called again.
	Close() error
}

// Tenure identifies one agent's time with a lock in the store.
type Tenure struct {
	Agent  AgentID
	Number uint64 // at least 1, at most 2^63-1; grows with each tenure of an agent on a lock
}

// String is the tenure as stores write it: the agent, a colon, the number.
func (t Tenure) String() string { return string(t.Agent) + ":" + strconv.FormatUint(t.Number, 10) }

// StoreTime is an instant on the clock of the store that serves a lock, in
// microseconds since 1970. Two of them can be compared if they come from the same
// store and lock; they cannot be compared with the clock of any agent.
type StoreTime int64

// Add returns t moved by d, of which only the whole microseconds count.
func (t StoreTime) Add(d time.Duration) StoreTime { return t + StoreTime(d.Microseconds()) }

// Sub is the time from u to t.
func (t StoreTime) Sub(u StoreTime) time.Duration { return time.Duration(t-u) * time.Microsecond }

// AcquireRequest asks for a tenure.
type AcquireRequest struct {
	Name   Name
	Tenure Tenure
	Lease  time.Duration // between MinLease and MaxLease; rounded up to what the store counts in

	// Tokens is how many tokens the tenure needs, one for each hold inside it.
	// At least 1.
	Tokens int
	// Floor is a token that has been used already: the range begins above it,
	// even if the store has forgotten. 0 if none is known.
	Floor Token

	// Queue asks that, if the lock is busy, the tenure wait in the store's queue,
	// so that a Release may pass the lock on to it, see [Store]. Subscribe first, or
	// the place may be lost. Stores need not have a queue.
	Queue bool
}

// AcquireReply answers an [AcquireRequest].
type AcquireReply struct {
	Granted bool

	// Token is the first token of the range; the request's Tokens follow each
	// other without a gap. Only if granted.
	Token Token
	// At is when the store decided.
	At StoreTime
	// Incarnation names the life of the store that decided, if the store can
	// tell, and is empty otherwise. A store that lost its memory has a new one.
	Incarnation string

	// Holder is who has the lock instead, as the store writes it: the text of a
	// [Tenure], or whatever another program put there. Only if not granted.
	Holder string
	// Remaining is what is left of the holder's lease, or negative if that has no
	// end. Only if not granted.
	Remaining time.Duration
	// Queued tells that the tenure waits in the store's queue, by this request or an
	// earlier one: it may be passed the lock from now on, until it is released. Only
	// if not granted.
	Queued bool
}

// PassLease is the lease of a tenure that the lock was passed on to. It is long enough
// for the message to arrive, and for a hold that goes on to be renewed in time; most
// are over before. It is short enough that an agent which does not answer holds up the
// others for a moment only.
const PassLease = 2 * time.Second

// Pass tells that a Release has passed the lock on to the tenure that had waited
// longest in the store's queue, as if that had acquired it at the same instant. It
// may be lost; the tenure then has the lock all the same, and its next Acquire is
// granted.
type Pass struct {
	Tenure Tenure
	Lease  time.Duration // [PassLease]
	// Token is the first of Tokens, which follow each other without a gap.
	Token  Token
	Tokens int
	// At is when the store decided, and Incarnation its life then.
	At          StoreTime
	Incarnation string
}

// RenewRequest asks for more time in a tenure.
type RenewRequest struct {
	Name   Name
	Tenure Tenure
	Lease  time.Duration

	// Urgent renewals do not wait for company: there is little left of the lease
	// so far, or doubt that the tenure still is.
	Urgent bool
}

// RenewReply answers a [RenewRequest].
type RenewReply struct {
	// Held is false if the tenure is over: the lock is free, or another's.
	Held bool
	At   StoreTime
}

// ReleaseRequest ends a tenure.
type ReleaseRequest struct {
	Name   Name
	Tenure Tenure
}

// ReleaseReply answers a [ReleaseRequest].
type ReleaseReply struct {
	// Released is false if the tenure was over before, or had never begun.
	Released bool
	// At is when the tenure was released, or found to be over. A repeated call
	// tells the time of the first.
	At StoreTime
	// Others is how many other agents were woken, at least, or -1 if the store
	// cannot tell: then the agent yields as if there were some.
	Others int
	// Passed tells that the lock has been passed on to a tenure that waited in the
	// store's queue. Then nobody else was woken, and Others is 0.
	Passed bool
}

// BreakReply answers a Break.
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
	HoldCount int           // as the holder wrote it: always 1 for a Tenure
	Remaining time.Duration // negative if the lease has no end
}

// Reset tells that a store is no longer what it was.
type Reset struct {
	// From and To name the incarnations before and after.
	From, To string
	// Reason is for people: "restarted", "emptied", "failed over".
	Reason string
	// After is the last instant at which the old incarnation was known to be
	// there, and Before the first at which the new one was, both on their own
	// clocks. The reset happened between them.
	After, Before StoreTime
}
