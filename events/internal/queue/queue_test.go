package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

func eventOf(it *Item) (e lockagent.Event) {
	it.Event(&e)
	return e
}

// emptied says what is in the queue, in its order, by kind and request.
func emptied(q *Queue) []string {
	var all []string
	q.HurryUp()
	items := q.Take(time.Hour, 1<<30, nil)
	for _, it := range items {
		text := fmt.Sprintf("%v%d", it.Kind, it.Request)
		if it.Returned != 0 && it.Kind != lockagent.EventReturned {
			text += "+returned"
		}
		all = append(all, text)
	}
	q.Gone(items)
	return all
}

func TestFactsMerge(t *testing.T) {
	type facts = []lockagent.Event
	const a, b = lockagent.Name("a"), lockagent.Name("b")
	step := func(kind lockagent.EventKind) func(lock lockagent.Name, n uint64) lockagent.Event {
		return func(lock lockagent.Name, n uint64) lockagent.Event { return eventstest.Step(kind, lock, n) }
	}
	requested, queued := step(lockagent.EventRequested), step(lockagent.EventQueued)
	granted, timedOut := step(lockagent.EventGranted), step(lockagent.EventTimedOut)
	released, returned, lost := step(lockagent.EventReleased), step(lockagent.EventReturned), step(lockagent.EventLost)
	reentered := eventstest.Step(lockagent.EventReentered, a, 1)
	otherTenure := released(a, 1)
	otherTenure.Tenure = 2
	otherToken := released(a, 1)
	otherToken.Token = 2
	left := released(a, 1)
	left.Count = 1
	denied := returned(a, 0)
	denied.Reason = lockagent.LostDenied
	tenure2 := returned(a, 0)
	tenure2.Tenure = 2
	for name, test := range map[string]struct {
		facts facts
		want  []string
	}{
		"Hold": {
			facts{requested(a, 1), queued(a, 1), granted(a, 1), released(a, 1), returned(a, 0)},
			[]string{"held1+returned"},
		},
		"Waits": {facts{requested(a, 1), queued(a, 1)}, []string{"queued1"}},
		"OthersWait": {
			facts{granted(a, 1), requested(a, 2), queued(a, 2), released(a, 1)},
			[]string{"held1", "queued2"},
		},
		"HandOff": {
			facts{granted(a, 1), queued(a, 2), released(a, 1), granted(a, 2), released(a, 2), returned(a, 0)},
			[]string{"held1", "held2+returned"},
		},
		"OtherLocks": {
			facts{granted(a, 1), granted(b, 2), released(a, 1), released(b, 2)},
			[]string{"held1", "held2"},
		},
		"Shared": {
			facts{granted(a, 1), granted(a, 2), released(a, 1), released(a, 2)},
			[]string{"granted1", "granted2", "released1", "released2"},
		},
		"Reentered": {
			facts{granted(a, 1), reentered, left, released(a, 1)},
			[]string{"granted1", "reentered1", "released1", "released1"},
		},
		"OtherTenure":     {facts{granted(a, 1), otherTenure}, []string{"granted1", "released1"}},
		"OtherToken":      {facts{granted(a, 1), otherToken}, []string{"granted1", "released1"}},
		"Lost":            {facts{granted(a, 1), lost(a, 1)}, []string{"granted1", "lost1"}},
		"ReleasedEarlier": {facts{released(a, 1), returned(a, 0)}, []string{"released1+returned"}},
		"NotTheLast": {
			facts{released(a, 1), granted(a, 2), returned(a, 0)},
			[]string{"released1", "granted2", "returned0"},
		},
		"Denied":       {facts{released(a, 1), denied}, []string{"released1", "returned0"}},
		"TenureBefore": {facts{released(a, 1), tenure2}, []string{"released1", "returned0"}},
		"ReturnedTwice": {
			facts{released(a, 1), returned(a, 0), returned(a, 0)},
			[]string{"released1+returned", "returned0"},
		},
		"TimedOut": {facts{requested(a, 1), timedOut(a, 1)}, []string{"timedout1"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := New(100, time.Second)
			for _, e := range test.facts {
				q.Add(0, &e)
			}
			if q.facts != uint64(len(test.facts)) {
				t.Errorf("%d facts are queued, want %d", q.facts, len(test.facts))
			}
			if got := emptied(&q); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if q.facts != 0 || len(q.holds.slots) != 0 || len(q.requests) != 0 {
				t.Errorf("something is left: %d facts, %v, %v", q.facts, q.holds.slots, q.requests)
			}
		})
	}
}

