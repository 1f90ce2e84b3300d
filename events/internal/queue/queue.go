// Package queue keeps what an agent recorded for a while, makes fewer records of it, and makes messages of these. It
// has no goroutine and no clock.
package queue

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// Queue keeps what an agent recorded for the linger, and makes fewer records of it in the
// meantime. It has no goroutine and no clock: now is the time since any fixed instant.
//
// Facts go in, records come out, oldest first. A record never moves before another one about
// the holds of the same lock.
type Queue struct {
	linger   time.Duration
	interval time.Duration // between two departures, unless something is urgent
	limit    int           // records

	facts uint64 // of the records that are queued
	Size  int    // records that are queued
	Next  uint64 // order of the next record
	Hurry uint64 // every record before this order is due

	signed uint64 // the order of the last sign of life

	left time.Duration // when records left for the last time

	Slots    slots
	lists    [values]chain   // the records, one list for each value, oldest first
	holds    lasts           // the last record about the holds of each lock
	requests map[uint64]slot // what is queued of a request that has no answer yet
	names    *wire.Common    // the latest that no record had before; or nil
	spare    []*wire.More    // which no record needs any more
	Missing  events.Drops    // the records that were dropped and are not told yet
	Lost     lost
}

// lost counts what was dropped, told or not.
type lost struct {
	Kinds          events.Drops
	Records, Facts uint64
}

// Item is a record that waits.
type Item struct {
	wire.Fact
	facts      uint32        // how many the record tells
	next, prev slot          // in the list of its value
	own        slot          // its place; 0 for an EventDropped, which was never queued
	Order      uint64        // its place among all records
	at         time.Duration // when it was recorded
}

// chain is a list of items that begins and ends with 0 if it is empty.
type chain struct{ first, last slot }

// mostSpare is how many more are spare at most: 15 KiB. A request is mostly answered soon after another one began to
// wait.
const mostSpare = 64

// busy is how many times the linger it takes from one departure to the next. An agent with little to
// tell has told it after the linger. One with much to tell has more records in each message.
const busy = 10

func New(limit int, linger time.Duration) Queue {
	return Queue{
		linger:   linger,
		interval: busy * linger,
		left:     -busy * linger,
		limit:    limit,
		holds:    lasts{slots: make(map[lockagent.Name]slot)},
		requests: make(map[uint64]slot),
	}
}

// Add takes a fact. If there is no room for it, the record of the least value goes. If the fact is told
// by a new record that tells of an older one too, add returns the order of the older one.
func (q *Queue) Add(now time.Duration, e *lockagent.Event) (older uint64, moved bool) {
	facts := uint32(1)
	switch e.Kind {
	case lockagent.EventQueued:
		if s := q.request(e); s != 0 {
			it := q.Slots.at(s)
			names := it.Common
			if !names.Of(e) {
				names = q.commonFor(e)
			}
			q.save(it)
			it.Set(e, names, q.moreFor(e))
			it.facts++
			q.facts++
			return 0, false
		}
	case lockagent.EventGranted, lockagent.EventReentered,
		lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
		if s := q.request(e); s != 0 {
			it := q.Slots.at(s)
			facts, older = facts+it.facts, it.Order
			q.unlink(s)
			q.save(it)
			q.put(s, now, e, facts)
			return older, true
		}
	case lockagent.EventHolding:
		// While nothing leaves the queue, one record says that the hold goes on: its grant, or else the last of these.
		it := q.lastOf(e.Lock)
		switch {
		case it == nil || it.Tenure != e.Tenure || it.Token != e.Token:
		case it.Kind == lockagent.EventGranted:
			it.facts++
			q.facts++
			return 0, false
		case it.Kind == lockagent.EventHolding:
			facts, older = facts+it.facts, it.Order
			s := it.own
			q.unlink(s)
			q.save(it)
			q.put(s, now, e, facts)
			return older, true
		}
	case lockagent.EventReleased, lockagent.EventReturned:
		if it := q.lastOf(e.Lock); it != nil && it.Order >= q.signed && merge(&it.Fact, e) {
			it.facts++
			q.facts++
			return 0, false
		}
	}
	q.push(now, e, facts)
	return 0, false
}

