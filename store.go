package lockagent

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Store arbitrates locks between agents. It is the port behind which Redis, memory or
// a quorum of stores stands. Package storetest holds the contract as a suite of tests
// that every implementation passes. A Store serves one agent.
//
// # Calls
//
// Every call is asynchronous. The method returns without waiting for the store, and
// done is called exactly once, from any goroutine, possibly before the method has
// returned. done must not block. No call needs a goroutine of its own. The context
// carries values only, such as a trace. A store bounds the time of each call by itself
// and reports [ErrStoreUnavailable] when the bound is passed.
//
// A store holds no mutex while it calls done, wake, hear or what OnReset was given: the
// agent goes on from there, and may call the store again before it returns.
//
// # Errors
//
// [ErrWrongType], [ErrNotPermitted], [ErrWithdrawn], [ErrBadName] and [ErrBadOption] are
// definite: the call had no effect, and trying again will not help. Trying again does not
// help after [ErrClosed] either, but a call that was under way when the store was closed
// may have taken effect: close the agent first. After any other error the call may have
// taken effect, now or later. All calls can be repeated, so the way out of that doubt is
// to make the same call again, or to Release.
//
// # Tenures
//
// A store knows an agent's tenure, not the owners it serves. A tenure is an agent and a
// number that is used once. A repeated or late call can therefore never touch another
// tenure than its own.
//
// # Tokens
//
// A tenure that begins at time T of the store's clock has the tokens from T on: its k-th
// hold has the token T + k - 1. T is greater than every token that the lock had before.
// The store's clock never goes back.
//
// # The queue
//
// A store may have a queue for each lock: the tenures that wait for it, in the order in
// which they came. A Release then passes the lock to the first of them, in the same
// instant, and sends a message to its agent alone. Without a queue a release wakes
// everybody, and all of them try. A store without a queue never says that it queued or
// passed anything.
//
// A tenure gets a place by an Acquire that asks for it and finds the lock busy. It keeps
// the place when it asks again. It loses the place when it is granted the lock, when the
// lock is passed to it, when it is released, and when its agent does not listen any more.
//
// A Release passes the lock to the first tenure in the queue whose agent listens. The
// tenures before that one lose their places. If there is none, the lock is free and everybody
// is woken. A pass is worth [PassLease]. The next tenure in the queue is sent a standby.
//
// Programs that know nothing of the queue, such as Redisson, are outsiders: they wait for
// wake-ups. While some wait, a release now and then frees the lock, wakes everybody, and
// keeps it from the agents for a moment, so that outsiders get their turn.
//
// Break, the end of a lease and a reset pass nothing, and a reset empties the queue. The
// queue reserves nothing: an Acquire that finds the lock free is granted, whoever waits.
//
// A Store is safe for concurrent use. Acquire and Release of one tenure are never under
// way at once. A Release may overtake a Renew, whose reply then does not matter.
type Store interface {
	// Acquire tries once to begin a tenure. It is granted if the lock is free, or if
	// this very tenure has it already (an earlier call whose reply was lost). Then the
	// lease starts anew; it never ends earlier for that. If the lock is busy, the tenure
	// gets a place in the queue, if it asked for one and there is a queue. The error is
	// [ErrWithdrawn] if the tenure was withdrawn before, which only a call that arrives
	// late can meet.
	Acquire(ctx context.Context, req AcquireRequest, done func(AcquireReply, error))

	// Renew starts the lease of a tenure anew. It never shortens what remains.
	// Implementations gather renewals: a renewal may be put off for a small part of its
	// lease, and for no more than a tenth of a second.
	Renew(ctx context.Context, req RenewRequest, done func(RenewReply, error))

	// Release ends a tenure and passes the lock on or wakes the waiters. It takes the
	// tenure out of the queue. If the request says that an Acquire is unanswered, the
	// tenure is withdrawn as well: that Acquire has no effect if it arrives within a minute.
	Release(ctx context.Context, req ReleaseRequest, done func(ReleaseReply, error))

	// Break frees a lock, whoever has it, wakes the waiters, and tells the agent whose
	// tenure it was. It reports whether the lock was held. What is no lock is an
	// [ErrWrongType], and stays.
	Break(ctx context.Context, name Name, done func(BreakReply, error))

	// Inspect tells what the store knows of a lock.
	Inspect(ctx context.Context, name Name, done func(Inspection, error))

	// Subscribe has wake called whenever an attempt to acquire may newly succeed: once
	// the subscription stands, at every release that frees the lock, and whenever the
	// subscription stands again after an interruption, for a release may have been
	// missed. Wake-ups may be spurious and may be lost, so waiters also try again when
	// the holder's remaining lease has passed. wake must not block. After cancel has
	// returned, wake may still be called once.
	Subscribe(name Name, wake func()) (cancel func())

	// Listen has hear called with the messages to an agent. It is called once, before
	// anything else. Messages may be lost, late, and repeated. Whenever the agent begins
	// to be listened for, also for the first time and after an interruption, hear is given
	// a message of kind [MessagesMissed]. hear must not block. After cancel has returned,
	// hear may still be called once.
	Listen(agent AgentID, hear func(Message)) (cancel func())

	// OnReset has f called when the store is found to be another incarnation than
	// before: it was restarted, flushed, or replaced by a replica. It has f called also
	// when the store's clock was set: leases may have ended early. f must not block.
	OnReset(f func(Reset)) (cancel func())

	// Close ends all calls under way with ErrClosed and lets everything go that the
	// store holds locally. It frees no lock. It may be called again.
	Close() error
}

