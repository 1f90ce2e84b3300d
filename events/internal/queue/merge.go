package queue

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// value says what is dropped first when the queue is full.
type value uint8

// The values, the least one first.
const (
	hint     value = iota // what is not in the log if things go well
	answer                // what happened to a request, and to a tenure without a hold
	proof                 // grants and ends: what an audit cannot do without
	landmark              // about the agent or the store
	values
)

// about is what the queue and the sender have to know of a kind of event.
type about struct {
	value   value
	request bool // about a request that has no answer yet
	hold    bool // about the holds of a lock: its order among these matters
}

var abouts = [...]about{
	lockagent.EventRequested:    {value: hint, request: true},
	lockagent.EventQueued:       {value: hint, request: true},
	lockagent.EventGranted:      {value: proof, hold: true},
	lockagent.EventReentered:    {value: answer, hold: true},
	lockagent.EventRenewed:      {value: hint, hold: true},
	lockagent.EventUncertain:    {value: answer, hold: true},
	lockagent.EventReleased:     {value: proof, hold: true},
	lockagent.EventExpired:      {value: proof, hold: true},
	lockagent.EventLost:         {value: proof, hold: true},
	lockagent.EventBroken:       {value: proof, hold: true},
	lockagent.EventUnclaimed:    {value: proof, hold: true},
	lockagent.EventReturned:     {value: answer, hold: true},
	lockagent.EventTimedOut:     {value: answer},
	lockagent.EventCancelled:    {value: answer},
	lockagent.EventRefused:      {value: answer},
	lockagent.EventStoreReset:   {value: landmark},
	lockagent.EventAgentStarted: {value: landmark},
	lockagent.EventAgentStopped: {value: landmark},
	lockagent.EventHeld:         {value: proof, hold: true},
	lockagent.EventAlive:        {value: hint}, // the next one says as much
	lockagent.EventDropped:      {value: landmark},
	lockagent.EventPermits:      {value: proof},
	lockagent.EventHolding:      {value: hint, hold: true}, // the next one says as much
	lockagent.EventGraceBegan:   {value: landmark},
	lockagent.EventGraceEnded:   {value: landmark},
}

// aboutOf needs a kind of the catalogue.
func aboutOf(k lockagent.EventKind) about { return abouts[k] }

// merge makes last tell the fact e as well, and reports whether it can. last is the last
// record about the holds of the same lock.
func merge(last *wire.Fact, e *lockagent.Event) bool {
	if last.Tenure != e.Tenure {
		return false
	}
	if e.Kind == lockagent.EventReturned {
		ended := last.Kind == lockagent.EventHeld || last.Kind == lockagent.EventReleased && last.Count == 0
		if !ended || last.Returned != 0 || e.Returned == 0 || e.Reason != 0 || e.Until != 0 || e.Err != "" {
			return false
		}
		last.Returned = e.Returned
		return true
	}
	if last.Kind != lockagent.EventGranted || e.Count != 0 ||
		last.Token != e.Token || last.Owner != e.Owner || last.Request != e.Request {
		return false
	}
	// Time, Waited, StoreTime and TraceParent stay those of the grant. The lease may have become another one.
	last.Kind, last.Count = lockagent.EventHeld, 0
	last.Held, last.Lease, last.Confirmed, last.Until = e.Held, e.Lease, e.Confirmed, e.Until
	last.Returned = e.Returned
	return true
}
