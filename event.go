package lockagent

import (
	"context"
	"time"
)

// EventKind says which step in a lock's life an [Event] records.
type EventKind uint8

// The catalogue of events. The comment of each names the fields that it sets
// beside Kind, Agent and Time; all but those of an agent also set Lock.
const (
	_ EventKind = iota
	// EventRequested: a request arrived. Request, Owner, Lease (0 if kept).
	EventRequested
	// EventQueued: it could not be granted at once. Request, Owner, Waiters.
	EventQueued
	// EventGranted: the lock was granted. Request, Owner, Token, Tenure, How,
	// Waited, StoreTime (when the store began or last confirmed the tenure),
	// Lease, Count, Incarnation.
	EventGranted
	// EventReentered: the owner was granted the lock again. As EventGranted.
	EventReentered
	// EventRenewed: the store confirmed the lease anew. Tenure, StoreTime, Lease.
	// Not published unless asked for.
	EventRenewed
	// EventUncertain: a renewal failed; the hold goes on until its deadline.
	// Tenure, Token, Owner, Err, Remaining.
	EventUncertain
	// EventReleased: the owner gave one grant up. Request, Owner, Token, Tenure,
	// Held, Count (grants the owner has left: 0 if the hold is over), Until.
	EventReleased
	// EventExpired: the fixed lease of a hold ran out. As EventReleased.
	EventExpired
	// EventLost: a hold ended against the will of its owner. As EventReleased,
	// and Reason.
	EventLost
	// EventBroken: an operator ended a hold of this agent. As EventLost. Without a
	// Token: the operator freed a lock that somebody else held. StoreTime.
	EventBroken
	// EventUnclaimed: nobody received the grant, or nobody had it any more; it was taken
	// back. As EventReleased.
	EventUnclaimed
	// EventReturned: the tenure is over in the store. Tenure, StoreTime (when the
	// store ended it), Reason if the store found it over already.
	EventReturned
	// EventTimedOut: the wait of a request passed. Request, Owner, Waited.
	EventTimedOut
	// EventCancelled: the context of a request ended. As EventTimedOut, and Err.
	EventCancelled
	// EventRefused: a request was answered with an error. As EventCancelled.
	EventRefused
	// EventStoreReset: the store is another incarnation than before, or its clock was set. Reset.
	EventStoreReset
	// EventAgentStarted and EventAgentStopped: the first and the last event of an
	// agent that started and stopped in order.
	EventAgentStarted
	EventAgentStopped
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

// EndsHold reports whether an event of kind k ends a hold, given that its Count
// is 0.
func (k EventKind) EndsHold() bool {
	switch k {
	case EventReleased, EventExpired, EventLost, EventBroken, EventUnclaimed:
		return true
	}
	return false
}

// How says where a grant came from.
type How uint8

// The ways to a grant.
const (
	_ How = iota
	// ByStore: the store granted the lock to the agent, and this is the first
	// hold of the tenure.
	ByStore
	// ByHandOff: the agent passed its tenure on from one local owner to the next.
	ByHandOff
)

// String is "store" or "handoff", or empty for the zero How.
func (h How) String() string {
	switch h {
	case ByStore:
		return "store"
	case ByHandOff:
		return "handoff"
	}
	return ""
}

// Event records one step in the life of a lock or an agent. It is a value; which
// fields are set depends on its Kind.
//
// The order of one agent's events is the order in which they were recorded. The
// order of one lock's grants across agents is the order of their tokens. Time is
// for people: no two agents' clocks can be compared.
type Event struct {
	Kind  EventKind
	Agent AgentID
	Time  time.Time // of the agent's wall clock

	Lock    Name
	Owner   Owner
	Request uint64 // identifies the request within the agent
	Tenure  uint64 // Tenure.Number
	Token   Token
	How     How
	Count   int // grants that the owner has of the lock, after this event
	Waiters int // requests that wait in this agent, after this event

	Waited    time.Duration // from the request to this event
	Held      time.Duration // from the grant to this event
	Lease     time.Duration
	Remaining time.Duration // until the deadline

	// StoreTime is when the store decided, on its own clock.
	StoreTime StoreTime
	// Until is the latest that the store's clock can have shown when the owner
	// was told that its hold is over: the last time the store was heard of, plus
	// what has passed since on the agent's clock. The tenure's EventReturned, if
	// there is one, bounds it from above as well.
	Until StoreTime
	// Incarnation is the store's, at the time of the grant.
	Incarnation string

	Reason LossReason
	Err    string // text of an error, for people
	Reset  Reset  // only for EventStoreReset

	// TraceParent is the W3C trace context of the request's span, or empty.
	TraceParent string
}

// Recorder takes the events of an agent, in order. Record may run within the
// application's own calls to acquire and release, so it must want no mutex that is held
// while such a call is made. It never blocks and never
// fails: what it cannot keep it counts. The context carries values only, such as
// the trace of the request that the event is about. Record is called by many
// goroutines at once; the calls for one lock come one after the other.
type Recorder interface {
	Record(ctx context.Context, e Event)
}
