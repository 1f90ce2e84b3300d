package lockagent

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Store arbitrates locks between agents. Packages redisstore and memstore implement it.
// Package storetest holds this contract as a suite of tests, which every implementation
// passes. A Store serves one agent.
//
// # Calls
//
// Every call is asynchronous: its method does not wait for the store. The store calls done
// exactly once, from any goroutine, possibly before the method has returned. done must not
// block. A call costs no goroutine of its own. The context carries values only, such as a
// trace. The store bounds the time of each call: when the bound has passed, the error is
// [ErrStoreUnavailable].
//
// A store holds no mutex while it calls done, wake, hear or the f of OnReset: these
// functions may call the store again.
//
// # Errors
//
// [ErrWrongType], [ErrWrongKind], [ErrDeleted], [ErrLatchGone], [ErrNotPermitted], [ErrNoTokens], [ErrWithdrawn],
// [ErrBadName] and [ErrBadOption] are definite: the call had no effect, and trying again will not help. So is
// [ErrTooFewReplicas] of an Acquire: the store had granted the tenure, and has released it again. Trying again does
// not help after [ErrClosed] either. But a call that was under way when the store was closed may have taken effect,
// so close the agent before its store. [Definite] knows these errors.
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
// Every call names the [LockKind] of its lock. All kinds have the same calls, and the same rules
// hold for them, unless the comment of the kind says otherwise. If what the store has under the
// name shows that the name is in use as another kind, Acquire, Break and Inspect end with a
// [*KindError]. A store that does not have a kind answers with an [*OptionError].
//
// A tenure that has the lock shows the kind to every Acquire, Break and Inspect of another tenure, also if it was
// passed the lock. Three holders may show none: a program that is no agent, an agent whose identity is not of
// [NewAgentID], and an agent of an earlier version. Then plain, fair, fenced and spin locks may look alike to a
// store. Those who wait show nothing. Nor need a latch that is closed, or a semaphore of which nobody has permits.
//
// # Modes
//
// A tenure has a [Mode]. A [ReadWriteLock] is held by one tenure of the mode [Exclusive], or by several of
// the mode [Shared]. Each of them has a lease of its own, and ends by itself. The lock is free when the last
// one has ended. All other locks have exclusive tenures only.
//
// An Acquire for a shared tenure is also granted if only shared tenures have the lock: it joins them. It does
// not join them while an exclusive tenure has a place ahead of it in the queue, and the agent of that one
// listens. Nor does it while outsiders wait, because they may want the lock for themselves. So readers who come
// and go in many agents do not keep a writer out.
//
// Another program may end the lock while tenures share it. Then they are over.
//
// A shared tenure never becomes exclusive. An exclusive tenure becomes shared by a Renew that asks for it:
// the downgrade. An Acquire of a tenure that has the lock does not change its mode.
//
// When a lock is passed to a shared tenure, it is also passed to the shared tenures that follow in the queue,
// up to the first exclusive one. The same happens when a lock that is held becomes open for
// readers: by a downgrade, or because an exclusive tenure that waited ahead of them was released. All waiters
// are woken then. A store may pass the lock to the first few shared tenures only, and wake the others.
//
// # Permits
//
// A tenure of a semaphore has one or several permits in place of the lock. So several tenures have
// permits at once. An Acquire is granted if enough permits are free, and no other tenure with a
// place comes first. A semaphore that nobody has set has no permits, and no queue. Its waiters
// wait until somebody sets it. If a semaphore is deleted while tenures have places, their Acquires
// end with [ErrDeleted]. Places may be lost, so an agent also takes it for a deletion if a request
// finds no number where it has found one before. A tenure of a semaphore that was deleted is over,
// also if the name is in use as another kind by now.
//
// A Release passes the free permits to the tenures in the queue, one after the other, as long as
// they suffice for the next. So a request for many permits is not kept out by requests for few. If it has not
// looked at all places, the next tenures get a [MessageStandby] with nothing remaining: their Acquires look
// further.
//
// Of the kind [Permits] the store knows how many permits there are. A tenure that wants more than that is passed over:
// those behind it come first. It keeps its place, and comes first again when enough permits are added. Of the kind [Semaphore]
// other programs may have permits that the store does not know of, so nobody is passed over.
//
// The permits of a tenure whose lease is over come back: each call to the semaphore sees to that.
// Nobody is told that a tenure is wanted. A Break ends all tenures, and gives their permits back.
//
// # Tokens
//
// A tenure begins at a time T of the store's clock, in microseconds. Its k-th hold has the
// token T + k - 1. For example: the first three holds of a tenure that begins at 5000 have
// the tokens 5000, 5001 and 5002. T is greater than every token that the lock had before.
// The store's clock never goes back.
//
// Tenures that share a lock take their tokens side by side, so two of their holds may have the same token. T
// is greater than every T before, and greater than all tokens of the tenures that have ended.
//
// # Replicas
//
// A store that has replicas may demand that some of them know of a tenure. An Acquire then ends with a
// [*ReplicasError] if too few do, and a Renew does, too. Such a Renew may be tried again: the tenure may have its new
// lease. A pass waits for no replicas. So its message is Unconfirmed, and the agent asks before it grants anything.
//
// # The queue
//
// A store may have a queue for each lock: the tenures that wait for the lock, in the order
// of their arrival. A Release then passes the lock to one of them at the same instant, and
// sends a message to the agent of that tenure alone. A store without a queue never reports
// that it queued a tenure or passed a lock. Its Release wakes all waiters: it calls wake for
// each Subscribe to the lock, and all of them try again.
//
// An Acquire that asks for a place and finds the lock busy gives its tenure a place. Another
// Acquire of that tenure keeps the place. The tenure loses the place when
//
//   - an Acquire of the tenure is granted;
//   - a Release passes the lock to the tenure;
//   - the tenure is released;
//   - the agent of the tenure no longer listens.
//
// A Release passes the lock to the first tenure in the queue whose agent listens. The
// tenures before that one lose their places. If no agent in the queue listens, the lock is
// free and all waiters are woken. The lease of a pass is [PassLease]. The next tenure in the
// queue gets a [MessageStandby].
//
// Outsiders are programs that do not know of the queue, such as Redisson. They wait for
// wake-ups. While outsiders wait, some releases are for them: such a Release frees the
// lock, wakes all waiters, and keeps the lock from agents for a moment. For outsiders that
// poll the store may do so when agents have contended for long, also at an Acquire.
//
// Only a Release passes a lock. Break, the end of a lease and a reset do not. (The downgrade of a
// read/write lock lets readers in, see Modes.) A reset empties the queue. The queue reserves nothing: an Acquire that finds the lock free is
// granted, whoever waits.
//
// # Latches
//
// Nobody holds a [Latch]. Acquire asks whether the latch is open, that is: whether there is none of
// that name. A grant means no more than that: there is no tenure, and nothing to renew or to
// release. Renew, Release, Break and Inspect of a latch end with an [*OptionError].
//
// Queue says in such a request that the waiter has found the latch closed before. A latch that is not
// there any more may have been counted down to 0. Or it is gone for another reason: somebody deleted it, it
// expired, or the store lost its data. The store remembers for a minute that a latch was counted down.
// Otherwise the error is [ErrLatchGone].
//
// # Concurrency
//
// A Store is safe for concurrent use. An agent never has an Acquire and a Release of one
// tenure under way at once. A Release may overtake a Renew of its tenure: the reply to that
// Renew does not matter.
type Store interface {
	// Acquire tries once to begin a tenure. It is granted if the lock is free. It is also
	// granted if this tenure has the lock already, by a call whose reply was lost. The
	// lease then starts anew, and never ends earlier than before. If the lock is busy and
	// the request asks for a place, the tenure gets one in the queue. The error is
	// [ErrWithdrawn] if the tenure was withdrawn before: only a late call meets that.
	Acquire(ctx context.Context, req AcquireRequest, done func(AcquireReply, error))

	// Renew starts the lease of a tenure anew. It never shortens the lease. A store may put a
	// renewal off, to gather several: for a small part of the lease, and for at most a tenth
	// of a second.
	Renew(ctx context.Context, req RenewRequest, done func(RenewReply, error))

	// Release ends a tenure, and passes the lock or wakes the waiters. It takes the tenure
	// out of the queue. If the request is Unanswered, Release also withdraws the tenure: an
	// Acquire of the tenure that arrives within a minute has no effect.
	Release(ctx context.Context, req ReleaseRequest, done func(ReleaseReply, error))

	// Break frees a lock, whatever tenure or program has it. It wakes the waiters, and sends
	// [MessageBroken] to the agent of the tenure. It reports whether the lock was held. A key
	// that is no lock stays, and the error is [ErrWrongType].
	Break(ctx context.Context, req BreakRequest, done func(BreakReply, error))

	// Inspect tells what the store knows of a lock.
	Inspect(ctx context.Context, name Name, kind LockKind, done func(Inspection, error))

	// Permits reads or changes the permits of a semaphore, whoever has them. A change that makes
	// more permits free passes them to the queue, or wakes the waiters, as a Release does.
	Permits(ctx context.Context, req PermitsRequest, done func(PermitsReply, error))
	// Latch reads or changes the count of a latch.
	Latch(ctx context.Context, req LatchRequest, done func(LatchReply, error))

	// Time tells what the store's clock shows. It is a lower bound: nothing that the store
	// decides after the call is earlier. In a Cluster it is the clock of one node.
	Time(ctx context.Context, done func(StoreTime, error))

	// Subscribe calls wake whenever another Acquire of the lock may succeed:
	//
	//   - when the subscription stands, for the first time or after an interruption;
	//   - when a lock that is held becomes open for readers, see Modes;
	//   - when the store is closed: every Acquire says so;
	//   - at every Release or Break that frees the lock.
	//
	// Wake-ups may be spurious, and may be lost. So a waiter also tries again when the
	// holder's lease is over. wake must not block. The store may call wake once more after
	// cancel has returned.
	Subscribe(name Name, kind LockKind, wake func()) (cancel func())

	// Listen calls hear with each message to the agent. The agent calls Listen once, before
	// anything else. Messages may be lost, late, and repeated. Whenever the store begins to
	// receive the messages, for the first time or after an interruption, hear gets a
	// [MessagesMissed]. hear must not block. The store may call hear once more after cancel
	// has returned.
	//
	// Each agent that is alive has an identity of its own. So whenever the store begins to receive the messages, it
	// finds out whether another agent listens under that identity, in whatever process and with whatever Store: soon
	// after the [MessagesMissed], hear gets a [MessageTwin] if one does, and otherwise a [MessageAlone]. An agent
	// that is cut off from the store, or stopped, may be taken for one that is gone. When it is back, one of the two
	// gets a MessageTwin. A store of several nodes may send one to both, if neither came first at all of them.
	Listen(agent AgentID, hear func(Message)) (cancel func())

	// OnReset calls f when the store turns out to be another incarnation than before: it was
	// restarted, flushed, or replaced by a replica. It also calls f when somebody has set the
	// store's clock, because leases may have ended early. f must not block.
	OnReset(f func(Reset)) (cancel func())

	// Identity is the identity of the store, which the store itself keeps: a text that no other
	// store has. All Stores of one store, in all processes, have the same one. A reset does not
	// change it, or the store tells of the change: see [Reset].Store. Identity never blocks. It
	// is empty if the identity is not known yet.
	Identity() string

	// RemembersSince is an instant on the clock of this process. The store has forgotten nothing that
	// it granted after it. What it granted before, it may have forgotten, or the lease may have ended
	// early. It is zero if neither has ever happened. A store that cannot tell says when it was
	// opened. After a reset RemembersSince changes before any call is answered from what the reset has
	// left, if the store can tell its incarnation. It never blocks.
	RemembersSince() time.Time

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

	// Permits is the number of permits that the tenure shall have, the same in all requests of a
	// tenure. 0 is 1. Locks have only one.
	Permits int

	// Floor is the greatest token of this lock that the agent knows of, or 0. The tenure
	// begins above it, even if the store has forgotten the lock.
	Floor Token

	// Exact says that no greater token of this lock than Floor was given out. A store whose clock
	// is behind Floor then sets it to Floor, and no further. Otherwise there may be tokens that
	// the agent does not know of, and the store sets its clock a good deal further.
	Exact bool

	// Rests asks for a tenure that may rest: its agent may keep the lock between two holds. See [AcquireReply].Rests.
	Rests bool

	// Queue asks for a place in the queue if the lock is busy, see [Store]. Subscribe to the
	// lock before that, or the place may be lost. After one request with Queue, all requests
	// of that tenure have it. A [SpinLock] gives no places. There Queue says that the agent contends for
	// the lock: it found the lock busy, or returned it while requests waited. So the store knows when
	// those that poll need a turn.
	Queue bool
}

