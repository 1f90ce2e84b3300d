package lockagent

import (
	"context"
	"time"
)

// EventKind says which step in a lock's life an [Event] records.
type EventKind uint8

// The catalogue of events. All events set Kind, Agent, Store and Time. All events about a lock
// set Lock, LockKind and Mode, but not Mode if it is not known. All events that set Request
// set Who. The comment of each kind names the other fields that it sets.
// A log may have kinds that this version does not know: their Kind is 0.
const (
	_ EventKind = iota
	// EventRequested: a request waits because the store did not answer the attempt to get the
	// lock. Request, Owner, Lease (0 if kept), Waited, Err. A log has it only if nothing else is known of the
	// request for a while. A request that is granted, queued or refused at once has no event
	// of its own: the event with the answer says how long it waited.
	EventRequested
	// EventQueued: a request could not be granted at once. Request, Owner, Waiters, Holder. A
	// log has it only if the request waits for a while.
	EventQueued
	// EventGranted: the lock was granted. Request, Owner, Token, Tenure, How,
	// Waited, StoreTime, Lease, Fixed, Count, Incarnation, Permits, Total, Replicas, Holds, Link.
	// StoreTime is when the store began the tenure, if this is its first hold, and otherwise when the store last
	// confirmed it. If the first hold had to wait for a renewal, Confirmed is when the store confirmed that.
	EventGranted
	// EventReentered: an owner that holds the lock was granted it again. As EventGranted.
	EventReentered
	// EventRenewed: the store renewed the lease of a tenure that has served a hold. Tenure, StoreTime, Lease, Replicas.
	// Not published unless asked for.
	EventRenewed
	// EventUncertain: a renewal failed; all holds of the tenure go on until its deadline.
	// Tenure, Err, Remaining, and the Token and Owner of the oldest hold.
	EventUncertain
	// EventReleased: the owner released one grant. Request, Owner, Token, Tenure, Held,
	// Count, Lease, Fixed, Confirmed, Until, Permits, Total, Replicas, Holds. Count is the number of grants
	// that the owner has left: 0 if the hold is over.
	EventReleased
	// EventExpired: the fixed lease of a hold ran out, or nobody renewed the time to live of its claim on a daemon. As
	// EventReleased.
	EventExpired
	// EventLost: a hold ended against the will of its owner. As EventReleased,
	// and Reason.
	EventLost
	// EventBroken: an operator ended a hold of this agent. As EventLost, and Operator. If Token is 0, the operator
	// broke, through this agent, a lock whose holder is not of this agent. Then StoreTime and Operator are set.
	EventBroken
	// EventUnclaimed: the agent took a grant back. Nobody had received it, or the
	// application dropped it without a release. Or the client of a daemon did not come back after a restart of the
	// daemon. As EventReleased.
	EventUnclaimed
	// EventReturned: the tenure is over in the store. Tenure, Returned (when the store ended
	// it), Reason (only if the tenure was over before). If an answer of the store was lost, Returned is when the store
	// was asked again, and Until is the same: the store may have ended the tenure earlier.
	EventReturned
	// EventTimedOut: the wait of a request passed. Request, Owner, Waited.
	EventTimedOut
	// EventCancelled: the context of a request ended. As EventTimedOut, and Err.
	EventCancelled
	// EventRefused: a request was answered with an error. As EventCancelled.
	EventRefused
	// EventStoreReset: the store is another incarnation than before, or its clock was set. Reset.
	EventStoreReset
	// EventAgentStarted and EventAgentStopped: the first and the last event of an agent. An
	// agent that crashed has no last event. EventAgentStarted sets Process, and Count and Sum (of the holds
	// that the agent goes on with from another process).
	EventAgentStarted
	EventAgentStopped

	// The log makes the following kinds of what it was told. No agent records them, except
	// EventAlive.

	// EventHeld: a whole hold, from EventGranted to EventReleased. It has the fields of both.
	// Time, Waited and StoreTime are those of the grant; Held leads to the end. Returned is
	// set if the tenure was returned as well.
	EventHeld
	// EventAlive: the agent runs, and all that it recorded before is in the log, or was
	// dropped. StoreTime, Confirmed, Lease, Count, Sum.
	//
	// StoreTime is a lower bound of the store's clock, or 0 if it is not known. Confirmed is the
	// latest renewal of any tenure. Every lease that was renewed is over at Confirmed + Lease.
	// Lease is never less than the lease that the agent keeps. Count is the number of its holds, and Sum says which
	// these are.
	//
	// The agent records this event when the store tells it the time, with nothing but StoreTime
	// and the lease that it keeps. The log makes its own of that, and adds the rest.
	EventAlive
	// EventDropped: events found no room. The numbers of those events, just before the number
	// of this one, are missing.
	EventDropped

	// Agents record these kinds, as those above EventHeld.

	// EventPermits: an agent changed the number of permits of a semaphore, deleted the semaphore, or
	// gave back a permit by its id, whoever had that. Op, Permits (the number of the operation; of
	// DrainPermits how many it removed), Total (after it), Permit (of ReleasePermit), StoreTime. If the store did not
	// answer, nobody knows whether it was done. Then there is Err, and neither Total nor StoreTime.
	EventPermits
	// EventHolding: a hold goes on. The agent records this event for each of its holds every ten minutes. After a
	// restart the agent soon records it for each hold with which the new process goes on. So a log that has lost its
	// beginning has these holds. The event has the fields of EventGranted apart from Waited and Link, and also Held and
	// Confirmed.
	//
	// StoreTime is that of the grant. Request is the oldest request whose grant the owner still has. Held is the time
	// since the grant of that request. Count is the number of grants that the owner has now. If one of these grants is
	// exclusive, Mode is exclusive.
	EventHolding
	// EventGraceBegan: the store grants nothing new until the agents that may have tenures had time to come back.
	// Grace.
	EventGraceBegan
	// EventGraceEnded: the store grants again. Grace.
	EventGraceEnded
)

