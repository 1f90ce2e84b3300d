package queue

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// TestFactKeepsAll sets one field of an event after the other, alone and beside all others. The queue shares what it
// can with the record before.
func TestFactKeepsAll(t *testing.T) {
	full := eventstest.Full(lockagent.EventGranted)
	typ := reflect.TypeFor[lockagent.Event]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		value := reflect.ValueOf(full).Field(i)
		switch name {
		case "Agent", "Link":
			continue // the log has no Link, and the packer knows the agent
		}
		if value.IsZero() {
			t.Fatalf("the full record has no %s", name)
		}
		var alone lockagent.Event
		reflect.ValueOf(&alone).Elem().Field(i).Set(value)
		all := full
		all.Agent = ""
		most := all
		reflect.ValueOf(&most).Elem().Field(i).SetZero()
		q := New(8, time.Second)
		for _, e := range []lockagent.Event{all, most, alone, all, alone, all, most} {
			var got lockagent.Event
			f := wire.FactOf(&e)
			if f.Event(&got); got != e {
				t.Errorf("%s: got %+v, want %+v", name, got, e)
			}
			s := q.Slots.take()
			q.put(s, 0, &e, 1)
			if q.Slots.at(s).Event(&got); got != e {
				t.Errorf("%s, in the queue: got %+v, want %+v", name, got, e)
			}
		}
	}
}

// TestSize makes batches with the largest numbers, and texts whose bytes take six.
func TestSize(t *testing.T) {
	const most = math.MaxInt64
	agent := lockagent.AgentID(strings.Repeat("a", 64))
	p := NewPacker(agent, most, "lockagent.v1")
	for _, k := range lockagent.EventKinds() {
		if events.Urgent(k) || k == lockagent.EventAlive {
			continue // is in no batch
		}
		for _, text := range []string{"", "\x01", "\x01\x01\x01\x01\x01\x01\x01", strings.Repeat("\x01", 100)} {
			e := lockagent.Event{
				Kind: k, Time: time.Unix(wire.LastSecond, 999_999_999), Store: text, Lock: lockagent.Name(text),
				LockKind: lockagent.LockKind(text), Mode: lockagent.Mode(text), Owner: lockagent.Owner(text), Request: most,
				Tenure: most, Token: most,
				How: lockagent.ByHandOff, Count: most, Permits: most, Total: most, Replicas: most, Holds: most,
				Op: lockagent.PermitsOp(text), Permit: lockagent.PermitID(text), Waiters: most, Waited: math.MinInt64,
				Held: math.MinInt64, Lease: math.MinInt64,
				Fixed: true, Remaining: math.MinInt64,
				StoreTime: math.MinInt64, Until: math.MinInt64, Confirmed: math.MinInt64 + 1, Returned: math.MinInt64,
				Incarnation: text, Holder: text, Operator: text, Reason: lockagent.LostUnclaimed, Err: text, TraceParent: text,
				Grace: &lockagent.GracePeriod{
					Incarnation: text, Reason: text, Began: math.MinInt64, Ended: math.MinInt64,
					Roll: slices.Repeat([]lockagent.AgentID{lockagent.AgentID(text)}, 3), More: math.MinInt64,
				},
				Who: lockagent.Process{Host: text, Program: text, Version: text, PID: most, User: text, Command: text}.Who(),
			}
			p.Last = math.MaxUint64 - 2*wire.MaxRecords
			all := slices.Repeat([]lockagent.Event{e}, wire.MaxRecords)
			m := p.Pack(itemsOf(all...), events.Drops{}, 0, time.Time{})[0]
			if bytes := len(p.Encode(nil, m)); bytes > 2*m.Size || bytes > 2*maxBatchBytes {
				t.Errorf(
					"%v with texts of %d bytes: %d bytes for %d records, and the size is said to be %d", k, len(text), bytes,
					len(m.Items), m.Size,
				)
			}
		}
	}
}

// TestFactsShareNames: the names of a lock are in memory once for its grants, and once for the requests that wait.
func TestFactsShareNames(t *testing.T) {
	grant := eventstest.Full(lockagent.EventGranted)
	wait := grant
	wait.Kind, wait.Incarnation = lockagent.EventQueued, ""
	another := grant
	another.Mode = lockagent.Shared

	q := New(16, time.Second)
	var names []*wire.Common
	for i, e := range []lockagent.Event{grant, wait, grant, wait, another, grant} {
		e.Request = uint64(i + 1)
		q.Add(0, &e)
		names = append(names, q.Slots.at(slot(i+1)).Common)
	}
	if names[0] != names[2] || names[1] != names[3] || names[0] == names[1] || names[4] == names[0] ||
		names[5] == names[4] {
		t.Error("names are shared by others, or not shared")
	}
	if *names[0] != *names[5] || names[4].Mode != lockagent.Shared || names[1].Incarnation != "" {
		t.Errorf("%+v, %+v, %+v, %+v", *names[0], *names[1], *names[4], *names[5])
	}
}

// TestAnsweredRequestsLeaveNoGarbage: what only a request that waits has is kept for the next one, without its texts.
func TestAnsweredRequestsLeaveNoGarbage(t *testing.T) {
	q := New(1000, time.Second)
	request := uint64(0)
	cycle := func() {
		request++
		wait := lockagent.Event{
			Kind: lockagent.EventQueued, Time: time.Unix(0, 0).UTC(), Lock: "orders", Request: request, Waiters: int(request),
			Holder: "worker-8",
		}
		q.Add(0, &wait)
		if got := eventOf(q.Slots.at(q.requests[request])); got != wait {
			t.Errorf("got %+v, want %+v", got, wait)
		}
		q.Add(0, &lockagent.Event{Kind: lockagent.EventGranted, Lock: "orders", Request: request})
		q.Add(0, &lockagent.Event{Kind: lockagent.EventReleased, Lock: "orders", Request: request})
		q.Gone(q.Take(time.Hour, 1, nil))
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n > 1 { // the slice that take returns
		t.Errorf("%v allocations for a hold", n)
	}
	if len(q.spare) != 1 || *q.spare[0] != (wire.More{}) {
		t.Errorf("%d spare, want one without texts", len(q.spare))
	}
	for range 2 * mostSpare {
		request++
		q.Add(0, &lockagent.Event{Kind: lockagent.EventQueued, Lock: "orders", Request: request, Waiters: 3})
	}
	for ; request > 0; request-- {
		q.Add(0, &lockagent.Event{Kind: lockagent.EventGranted, Lock: "orders", Request: request})
	}
	if len(q.spare) != mostSpare {
		t.Errorf("%d spare, at most %d are kept", len(q.spare), mostSpare)
	}
}