// AcquireReply answers an [AcquireRequest].
type AcquireReply struct {
	Granted bool

	// Token is the token of the tenure's first hold. Only if granted.
	Token Token
	// At is when the store decided.
	At StoreTime
	// Clock names the clock of At. The difference of two StoreTimes is a duration only if
	// their Clocks are the same: somebody may set a server's clock, and another server may
	// take over. It is empty if At is not the reading of one clock: then no difference is one.
	Clock string
	// Incarnation names the present incarnation of the store. It is empty if the store cannot
	// tell. A store that lost its data has a new one.
	Incarnation string
	// Replicas is how many replicas of the store are known to have the tenure. It is 0 if the store does
	// not ask its replicas. Only if granted.
	Replicas int

	// Holder has the lock instead: the text of a [Tenure], or the text that another program
	// wrote. It is empty while the store keeps the lock for outsiders. It is any of those that share
	// the lock. Of a semaphore it is "others (3 of 5 permits free)", with
	// their numbers as in [PermitsReply]. Only if not granted.
	Holder string
	// Remaining is what is left of the holder's lease. It is negative if the lease has no
	// end. If several share the lock, it is what is left of the lease that ends last. Only if
	// not granted.
	Remaining time.Duration
	// Queued says that the tenure has a place in the queue, by this request or an earlier
	// one. From now on a Release may pass the lock to the tenure. Only if not granted.
	Queued bool
	// AskWithin is above 0 if another Acquire of the tenure has to follow within that time. The tenure
	// may keep its place only by asking. Or another program has the lock, and may release it without a
	// wake-up. Then the first tenure that waits asks, and the others need not. An agent wakes those who wait. So nobody
	// has to ask if the holder's identity is of [NewAgentID]. Or the tenure is the first that waits for permits, and another program may delete the semaphore
	// without a wake-up. Only if queued.
	AskWithin time.Duration
	// Rests says of a tenure that was granted: it asked to be one that may rest, and is. Only a tenure of a plain or
	// fenced lock may rest. A tenure that begins may rest if no other one has a place in the queue, and no outsider
	// waits. If the agent has no identity of [NewAgentID], the store may let none rest. A tenure that has the lock
	// already stays as it is. A Renew makes it one that does not rest. Whenever a tenure that may rest keeps an
	// Acquire of another agent from the lock, the store sends a [MessageWanted] to its agent, also if that Acquire
	// asks for no place. The agent then gives the lock back as soon as nobody holds it.
	//
	// If the request was not granted, Rests says that the holder may rest, and that its agent has been sent that
	// message. So it may pay to try again soon. A store without a queue has no tenures that rest.
	Rests bool
	// Outsiders is the number of outsiders that wait, if the request asked for a place or for a tenure that may rest. The
	// store may not see all of them.
	Outsiders int
	// NotSet says that nobody has set the number of permits of the semaphore. Then Holder is empty, and Remaining
	// negative. Only if not granted.
	NotSet bool
	// Total is the number of permits of a semaphore: those that are free, and those that are known to
	// be taken, see [PermitsReply]. It is 0 if the tenure had its permits before: the number may have been
	// lowered since. Only if granted.
	Total int
}

