package script

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// spin is acquire for spin locks.
func (s *server) spin(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	s.room.AcquireSpin(&s.call, []lockagent.AcquireRequest{req}, s.past)
	o := s.acquired(1)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// Redisson's waiters of a plain lock of the same name are not woken by its spin lock either.
func TestReleaseOfASpinLockPublishesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	waiter := s.waits(agentB, "orders")
	s.grant(wish("orders", agentA, 1))
	s.room.ReleaseSpin(&s.call, []ReleaseRequest{end(wish("orders", agentA, 1))}, s.past)
	o := make([]Outcome[lockagent.ReleaseReply], 1)
	err := Single.ReadReleased(s.must(&s.call), s.past, o)
	if err != nil || !o[0].Reply.Released || o[0].Reply.Others != 0 {
		t.Errorf("released %+v, %v", o, err)
	}
	s.Do("PUBLISH", Channel("orders"), "end")
	if got := s.hear(waiter); got != "end" {
		t.Errorf("heard %q", got)
	}
}

// The time of a release is that of the clock of the locks, which may be ahead of the server's.
func TestReleaseOfASpinLockWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	s := start(t)
	granted := s.spin(wish("orders", agentA, 1))
	s.Do("SET", "lockagent_ahead", strconv.FormatInt(time.Hour.Microseconds(), 10))
	s.room.ReleaseSpin(&s.call, []ReleaseRequest{end(wish("orders", agentA, 1))}, s.past)
	o := make([]Outcome[lockagent.ReleaseReply], 1)
	err := Single.ReadReleased(s.must(&s.call), s.past, o)
	if err != nil || !o[0].Reply.Released || o[0].Reply.At < granted.At.Add(time.Hour) {
		t.Errorf("released %+v, %v; granted at %v", o, err, granted.At)
	}
}

// An agent that finds a spin lock free leaves no trace.
func TestTracesOfASpinLock(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.spin(wish("orders", agentA, 3))
	s.spin(wish("orders", agentB, 3))
	s.expectKeys("orders", "lockagent_clock")
	s.Do("FLUSHALL")
	spinning := resting("orders", agentA, 4)
	spinning.Kind = lockagent.SpinLock
	if r := s.spin(spinning); !r.Granted || r.Rests {
		t.Errorf("acquired %+v: spin locks do not rest", r)
	}
	spinning.Tenure = tenure(agentB, 3)
	s.spin(spinning)
	s.expectKeys("orders", "lockagent_clock")
}

// A spin lock has no places, and agents contend for no other lock: either field of a request is for its own kinds.
func TestWhatSaysThatATenureWaits(t *testing.T) {
	write := func(to func(Room, *Call, []lockagent.AcquireRequest, Past), change func(*lockagent.AcquireRequest)) int {
		var c Call
		req := wish("orders", agentA, 1)
		change(&req)
		to(Single, &c, []lockagent.AcquireRequest{req}, Past{})
		return len(c.Args)
	}
	spin := func(req *lockagent.AcquireRequest) { req.Kind = lockagent.SpinLock }
	few := write(Room.AcquireSpin, spin)
	if few != write(Room.AcquireSpin, func(req *lockagent.AcquireRequest) { spin(req); req.Queue = true }) {
		t.Error("a spin lock gives places")
	}
	if few == write(Room.AcquireSpin, func(req *lockagent.AcquireRequest) { spin(req); req.Contends = true }) {
		t.Error("the script of spin locks is not told that the agent contends")
	}
	few = write(Room.Acquire, func(*lockagent.AcquireRequest) {})
	if few != write(Room.Acquire, func(req *lockagent.AcquireRequest) { req.Contends = true }) {
		t.Error("the script of plain locks is told that the agent contends")
	}
	if few == write(Room.Acquire, func(req *lockagent.AcquireRequest) { req.Queue = true }) {
		t.Error("the script of plain locks is not told of the place")
	}
}