var eventNames = [...]string{
	EventRequested:    "requested",
	EventQueued:       "queued",
	EventGranted:      "granted",
	EventReentered:    "reentered",
	EventRenewed:      "renewed",
	EventUncertain:    "uncertain",
	EventReleased:     "released",
	EventExpired:      "expired",
	EventLost:         "lost",
	EventBroken:       "broken",
	EventUnclaimed:    "unclaimed",
	EventReturned:     "returned",
	EventTimedOut:     "timedout",
	EventCancelled:    "cancelled",
	EventRefused:      "refused",
	EventStoreReset:   "storereset",
	EventAgentStarted: "agentstarted",
	EventAgentStopped: "agentstopped",
	EventHeld:         "held",
	EventAlive:        "alive",
	EventDropped:      "dropped",
	EventPermits:      "permits",
	EventHolding:      "holding",
	EventGraceBegan:   "gracebegan",
	EventGraceEnded:   "graceended",
}

// EventKinds returns every kind of event, in the order of a lock's life.
func EventKinds() []EventKind {
	kinds := make([]EventKind, 0, len(eventNames))
	for k := EventRequested; int(k) < len(eventNames); k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String is the name of the kind in subjects, types and metrics: one lower-case
// word.
func (k EventKind) String() string {
	if k == 0 || int(k) >= len(eventNames) {
		return "unknown"
	}
	return eventNames[k]
}

// ParseEventKind is the inverse of [EventKind.String]. It reports false for a
// word that names no kind.
func ParseEventKind(s string) (EventKind, bool) {
	for k, name := range eventNames {
		if k > 0 && name == s {
			return EventKind(k), true
		}
	}
	return 0, false
}

// EndsHold reports whether an event of kind k ends a hold if its Count is 0.
func (k EventKind) EndsHold() bool {
	switch k {
	case EventReleased, EventExpired, EventLost, EventBroken, EventUnclaimed, EventHeld:
		return true
	}
	return false
}

// How says where a grant came from.
type How uint8

// The ways to a grant.
const (
	_ How = iota
	// ByStore: the store granted the lock to the agent. This is the first hold of the
	// tenure.
	ByStore
	// ByHandOff: the agent handed the lock off from one of its owners to the next.
	ByHandOff
	// ByRest: the lock rested in the agent: it was the agent's, and nobody held it.
	ByRest
)

// String is "store", "handoff" or "rest", or empty for the zero How.
func (h How) String() string {
	switch h {
	case ByStore:
		return "store"
	case ByHandOff:
		return "handoff"
	case ByRest:
		return "rest"
	}
	return ""
}

// Event records one step in the life of a lock or an agent. It is a value. Its Kind says
// which fields are set.
//
// The events of one agent are in the order in which the agent recorded them. The holds of
// one lock, on all agents, are in the order of their tokens. Time is for people: it does
// not order the events of two agents, whose clocks cannot be compared.
type Event struct {
	Kind  EventKind
	Agent AgentID
	Time  time.Time // of the agent's wall clock

	// Store is the identity of the store, which the store itself keeps. Two stores with the
	// same identity are one. It is empty if the agent has not reached the store yet.
	Store string

	Lock     Name
	LockKind LockKind
	Mode     Mode

	Owner   Owner
	Who     Who    // the process behind the request
	Request uint64 // identifies the request within the agent
	Tenure  uint64 // Tenure.Number
	Token   Token
	How     How
	Count   int // grants that the owner has of the lock, after this event
	Waiters int // requests that wait in this agent, after this event

	// Sum is that of the [HoldSum] of each hold that the agent has: see EventAlive and EventAgentStarted.
	Sum uint64

	// Permits is the number of permits of a hold of a semaphore, where 0 is 1, or that of an operation on a
	// semaphore. Total is the number of all permits of the semaphore: when the store granted those of the hold,
	// see AcquireReply, or after the operation. It is 0 if the store did not tell.
	Permits int
	Total   int
	Op      PermitsOp // only for EventPermits
	Permit  PermitID  // only for EventPermits

	// Replicas is how many replicas of the store were known to have the tenure: of grants and ends when the lock
	// was granted, see [Grant.Replicas], of renewals after the renewal. It is 0 if the store does not ask
	// its replicas.
	Replicas int

	// Holds is how many holds the owner may make of the grant, one after the other, of grants and ends, where 0 is 1.
	// They have the tokens from Token on. The agent does not know how many of them were made.
	Holds int

	Waited    time.Duration // from the request to this event
	Held      time.Duration // from the grant to this event
	Lease     time.Duration // of grants, renewals and ends: of the tenure; otherwise what the request asks for
	Fixed     bool          // the lease of the request is fixed, not kept
	Remaining time.Duration // until the deadline

	// StoreTime is when the store decided, on its own clock.
	StoreTime StoreTime
	// Until bounds the end of the hold on the store's clock: what that clock showed at most when
	// the owner had released the hold, or had been told of its end. Whoever has a context of the
	// grant had been told as well:
	//
	//	Until = StoreTime of the store's last answer + what passed here since that call was sent
	//
	// This answer is the last one that confirmed the tenure, or the one that denied it. Returned
	// is another such bound.
	Until StoreTime
	// Confirmed is when the store last confirmed the lease of the tenure.
	Confirmed StoreTime
	// Returned is when the store ended the tenure.
	Returned StoreTime
	// Incarnation is that of the store at the time of the grant.
	Incarnation string

	Holder   string // who has the lock instead: an Owner of this agent, or what the store knows
	Operator string // who broke the lock
	Reason   LossReason
	Err      string  // text of an error, for people
	Reset    Reset   // only for EventStoreReset
	Process  Process // only for EventAgentStarted

	// Grace is only for EventGraceBegan and EventGraceEnded. Nobody changes it any more.
	Grace *GracePeriod

	// TraceParent is the W3C trace context of the request's span, or empty.
	TraceParent string
	// Link is the W3C trace context of the release that passed the lock to this agent, if that
	// release was sampled. Only for EventGranted. It is not in the log.
	Link string
}

// Recorder takes the events of an agent. Many goroutines call Record at once. The events of
// one lock come one after the other, in order.
//
// Record never blocks and never fails: it counts what it cannot keep. The agent may call it
// inside of the application's own calls to acquire and release. So Record must not lock a
// mutex that the application holds during such a call. The context carries values only,
// such as the trace of the request that the event is about.
type Recorder interface {
	Record(ctx context.Context, e Event)
}

// SelectiveRecorder is a [Recorder] that may want nothing for some time, such as one for traces while no
// SDK takes them. An agent that knows it does not even make the events of its locks then.
type SelectiveRecorder interface {
	Recorder

	// Enabled reports whether Record would do anything with an event that has this context. It
	// must be as quick as a look at a few variables. If it panics, the agent makes the event.
	Enabled(ctx context.Context) bool
}