// PassLease is the lease of a tenure that begins by a pass. It is long enough for the
// message to arrive, and for the agent to renew a long hold in time. Most holds are over
// before. It is short because an agent that hangs keeps the lock from the others for as
// long.
const PassLease = 2 * time.Second

// MessageKind says what a [Message] tells.
type MessageKind uint8

// The kinds of messages to an agent. The comment of each kind names the fields that it sets
// beside Kind, Name and Tenure.
const (
	_ MessageKind = iota
	// MessagePassed: a Release passed the lock to the tenure. The tenure begins at the
	// instant of that Release, with the lease [PassLease]. If the message is lost, the tenure
	// has the lock all the same: its next Acquire is granted. LockKind, Token, At, Clock,
	// Incarnation, Outsiders, Total, Unconfirmed, Trace.
	MessagePassed
	// MessageStandby: the lock may be free after Remaining, and no message says so. Most often a
	// Release passed the lock to a tenure ahead of this one in the queue, and Remaining is its lease:
	// the agent of that tenure may hang. If Remaining is 0, the tenure should ask at once. Remaining.
	MessageStandby
	// MessageWanted: another agent waits for the lock that this tenure has. The store sends
	// it at every Acquire that asks for a place and finds the lock busy: to every tenure that shares the lock, or
	// to some of them. [RenewReply.Contested] tells the others. LockKind.
	MessageWanted
	// MessageBroken: a Break ended the tenure. At, Operator. At is that of the [BreakReply], or earlier if the
	// store has several clocks.
	MessageBroken
	// MessageAlone: no other agent that is alive listens under the identity of this one, as far as the store can find
	// out. Tenure and Name are empty.
	MessageAlone
	// MessageTwin: another agent that is alive listens under the identity of this one, and came first. So this one
	// ends, and makes no further call for a tenure. Tenure and Name are empty.
	MessageTwin
	// MessagesMissed: earlier messages may have been lost. Tenure is empty. So is Name, unless they are only those to waiters
	// of that lock: MessagePassed and MessageStandby. LockKind.
	MessagesMissed
)

