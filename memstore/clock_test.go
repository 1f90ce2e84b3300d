package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestTenuresBeginAtTimesOfTheirOwn(t *testing.T) {
	start := time.UnixMicro(1_000_000)
	for _, test := range []struct {
		name      string
		guard, at lockagent.StoreTime
	}{
		{name: "by the clock", at: 1_000_000},
		{name: "in the same microsecond", guard: 1_000_000, at: 1_000_001},
		{name: "many in one", guard: 1_000_099, at: 1_000_100},
		{name: "more than a second's in one", guard: 3_000_000, at: 3_000_001},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &clock{started: start, guard: test.guard}
			if at := c.begin(start); at != test.at {
				t.Errorf("begin = %d, want %d", at, test.at)
			}
			if now := c.at(start); now != test.at {
				t.Errorf("the clock shows %d after %d", now, test.at)
			}
			if later := c.at(start.Add(time.Minute)); later != 61_000_000 {
				t.Errorf("a minute later the clock shows %d", later)
			}
		})
	}
}

func TestClockIsSetByAFloor(t *testing.T) {
	now := time.UnixMicro(1_000_000)
	for _, test := range []struct {
		name      string
		floor, at lockagent.StoreTime // when the next tenure begins
		exact     bool
		set       bool
	}{
		{name: "below", floor: 5, at: 1_000_000},
		{name: "now", floor: 1_000_000, at: 1_000_001},
		{name: "a little ahead", floor: 1_000_100, at: 1_000_101},
		{name: "far ahead", floor: 1_000_101, at: 61_000_101, set: true},
		{name: "far ahead, and exact", floor: 1_000_101, at: 1_000_102, exact: true, set: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &clock{started: now}
			if !c.raise(now, test.floor, test.exact) || (c.name != "") != test.set {
				t.Errorf("clock %q; want it set: %t", c.name, test.set)
			}
			if at := c.begin(now); at != test.at {
				t.Errorf("begin = %d, want %d", at, test.at)
			}
		})
	}
}

func TestClockIsNamed(t *testing.T) {
	guests := newGuests(t, 2)
	one, two := guests[0], guests[1]
	first := one.acquire(orders, 1)
	if busy := two.queue(1); busy.Clock != first.Clock || busy.Clock == "" {
		t.Errorf("clock %q, then %q", first.Clock, busy.Clock)
	}
	one.end(lockagent.ReleaseRequest{Name: orders, Tenure: one.tenure(1), Last: first.Token + 1_000_000})
	passed := two.hears(lockagent.MessagePassed)[0]
	if passed.Clock == first.Clock {
		t.Errorf("clock %q is ahead of what it was", passed.Clock)
	}
	if busy := one.queue(2); busy.Clock != passed.Clock {
		t.Errorf("clock %q, then %q", passed.Clock, busy.Clock)
	}
	one.store.Reset()
	if next := one.acquire(orders, 3); next.Clock == passed.Clock || next.Token <= passed.Token {
		t.Errorf("%+v after a reset and %+v", next, passed)
	}
}

func TestFloors(t *testing.T) {
	g := newGuests(t, 1)[0]
	now := g.acquire("another", 1).Token
	ask := func(number uint64, floor lockagent.Token) (lockagent.AcquireReply, error) {
		return g.ask(lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(number), Lease: time.Minute, Floor: floor})
	}
	far := now + lockagent.Token(farthest/time.Microsecond)
	if reply, err := ask(1, far+1_000_000_000); !errors.Is(err, lockagent.ErrBadOption) {
		t.Errorf("Acquire = %+v, %v, with a floor that is too far", reply, err)
	}
	if reply, err := ask(1, far); err != nil || reply.Token <= far {
		t.Errorf("Acquire = %+v, %v; want a token above %d", reply, err, far)
	}
	released := g.end(lockagent.ReleaseRequest{Name: orders, Tenure: g.tenure(1), Last: lockagent.MaxToken})
	if !released.Released || released.At < lockagent.StoreTime(far) {
		t.Errorf("Release = %+v", released)
	}
	if reply := g.acquire(orders, 2); reply.Token > far+lockagent.Token(time.Hour/time.Microsecond) {
		t.Errorf("Acquire = %+v, after a release that told the greatest token", reply)
	}
}