// request returns where the request of e waits for its answer, or 0.
func (q *Queue) request(e *lockagent.Event) slot {
	s := q.requests[e.Request]
	if s == 0 || q.Slots.at(s).Common.Lock != e.Lock {
		return 0
	}
	return s
}

// lastOf returns the last record about the holds of a lock, or nil.
func (q *Queue) lastOf(name lockagent.Name) *Item {
	if s := q.holds.at(name); s != 0 {
		return q.Slots.at(s)
	}
	return nil
}

// commonFor returns what e has in common with others. A grant mostly has it in common with the hold before. The
// requests that wait have it in common with each other, as long as they are about the same lock.
func (q *Queue) commonFor(e *lockagent.Event) *wire.Common {
	if it := q.lastOf(e.Lock); it != nil && it.Common.Of(e) {
		return it.Common
	}
	if q.names == nil || !q.names.Of(e) {
		names := wire.CommonOf(e)
		q.names = &names
	}
	return q.names
}

// moreFor returns what e has and few others have, or nil.
func (q *Queue) moreFor(e *lockagent.Event) *wire.More {
	if !wire.HasMore(e) {
		return nil
	}
	last := len(q.spare) - 1
	if last < 0 {
		m := wire.MoreOf(e)
		return &m
	}
	m := q.spare[last]
	q.spare = q.spare[:last]
	*m = wire.MoreOf(e)
	return m
}

// save keeps the memory of the fields that few records have, for a later record. The caller then gives this record
// another fact. On a busy lock each hold has a request that waited, so the memory is used again for each hold.
func (q *Queue) save(it *Item) {
	if it.More != nil && len(q.spare) < mostSpare {
		*it.More = wire.More{} // its texts are not kept
		q.spare = append(q.spare, it.More)
	}
}

// push adds a record as the last one.
func (q *Queue) push(now time.Duration, e *lockagent.Event, facts uint32) {
	about := aboutOf(e.Kind)
	if q.Size >= q.limit && !q.makeRoom(about.value) {
		q.Drop(e.Kind, facts)
		return
	}
	q.put(q.Slots.take(), now, e, facts)
}

// Sign adds a sign of life. The sign of life counts the holds that go on at its place in the log. So all records that
// wait in the queue are sent before the sign of life, and no later event becomes part of one of them.
func (q *Queue) Sign(now time.Duration, e *lockagent.Event) {
	q.signed = q.Next
	q.push(now, e, 0)
	q.HurryUp()
}

// put makes a slot the last record.
func (q *Queue) put(s slot, now time.Duration, e *lockagent.Event, facts uint32) {
	about := aboutOf(e.Kind)
	it := q.Slots.at(s)
	l := &q.lists[about.value]
	it.Set(e, q.commonFor(e), q.moreFor(e))
	it.facts, it.Order, it.at = facts, q.Next, now
	it.next, it.prev, it.own = 0, l.last, s
	if l.last == 0 {
		l.first = s
	} else {
		q.Slots.at(l.last).next = s
	}
	l.last = s
	q.Next++
	q.Size++
	q.facts += uint64(facts)
	switch {
	case about.request && e.Request != 0:
		q.requests[e.Request] = s
	case about.hold:
		q.holds.set(e.Lock, s)
	}
	// When much is queued, waiting longer saves little.
	if events.Urgent(e.Kind) || q.Size > q.limit/4 {
		q.HurryUp()
	}
}

// makeRoom drops the oldest record of the least value, if that is at most value.
func (q *Queue) makeRoom(value value) bool {
	for v := range value + 1 {
		if s := q.lists[v].first; s != 0 {
			it := q.Slots.at(s)
			q.Drop(it.Kind, it.facts)
			q.remove(s)
			return true
		}
	}
	return false
}

// Drop counts a record whose place in the log will be empty.
func (q *Queue) Drop(kind lockagent.EventKind, facts uint32) {
	q.Missing.Add(kind)
	q.Lose(kind, facts)
}

// Lose counts a record that nobody will read.
func (q *Queue) Lose(kind lockagent.EventKind, facts uint32) {
	q.Lost.Kinds.Add(kind)
	q.Lost.Records++
	q.Lost.Facts += uint64(facts)
}

