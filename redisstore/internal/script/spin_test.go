package script

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
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

func (s *server) spinEnd(req lockagent.AcquireRequest) {
	s.t.Helper()
	s.room.ReleaseSpin(&s.call, []ReleaseRequest{end(req)}, s.past)
	s.must(&s.call)
}

// spins has agents contend for the lock for so long, until some time ago. last had it last, or "-": it was the turn of those that
// poll. It returns since when they contend.
func (s *server) spins(length, ago time.Duration, last string) (since int64) {
	s.t.Helper()
	now := s.time()
	since = now - length.Microseconds()
	s.Do("SET", busyKey, fmt.Sprintf("%d spins %d %s", since, now-ago.Microseconds(), last))
	return since
}

// spun returns since when agents contend for the lock, and who has had it last.
func (s *server) spun() (since int64, last string) {
	s.t.Helper()
	var noted int64
	if _, err := fmt.Sscanf(fmt.Sprint(s.Do("GET", busyKey)), "%d spins %d %s", &since, &noted, &last); err != nil {
		s.t.Fatal(err)
	}
	return since, last
}

// Redisson's waiters of a plain lock of the same name are not woken by its spin lock either.
func TestReleaseOfASpinLockPublishesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	waiter := s.waits(agentB, "orders")
	s.grant(wish("orders", agentA, 1))
	s.room.ReleaseSpin(&s.call, []ReleaseRequest{end(wish("orders", agentA, 1))}, s.past)
	o := make([]Outcome[lockagent.ReleaseReply], 1)
	if err := Single.ReadReleased(s.must(&s.call), s.past, o); err != nil || !o[0].Reply.Released || o[0].Reply.Others != 0 {
		t.Errorf("released %+v, %v", o, err)
	}
	s.Do("PUBLISH", Channel("orders"), "end")
	if got := s.hear(waiter); got != "end" {
		t.Errorf("heard %q", got)
	}
}

// Agents that contend for a spin lock leave it free for a while, when they have had it for half a second, if somebody polls.
func TestASpinLockLeavesATurnToThoseThatPoll(t *testing.T) {
	t.Parallel()
	const second, long = time.Second, time.Second
	mine, other := tenure(agentA, 7).String(), tenure(agentB, 7).String()
	for _, c := range []struct {
		title       string
		length, ago time.Duration // agents have contended
		last        string
		taken       time.Duration // ago, or 0
		quiet       bool          // nobody polls
		seldom      bool          // the agent does not contend
		turn        bool
	}{
		{title: "busy for long", length: long, last: other, turn: true},
		{title: "not for long", length: second / 4, last: other},
		{title: "nobody polls", length: long, last: other, quiet: true},
		{title: "the lock was free meanwhile", length: long, ago: second / 5, last: other},
		{title: "the same agent has held it for long", length: long, ago: 3 * second, last: mine, turn: true},
		{title: "by an agent that comes now and then", length: long, last: other, seldom: true},
		{title: "the clock was set back", length: -second, last: other},
		{title: "they took it in their last turn", length: second / 4, last: other, taken: second / 2, turn: true},
		{title: "they took it in their last turn, just now", length: second / 20, last: other, taken: second / 20},
		{title: "they took it in an earlier turn", length: second / 4, last: other, taken: 2 * second},
	} {
		t.Run(c.title, func(t *testing.T) {
			s, asked := start(t), wish("orders", agentA, 1)
			asked.Queue = !c.seldom
			var r lockagent.AcquireReply
			waittest.Until(t, "an attempt that is fast enough", func() bool {
				s.Do("FLUSHALL")
				began := s.time()
				if !c.quiet {
					s.polled()
				}
				if c.taken > 0 {
					s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(began-c.taken.Microseconds(), 10), "taken")
				}
				s.spins(c.length, c.ago, c.last)
				r = s.spin(asked)
				return s.time()-began < 50_000
			})
			if r.Granted == c.turn || c.turn && (r.Holder != "" || r.Queued || r.Remaining != 150*time.Millisecond) {
				t.Fatalf("acquired %+v", r)
			}
			if !c.turn {
				return
			}
			over := s.time() + 150_000
			if since, last := s.spun(); since > over || since < int64(r.At) || last != "-" {
				t.Errorf("it is over at %d, and %q had it last; want at most %d", since, last, over)
			}
			s.lives("lockagent_notes:{orders}", time.Minute)
			for _, contends := range []bool{false, true} {
				s.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(s.time()+149_000, 10), "polls")
				req := wish("orders", agentC, 9)
				req.Queue = contends
				if r := s.spin(req); r.Granted { // on a slow machine the turn may be over
					s.spinEnd(req)
				} else if r.Holder != "" || r.Remaining <= 0 || r.Remaining > 150*time.Millisecond {
					t.Errorf("contends %v: %+v", contends, r)
				}
			}
			s.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(s.time()-1, 10), "polls")
			if r := s.spin(asked); !r.Granted {
				t.Errorf("after the turn %+v", r)
			}
		})
	}
}