// TestHeldHasBoth looks at the fields of a record that was made of three facts.
func TestHeldHasBoth(t *testing.T) {
	q := New(100, time.Second)
	grant := eventstest.Step(lockagent.EventGranted, "a", 1)
	release, end := eventstest.Step(lockagent.EventReleased, "a", 1), eventstest.Step(lockagent.EventReturned, "a", 0)
	grant.TraceParent, grant.How, grant.Lease, grant.Incarnation = "00-grant", lockagent.ByStore, 5, "run"
	release.TraceParent, release.Lease = "00-release", 30 // it was renewed, with the lease that its owner wants
	want := grant
	want.Kind, want.Count = lockagent.EventHeld, 0
	want.Held, want.Lease, want.Until = release.Held, release.Lease, release.Until
	want.Confirmed, want.Returned = release.Confirmed, end.Returned
	for _, e := range []lockagent.Event{grant, release, end} {
		q.Add(0, &e)
	}
	got := q.Take(time.Hour, 10, nil)
	if len(got) != 1 || eventOf(got[0]) != want || got[0].facts != 3 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLinger(t *testing.T) {
	const linger = 5 * time.Millisecond
	q := New(100, linger)
	if _, ok := q.Wait(0); ok {
		t.Error("an empty queue waits")
	}
	first, second := eventstest.Step(lockagent.EventGranted, "a", 1), eventstest.Step(lockagent.EventGranted, "b", 2)
	q.Add(time.Millisecond, &first)
	q.Add(3*time.Millisecond, &second)
	if wait, ok := q.Wait(2 * time.Millisecond); !ok || wait != 4*time.Millisecond {
		t.Errorf("wait %v, %v", wait, ok)
	}
	if got := q.Take(linger, 10, nil); len(got) != 0 {
		t.Errorf("took %v too early", got)
	}
	if got := q.Take(linger+time.Millisecond, 10, nil); len(got) != 1 || eventOf(got[0]) != first {
		t.Errorf("took %v", got)
	}
	lost := eventstest.Step(lockagent.EventLost, "c", 3)
	q.Add(4*time.Millisecond, &lost)
	if wait, ok := q.Wait(4 * time.Millisecond); !ok || wait != 0 {
		t.Errorf("something is urgent: wait %v, %v", wait, ok)
	}
	if got := q.Take(4*time.Millisecond, 1, nil); len(got) != 1 || eventOf(got[0]) != second {
		t.Errorf("took %v", got)
	}
	if got := q.Take(4*time.Millisecond, 1, nil); len(got) != 1 || eventOf(got[0]) != lost {
		t.Errorf("took %v", got)
	}
}

// When the oldest record is due, all leave but those that may still become fewer.
func TestYoungRecordsThatMayMergeStay(t *testing.T) {
	const linger = 5 * time.Millisecond
	q := New(100, linger)
	add := func(at time.Duration, kind lockagent.EventKind, lock lockagent.Name, n uint64) {
		e := eventstest.Step(kind, lock, n)
		q.Add(at, &e)
	}
	add(0, lockagent.EventGranted, "old", 1)
	add(1, lockagent.EventGranted, "handed off", 2)
	add(1, lockagent.EventRequested, "handed off", 3)
	add(2, lockagent.EventReleased, "handed off", 2) // it becomes held: nothing comes before the next grant
	add(2, lockagent.EventGranted, "handed off", 3)
	add(3, lockagent.EventRequested, "handed off", 4)
	add(3, lockagent.EventTimedOut, "busy", 5)
	var left []string
	for _, it := range q.Take(linger, 100, nil) {
		left = append(left, fmt.Sprint(it.Kind, it.Token))
	}
	if want := []string{"granted 1", "held 2", "timedout 5"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if q.Size != 2 { // the grant and the request are young
		t.Errorf("%d records stay, want 2", q.Size)
	}
	if wait, ok := q.Wait(linger); !ok || wait != busy*linger {
		t.Errorf("wait %v, %v", wait, ok)
	}
}

// A sign of life never costs a grant, whichever came first.
func TestAliveGoesBeforeGrants(t *testing.T) {
	for _, order := range [][]lockagent.EventKind{
		{lockagent.EventAlive, lockagent.EventGranted, lockagent.EventGranted},
		{lockagent.EventGranted, lockagent.EventGranted, lockagent.EventAlive},
	} {
		q := New(2, time.Hour)
		for i, kind := range order {
			e := eventstest.Step(kind, lockagent.Name(fmt.Sprint(i)), uint64(i))
			q.push(0, &e, 1)
		}
		if got := q.Missing.String(); got != "alive=1" {
			t.Errorf("%v: dropped %s", order, got)
		}
	}
}

// An agent with much to tell sends less often, and more at once.
func TestDepartures(t *testing.T) {
	const ms = time.Millisecond
	q := New(100, 5*ms)
	add := func(at time.Duration, kind lockagent.EventKind) {
		e := eventstest.Step(kind, "a", 1)
		q.Add(at, &e)
	}
	wants := func(now, wait time.Duration, most, took int) {
		t.Helper()
		if got, ok := q.Wait(now); !ok || got != wait {
			t.Errorf("at %v wait %v, %v; want %v", now, got, ok, wait)
		}
		if got := q.Take(now, most, nil); len(got) != took {
			t.Errorf("at %v took %v, want %d", now, got, took)
		}
	}
	add(0, lockagent.EventGranted)
	add(4*ms, lockagent.EventReentered)
	wants(5*ms, 0, 10, 2)
	add(6*ms, lockagent.EventReentered)
	wants(11*ms, 44*ms, 10, 0)
	add(49*ms, lockagent.EventReentered)
	add(54*ms, lockagent.EventTimedOut)
	wants(55*ms, 0, 1, 1) // there is no room for more
	wants(55*ms, 0, 10, 2)
	add(56*ms, lockagent.EventReentered)
	add(57*ms, lockagent.EventLost)
	wants(57*ms, 0, 10, 2)
	add(200*ms, lockagent.EventGranted)
	wants(200*ms, 5*ms, 10, 0)
	wants(205*ms, 0, 10, 1)
}

// TestDropsByValue fills a queue and wants the least valuable gone, the oldest first.
func TestDropsByValue(t *testing.T) {
	q := New(4, time.Hour)
	add := func(kind lockagent.EventKind, n uint64) {
		e := eventstest.Step(kind, lockagent.Name(fmt.Sprint(n)), n)
		q.Add(0, &e)
	}
	add(lockagent.EventAgentStarted, 1)
	add(lockagent.EventGranted, 2)
	add(lockagent.EventTimedOut, 3)
	add(lockagent.EventRequested, 4)
	add(lockagent.EventRequested, 5) // for 4
	add(lockagent.EventGranted, 6)   // for 5
	add(lockagent.EventRequested, 7) // nothing is worth less
	add(lockagent.EventReleased, 8)  // for 3
	add(lockagent.EventTimedOut, 9)
	if q.Missing.String() != "requested=3 timedout=2" || q.Lost.Facts != 5 || q.Lost.Records != 5 || q.Size != 4 {
		t.Errorf("dropped %v, %+v, size %d", q.Missing, q.Lost, q.Size)
	}
	add(lockagent.EventGranted, 10)      // for 2
	add(lockagent.EventAgentStopped, 11) // for 6
	if want := []string{"agentstarted1", "released8", "granted10", "agentstopped11"}; !slices.Equal(emptied(&q), want) {
		t.Errorf("want %q", want)
	}
	add(lockagent.EventReleased, 2) // its grant was dropped
	if got := emptied(&q); !slices.Equal(got, []string{"released2"}) {
		t.Errorf("got %q", got)
	}
}

// TestQueueAgainstFacts records random facts of a few locks. Whatever leaves the queue must tell
// all of them that it has not dropped, those about the holds of a lock in their order.
func TestQueueAgainstFacts(t *testing.T) {
	kinds := slices.DeleteFunc(lockagent.EventKinds(), func(k lockagent.EventKind) bool {
		return k == lockagent.EventHeld || k == lockagent.EventAlive || k == lockagent.EventDropped
	})
	// Of several facts that a hold goes on one record may tell.
	ordered := func(k lockagent.EventKind) bool { return aboutOf(k).hold && k != lockagent.EventHolding }
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 600).Draw(t, "limit")
		q := New(limit, 5)
		recordedFacts := make(map[lockagent.Name][]string) // about holds
		toldFacts := make(map[lockagent.Name][]string)
		var now time.Duration
		var facts, left uint64
		type ours struct {
			item *Item
			was  Item
			told lockagent.Event
		}
		var taken []ours
		take := func(most int) {
			before := q.From()
			for _, it := range q.Take(now, most, nil) {
				if it.Order < before {
					t.Fatalf("%d leaves after %d", it.Order, before)
				}
				before = it.Order
				taken = append(taken, ours{it, *it, eventOf(it)})
				left += uint64(it.facts)
				e := eventOf(it)
				if !ordered(e.Kind) {
					continue
				}
				if e.Kind == lockagent.EventHeld {
					toldFacts[e.Lock] = append(toldFacts[e.Lock],
						fmt.Sprint(lockagent.EventGranted, e.Token), fmt.Sprint(lockagent.EventReleased, e.Token))
				} else {
					toldFacts[e.Lock] = append(toldFacts[e.Lock], fmt.Sprint(e.Kind, e.Token))
				}
				if e.Returned != 0 && e.Kind != lockagent.EventReturned {
					toldFacts[e.Lock] = append(toldFacts[e.Lock], fmt.Sprint(lockagent.EventReturned, 0))
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					kind := rapid.SampledFrom(kinds).Draw(t, "kind")
					lock := lockagent.Name(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "lock"))
					e := eventstest.Step(kind, lock, rapid.Uint64Range(1, 4).Draw(t, "request"))
					q.Add(now, &e)
					facts++
					if ordered(kind) {
						recordedFacts[lock] = append(recordedFacts[lock], fmt.Sprint(kind, e.Token))
					}
				}
			},
			"time passes": func(t *rapid.T) { now += time.Duration(rapid.IntRange(1, 10).Draw(t, "d")) },
			"take":        func(t *rapid.T) { take(rapid.IntRange(1, 100).Draw(t, "most")) },
			"gone": func(t *rapid.T) {
				for _, of := range taken {
					if told := eventOf(of.item); *of.item != of.was || told != of.told {
						t.Fatalf("a record that was taken became\n%+v, was\n%+v", told, of.told)
					}
				}
				n := rapid.IntRange(0, len(taken)).Draw(t, "n")
				for _, of := range taken[:n] {
					q.Gone([]*Item{of.item})
				}
				taken = taken[n:]
			},
			"hurry": func(t *rapid.T) { q.HurryUp() },
			"": func(t *rapid.T) {
				if facts != q.facts+left+q.Lost.Facts || q.Size > limit || q.Size+len(taken) != q.Slots.Used {
					t.Fatalf("%d facts: %d queued, %d told, %d dropped; %d records of %d and %d that were taken in %d slots",
						facts, q.facts, left, q.Lost.Facts, q.Size, limit, len(taken), q.Slots.Used)
				}
			},
		})
		q.HurryUp()
		take(1 << 30)
		if q.Size != 0 || len(q.holds.slots) != 0 || len(q.requests) != 0 {
			t.Fatalf("%d records, %v, %v are left", q.Size, q.holds.slots, q.requests)
		}
		for lock, want := range recordedFacts {
			got := toldFacts[lock]
			if q.Lost.Records == 0 && !slices.Equal(got, want) {
				t.Fatalf("lock %s\ngot  %v\nwant %v", lock, got, want)
			}
			if !subsequence(got, want) {
				t.Fatalf("lock %s: not in order\ngot  %v\nwant %v", lock, got, want)
			}
		}
	})
}

