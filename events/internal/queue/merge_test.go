package queue

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// What one record tells of two facts is what they have told, and nothing else merges.
func TestMerge(t *testing.T) {
	granted := eventstest.Step(lockagent.EventGranted, "a", 1)
	released := eventstest.Step(lockagent.EventReleased, "a", 1)
	returned := eventstest.Step(lockagent.EventReturned, "a", 0)
	whole := granted
	whole.Kind, whole.Count, whole.Held, whole.Until, whole.Confirmed = lockagent.EventHeld, 0, 9, 10, 11
	but := func(e lockagent.Event, change func(*lockagent.Event)) lockagent.Event {
		change(&e)
		return e
	}
	over := func(e *lockagent.Event) { e.Returned = 12 }
	for name, test := range map[string]struct{ last, next, want lockagent.Event }{
		"Hold":                {granted, released, whole},
		"HoldThatWasReturned": {granted, but(released, over), but(whole, over)},
		"HeldAndReturned":     {whole, returned, but(whole, over)},
		"ReleasedAndReturned": {released, returned, but(released, over)},
		"OneOfTwoAndReturned": {but(released, func(e *lockagent.Event) { e.Count = 1 }), returned, lockagent.Event{}},
		"ReturnedTwice":       {but(released, over), returned, lockagent.Event{}},
		"ReturnedAtNoTime":    {released, but(returned, func(e *lockagent.Event) { e.Returned = 0 }), lockagent.Event{}},
		"ReturnedWithAReason": {
			released, but(returned, func(e *lockagent.Event) { e.Reason = lockagent.LostDenied }), lockagent.Event{},
		},
		"ReturnedWithAnError": {released, but(returned, func(e *lockagent.Event) { e.Err = "late" }), lockagent.Event{}},
		"ReturnedByThen":      {released, but(returned, func(e *lockagent.Event) { e.Until = 12 }), lockagent.Event{}},
		"GrantedAndReturned":  {granted, returned, lockagent.Event{}},
		"OneOfTwo":            {granted, but(released, func(e *lockagent.Event) { e.Count = 1 }), lockagent.Event{}},
		"AnotherTenure":       {granted, but(released, func(e *lockagent.Event) { e.Tenure = 2 }), lockagent.Event{}},
		"AnotherToken":        {granted, but(released, func(e *lockagent.Event) { e.Token = 2 }), lockagent.Event{}},
		"AnotherOwner":        {granted, but(released, func(e *lockagent.Event) { e.Owner = "eve" }), lockagent.Event{}},
		"AnotherRequest":      {granted, but(released, func(e *lockagent.Event) { e.Request = 2 }), lockagent.Event{}},
		"ReleasedAndReleased": {released, released, lockagent.Event{}},
		"LeaseHasBecomeLonger": {
			granted, but(released, func(e *lockagent.Event) { e.Lease = time.Hour }),
			but(whole, func(e *lockagent.Event) { e.Lease = time.Hour }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := wire.FactOf(&test.last)
			merged := merge(&last, &test.next)
			var got lockagent.Event
			last.Event(&got)
			switch {
			case merged != (test.want != lockagent.Event{}):
				t.Errorf("merged: %v", merged)
			case merged && got != test.want:
				t.Errorf("got %+v, want %+v", got, test.want)
			case !merged && got != test.last:
				t.Errorf("it was changed to %+v", got)
			}
		})
	}
}

// A young record stays in the queue as long as a later fact may be told by it, and no longer.
func TestWhatStaysForALaterFact(t *testing.T) {
	const linger = 5 * time.Millisecond
	left := eventstest.Step(lockagent.EventReleased, "a", 1)
	left.Count = 1
	returned := eventstest.Step(lockagent.EventReleased, "a", 1)
	returned.Returned = 12
	for name, test := range map[string]struct {
		facts []lockagent.Event
		stay  int
	}{
		"Requested": {[]lockagent.Event{eventstest.Step(lockagent.EventRequested, "a", 1)}, 1},
		"Queued": {
			[]lockagent.Event{eventstest.Step(lockagent.EventRequested, "a", 1), eventstest.Step(lockagent.EventQueued, "a", 1)},
			1,
		},
		"Granted": {[]lockagent.Event{eventstest.Step(lockagent.EventGranted, "a", 1)}, 1},
		"GrantedAndReentered": {
			[]lockagent.Event{
				eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventReentered, "a", 2),
			},
			0,
		},
		"Held": {
			[]lockagent.Event{eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventReleased, "a", 1)},
			1,
		},
		"HeldAndReturned": {
			[]lockagent.Event{
				eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventReleased, "a", 1),
				eventstest.Step(lockagent.EventReturned, "a", 0),
			},
			0,
		},
		"Released": {[]lockagent.Event{eventstest.Step(lockagent.EventReleased, "a", 1)}, 1},
		// The grant.
		"ReleasedAndTaken": {
			[]lockagent.Event{eventstest.Step(lockagent.EventReleased, "a", 1), eventstest.Step(lockagent.EventGranted, "a", 2)},
			1,
		},
		"OneOfTwoReleased": {[]lockagent.Event{left}, 0},
		"Returned":         {[]lockagent.Event{returned}, 0},
		"Cancelled": {
			[]lockagent.Event{
				eventstest.Step(lockagent.EventRequested, "a", 1), eventstest.Step(lockagent.EventCancelled, "a", 1),
			},
			0,
		},
		"Refused": {
			[]lockagent.Event{
				eventstest.Step(lockagent.EventRequested, "a", 1), eventstest.Step(lockagent.EventRefused, "a", 1),
			},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := New(100, linger)
			old := eventstest.Step(lockagent.EventTimedOut, "old", 9)
			q.Add(0, &old) // it is due, so that others may leave with it
			for _, e := range test.facts {
				q.Add(linger-1, &e)
			}
			q.Take(linger, 100, nil)
			if q.Size != test.stay {
				t.Errorf("%d records stay, want %d", q.Size, test.stay)
			}
		})
	}
}