// Those that have the lock when their turn is over took it then.
func TestWhoTakesASpinLockInATurn(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		last  string
		taken bool
	}{{tenure(agentB, 7).String(), false}, {"-", true}} {
		s.spins(0, 0, c.last)
		s.Do("HSET", "orders", java, "1")
		if r := s.spin(queueing("orders", agentA, 1)); r.Granted || r.Holder != java {
			t.Errorf("acquired %+v", r)
		}
		if taken := s.Do("ZSCORE", "lockagent_notes:{orders}", "taken") != nil; taken != c.taken {
			t.Errorf("after %q: taken %v", c.last, taken)
		}
		s.Do("DEL", "orders")
	}
}

// Whenever an agent meets a new holder, somebody has had luck. That makes up for 10 ms.
func TestLuckWithASpinLock(t *testing.T) {
	t.Parallel()
	s := start(t)
	const pauseless = -time.Hour // as if somebody had just asked, also on a slow machine
	for _, c := range []struct {
		title  string
		length time.Duration
		last   string
		later  int64 // in microseconds
	}{
		{"an agent that contends has it", time.Second, java, 0},
		{"somebody new has it", time.Second, tenure(agentB, 7).String(), 10_000},
	} {
		before := s.spins(c.length, pauseless, c.last)
		s.Do("HSET", "orders", java, "1")
		s.spin(queueing("orders", agentA, 1))
		if since, last := s.spun(); since-before != c.later || last != java {
			t.Errorf("%s: %q had it last, and they contend since %d us later; want %d", c.title, last, since-before, c.later)
		}
	}
	// The time that is left to make up for ends now.
	s.spins(0, pauseless, tenure(agentB, 7).String())
	if r := s.spin(queueing("orders", agentA, 1)); r.Granted {
		t.Errorf("acquired %+v", r)
	} else if since, _ := s.spun(); since > int64(r.At) {
		t.Errorf("they contend since %d, and it is %d", since, r.At)
	}
}

// What is not about spin locks does not count. An agent that finds a spin lock free, and comes now and then, leaves no trace.
func TestTracesOfASpinLock(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, other := range []string{"1 " + tenure(agentB, 7).String(), "1 free 1", "1 ends 1", "spoilt", "1 spins 2"} {
		s.polled()
		s.Do("SET", busyKey, other)
		if r := s.spin(queueing("orders", agentA, 1)); !r.Granted {
			t.Errorf("beside %q: %+v", other, r)
		}
		if since, last := s.spun(); since < 2 || last != tenure(agentA, 1).String() {
			t.Errorf("beside %q: %q had it last, and they contend since %d", other, last, since)
		}
		s.spinEnd(wish("orders", agentA, 1))
	}
	s.Do("FLUSHALL")
	s.Do("HSET", busyKey, "spoilt", "1")
	if r := s.spin(queueing("orders", agentA, 2)); !r.Granted {
		t.Errorf("acquired %+v", r)
	}
	s.Do("FLUSHALL")
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