func subsequence(some, all []string) bool {
	for _, s := range some {
		i := slices.Index(all, s)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}

// What leaves the queue is told as it is. A later fact about it is a record of its own.
func TestAFactAboutARecordThatHasLeft(t *testing.T) {
	q := New(100, time.Second)
	granted := eventstest.Step(lockagent.EventGranted, "a", 1)
	released := eventstest.Step(lockagent.EventReleased, "a", 1)
	q.Add(0, &granted)
	q.HurryUp()
	left := q.Take(0, 1, nil)
	q.Add(0, &released)
	if len(left) != 1 || left[0].Kind != lockagent.EventGranted {
		t.Errorf("%d records left; want the grant", len(left))
	}
	if got := emptied(&q); !slices.Equal(got, []string{"released1"}) {
		t.Errorf("got %q", got)
	}
}

// TestQueueGivesMemoryBack fills a queue once. It may soon be as full again. So the memory is kept once more.
func TestQueueGivesMemoryBack(t *testing.T) {
	q := New(1<<16, time.Hour)
	for i := range 1 << 15 {
		e := eventstest.Step(lockagent.EventGranted, lockagent.Name(fmt.Sprint(i)), uint64(i))
		q.Add(0, &e)
	}
	if got := len(emptied(&q)); got != 1<<15 || len(q.Slots.blocks) != 1<<15/blockLen {
		t.Errorf("%d records; %d blocks are left", got, len(q.Slots.blocks))
	}
	e := eventstest.Step(lockagent.EventGranted, "a", 1)
	for range 2 {
		q.Add(0, &e)
		if got := emptied(&q); !slices.Equal(got, []string{"granted1"}) {
			t.Errorf("got %q", got)
		}
	}
	if len(q.Slots.blocks) != keptBlocks {
		t.Errorf("%d blocks are left, and little was needed since", len(q.Slots.blocks))
	}
}