// remove takes a record out.
func (q *Queue) remove(s slot) {
	q.unlink(s)
	q.Slots.give(s)
}

// unlink takes a record out, but not its slot.
func (q *Queue) unlink(s slot) {
	it := q.Slots.at(s)
	about := aboutOf(it.Kind)
	l := &q.lists[about.value]
	if it.prev == 0 {
		l.first = it.next
	} else {
		q.Slots.at(it.prev).next = it.next
	}
	if it.next == 0 {
		l.last = it.prev
	} else {
		q.Slots.at(it.next).prev = it.prev
	}
	switch {
	case about.request && q.requests[it.Request] == s:
		delete(q.requests, it.Request)
	case about.hold && q.holds.at(it.Common.Lock) == s:
		q.holds.set(it.Common.Lock, 0)
	}
	q.Size--
	q.facts -= uint64(it.facts)
}

// HurryUp makes all that is queued due.
func (q *Queue) HurryUp() { q.Hurry = q.Next }

// Take moves records to the end of out, at most most of them, oldest first. It takes none until
// they may leave. Then it takes all but those that are young and may still become fewer: so
// that messages have many records. They belong to the caller until [queue.gone].
func (q *Queue) Take(now time.Duration, most int, out []*Item) []*Item {
	if wait, ok := q.Wait(now); !ok || wait > 0 {
		return out
	}
	return q.More(now, most, out)
}

// More goes on with what take began.
func (q *Queue) More(now time.Duration, most int, out []*Item) []*Item {
	var at [values]slot // the next record of each list
	for v := range q.lists {
		at[v] = q.lists[v].first
	}
	for most > 0 {
		v := q.oldestOf(&at)
		s := at[v]
		if s == 0 {
			q.left = now // else the rest may leave as soon as there is room
			break
		}
		it := q.Slots.at(s)
		at[v] = it.next
		if !q.due(now, it) && q.open(s, it) {
			continue
		}
		out = append(out, it)
		q.unlink(s)
		most--
	}
	return out
}

// Gone takes back the memory of records that take returned.
func (q *Queue) Gone(items []*Item) {
	for _, it := range items {
		if it.own != 0 {
			q.Slots.give(it.own)
		}
	}
}

// open reports whether the next fact may be told by this record, or instead of it. Nothing about
// the holds of the lock comes after such a record, so others may overtake it.
func (q *Queue) open(s slot, it *Item) bool {
	switch it.Kind {
	case lockagent.EventRequested, lockagent.EventQueued:
		return true
	case lockagent.EventGranted:
		return q.holds.at(it.Common.Lock) == s
	case lockagent.EventHeld, lockagent.EventReleased:
		return it.Count == 0 && it.Returned == 0 && q.holds.at(it.Common.Lock) == s
	}
	return false
}

func (q *Queue) due(now time.Duration, it *Item) bool {
	return it.Order < q.Hurry || now-it.at >= q.linger
}

// Wait returns how long it takes until records may leave, and false if there is none.
func (q *Queue) Wait(now time.Duration) (time.Duration, bool) {
	s := q.oldest()
	if s == 0 {
		return 0, false
	}
	it := q.Slots.at(s)
	if it.Order < q.Hurry {
		return 0, true
	}
	return max(0, it.at+q.linger-now, q.left+q.interval-now), true
}

// From returns the order of the oldest record that is queued or will be.
func (q *Queue) From() uint64 {
	if s := q.oldest(); s != 0 {
		return q.Slots.at(s).Order
	}
	return q.Next
}

// oldest returns the oldest record, or 0.
func (q *Queue) oldest() slot {
	var at [values]slot
	for v := range q.lists {
		at[v] = q.lists[v].first
	}
	return at[q.oldestOf(&at)]
}

// oldestOf returns the list whose record is the oldest of those at the places.
func (q *Queue) oldestOf(at *[values]slot) (oldest value) {
	for v, s := range at {
		if s != 0 && (at[oldest] == 0 || q.Slots.at(s).Order < q.Slots.at(at[oldest]).Order) {
			oldest = value(v)
		}
	}
	return oldest
}
