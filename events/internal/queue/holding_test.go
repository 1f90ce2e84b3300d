package queue

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

// While nothing leaves the queue, one record says that a hold goes on. It comes after all that was recorded before the
// last time that it was told of.
func TestOneRecordSaysThatAHoldGoesOn(t *testing.T) {
	q := New(100, time.Hour)
	at := time.Duration(0)
	add := func(kind lockagent.EventKind, lock lockagent.Name, n uint64) {
		at += 10 * time.Minute
		e := eventstest.Step(kind, lock, n)
		e.Held = at
		q.Add(at, &e)
	}
	sign := func() { q.Sign(at, &lockagent.Event{Kind: lockagent.EventAlive}) }
	add(lockagent.EventGranted, "a", 1)
	sign()
	add(lockagent.EventHolding, "a", 1) // its grant says so
	add(lockagent.EventHolding, "b", 2)
	sign()
	add(lockagent.EventHolding, "a", 1)
	add(lockagent.EventHolding, "b", 2)
	add(lockagent.EventHolding, "b", 3) // another permit
	add(lockagent.EventReleased, "a", 1)
	facts := uint64(0)
	var got []lockagent.EventKind
	var last lockagent.Event
	for _, it := range q.Take(at+time.Hour, 100, nil) {
		got, facts = append(got, it.Kind), facts+uint64(it.facts)
		if it.Kind == lockagent.EventHolding && it.Common.Lock == "b" && it.Token == 2 {
			it.Event(&last)
		}
	}
	want := []lockagent.EventKind{
		lockagent.EventGranted, lockagent.EventAlive, lockagent.EventAlive,
		lockagent.EventHolding, lockagent.EventHolding, lockagent.EventReleased,
	}
	if len(got) != len(want) || facts != 7 {
		t.Fatalf("took %v with %d facts, want %v with 7", got, facts, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	if last.Held != 50*time.Minute {
		t.Errorf("the last one says %v", last.Held)
	}
}

// A full queue drops what says that a hold goes on before anything else, for it is told again.
func TestHoldingsAreDroppedFirst(t *testing.T) {
	q := New(2, time.Hour)
	for i, kind := range []lockagent.EventKind{lockagent.EventHolding, lockagent.EventTimedOut, lockagent.EventGranted} {
		e := eventstest.Step(kind, "a", uint64(i+1))
		q.Add(0, &e)
	}
	if q.Missing[lockagent.EventHolding] != 1 || q.Missing.Sum() != 1 {
		t.Errorf("dropped %v", q.Missing)
	}
}