// Message is news for one agent about one of its tenures.
type Message struct {
	Kind     MessageKind
	Name     Name
	LockKind LockKind // empty for a plain lock
	Tenure   Tenure

	Token       Token     // of the first hold
	At          StoreTime // when the store decided
	Clock       string    // as in AcquireReply
	Incarnation string    // as in AcquireReply
	Outsiders   int       // as in AcquireReply
	Total       int       // as in AcquireReply
	Remaining   time.Duration
	Unconfirmed bool   // the store does not vouch for the pass yet, see Replicas: make an Acquire first
	Trace       string // as in ReleaseRequest; only for MessagePassed
	Operator    string // as in BreakRequest; only for MessageBroken
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
}

// RenewReply answers a [RenewRequest].
type RenewReply struct {
	// Held is false if the tenure is over: the lock is free, or another's.
	Held bool
	At   StoreTime
	// Replicas is as in AcquireReply, only if held.
	Replicas int
	// Contested says that the tenure is shared, and that others wait who keep later readers out: an exclusive tenure
	// whose agent listens is among the first in the queue, or outsiders wait.
	Contested bool
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
	// Trace is the W3C trace context of the release if it is sampled, or empty. A pass carries
	// it to the next holder. The agent leaves it empty, and a store that traces calls adds it.
	Trace string
}