// MaxTenure is the greatest number of a [Tenure]: Lua counts up to it without a gap.
const MaxTenure = 1<<53 - 1

// Tenure identifies one agent's time with a lock in the store.
type Tenure struct {
	Agent  AgentID
	Number uint64 // at least 1, at most MaxTenure; an agent uses each once for a lock
}

// String is the tenure as stores write it: the agent, a colon, the number.
func (t Tenure) String() string { return string(t.Agent) + ":" + strconv.FormatUint(t.Number, 10) }

// ParseTenure is the inverse of [Tenure.String]. It reports false for any other text,
// such as the name that another program gave a holder.
func ParseTenure(s string) (Tenure, bool) {
	agent, number, found := strings.Cut(s, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	t := Tenure{Agent: AgentID(agent), Number: n}
	if !found || err != nil || t.Check() != nil || t.String() != s {
		return Tenure{}, false
	}
	return t, true
}

// StoreTime is an instant on the clock of the store that serves a lock, in microseconds
// since 1970. Two of them can be compared if they come from the same store and lock. They
// cannot be compared with the clock of any agent.
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

	// Floor is the last token of this lock that the agent knows of, or 0. The tenure
	// begins above it, even if the store has forgotten.
	Floor Token

	// Queue asks for a place in the queue if the lock is busy, see [Store]. Subscribe
	// first, or the place may be lost. A tenure that has asked for a place goes on asking.
	// Stores need not have a queue.
	Queue bool
}

// AcquireReply answers an [AcquireRequest].
type AcquireReply struct {
	Granted bool

	// Token is that of the tenure's first hold. Only if granted.
	Token Token
	// At is when the store decided.
	At StoreTime
	// Clock names the clock that At was read from. The difference of two StoreTimes is the
	// time that has passed only if their Clocks are the same: a server's clock may be set,
	// and another server may take over.
	Clock string
	// Incarnation names the life of the store that decided, if the store can tell, and
	// is empty otherwise. A store that lost its memory has a new one.
	Incarnation string

	// Holder is who has the lock instead, as the store writes it: the text of a
	// [Tenure], or what another program put there. It is empty while the lock is kept
	// for outsiders. Only if not granted.
	Holder string
	// Remaining is what is left of the holder's lease, or negative if that has no end.
	// Only if not granted.
	Remaining time.Duration
	// Queued tells that the tenure has a place in the queue, by this request or an
	// earlier one: the lock may be passed to it from now on, until it is released. Only
	// if not granted.
	Queued bool
	// Outsiders is how many waiters have no place in the queue, if the request asked for
	// one; the store may not see all of them.
	Outsiders int
}

// PassLease is the lease of a tenure that the lock was passed to. It is long enough for
// the message to arrive, and for a hold that goes on to be renewed in time; most are over
// before. It is short enough that an agent which does not answer holds up the others for a
// moment only.
const PassLease = 2 * time.Second

// MessageKind says what a [Message] tells.
type MessageKind uint8

// The kinds of messages to an agent.
const (
	_ MessageKind = iota
	// MessagePassed: a release passed the lock to the tenure, as if that had acquired it
	// at the same instant, with the lease [PassLease]. If the message is lost the tenure
	// has the lock all the same, and its next Acquire is granted. Token, At, Clock,
	// Incarnation, Outsiders.
	MessagePassed
	// MessageStandby: the lock was passed to the tenure in front of this one in the
	// queue. If that one does not take it up, the lock is free when its lease is over,
	// and nobody is told. Remaining.
	MessageStandby
	// MessageWanted: another agent waits for what the tenure has. The holder's agent is told
	// at every Acquire that asks for a place and finds the lock busy.
	MessageWanted
	// MessageBroken: the tenure was broken. At.
	MessageBroken
	// MessagesMissed: messages may have been missed. It has no name and no tenure.
	MessagesMissed
)

// Message is news for one agent about one of its tenures.
type Message struct {
	Kind   MessageKind
	Name   Name
	Tenure Tenure

	Token       Token     // of the first hold
	At          StoreTime // when the store decided
	Clock       string    // as in AcquireReply
	Incarnation string    // as in AcquireReply
	Outsiders   int       // as in AcquireReply
	Remaining   time.Duration
}

// RenewRequest asks for more time in a tenure.
type RenewRequest struct {
	Name   Name
	Tenure Tenure
	Lease  time.Duration

	// Urgent renewals do not wait for company: there is little left of the lease so far.
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

	// Last is the token of the tenure's last hold, or 0 if it had none. Later tenures
	// begin above it.
	Last Token
	// Unanswered says that an Acquire of the tenure was not answered, and may arrive yet.
	Unanswered bool
}

// ReleaseReply answers a [ReleaseRequest].
type ReleaseReply struct {
	// Released is false if the tenure did not have the lock: it was over, had never begun,
	// or was released by an earlier call whose reply was lost.
	Released bool
	// At is when the tenure was released, or found not to have the lock.
	At StoreTime
	// Others is how many other agents were woken, at least, or -1 if the store cannot
	// tell: then the agent yields as if there were some.
	Others int
	// Passed tells that the lock was passed to the first in the queue. Then nobody was
	// woken, and Others is 0.
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
	// From and To name the incarnations before and after. They are equal if only the clock
	// was set: nothing was forgotten.
	From, To string
	// Reason is for people: "restarted", "emptied", "failed over", "clock stepped".
	Reason string
	// After is the last instant at which the old incarnation was known to be there, and
	// Before the first at which the new one was, both on their own clocks. The reset
	// happened between them.
	After, Before StoreTime
}