// ReleaseReply answers a [ReleaseRequest].
type ReleaseReply struct {
	// Released is false if the tenure did not have the lock: it was over, had never begun,
	// or was released by an earlier call whose reply was lost. A tenure is released also if others
	// still share the lock. Nobody is woken then.
	Released bool
	// At is when the tenure was released, or found not to have the lock. A tenure to which the lock was passed on
	// begins then or later.
	At StoreTime
	// Others is the least number of other agents that the Release woke, or -1 if the store
	// cannot tell. An agent that gets -1 yields as if there were some.
	Others int
	// Passed says that the Release passed the lock to a tenure in the queue. It woke nobody
	// then, and Others is 0.
	Passed bool
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

// Reset says that a store is another incarnation than before.
type Reset struct {
	// From and To name the incarnations before and after. They are equal if only the clock
	// was set, or the store has another identity: nothing was forgotten.
	From, To string
	// Reason is for people: "restarted", "emptied", "failed over", "clock stepped",
	// "other identity".
	Reason string
	// The reset happened between After and Before. After is the last known time of the old
	// incarnation, on its clock. Before is the first known time of the new incarnation, on
	// its clock.
	After, Before StoreTime
	// Step is by how much the clock was set forward, or back if it is negative. It is an
	// estimate, and 0 if the clock was not set or nobody knows. After and Before are readings of
	// the clock, perhaps many minutes apart: they only tell when it was set.
	Step time.Duration
	// Store is the identity of the store before the reset, if it has another one now.
	Store string
}
