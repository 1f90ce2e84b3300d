package script

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// startReaders starts a server on which agent A has a read/write lock in some mode. All three agents listen.
func startReaders(t *testing.T, mode lockagent.Mode) (s *server, heard *redistest.Conn) {
	s = start(t)
	req := wish("orders", agentA, 1)
	req.Mode = mode
	s.rwGrant(req)
	names := []string{ReadWriteChannel("orders"), AgentsChannel("orders")}
	heard = s.listen(append(names, AgentChannel(agentA))...)
	for _, agent := range []lockagent.AgentID{agentB, agentC} {
		s.listen(append(names, AgentChannel(agent))...)
	}
	return s, heard
}

// rwPolled has the server believe for the length of a test that somebody polls a read/write lock.
func (s *server) rwPolled() {
	s.t.Helper()
	s.Do("SET", "lockagent_hgets", fmt.Sprintf("1 0 %d", s.time()+3600e6))
}

// rwPoll tries to write as Redisson does, and gives the lock back.
func (s *server) rwPoll() int64 {
	s.t.Helper()
	return s.Do("EVAL", `
		if redis.call('hget', KEYS[1], 'mode') == false then
			redis.call('hset', KEYS[1], 'mode', 'write')
			redis.call('hset', KEYS[1], ARGV[1], 1)
			redis.call('hexists', KEYS[1], ARGV[1])
			redis.call('del', KEYS[1])
			return 1
		end
		return 0`, "1", "orders", java+":write").(int64)
}

// readsToo has agent B ask to read, and for a place.
func (s *server) readsToo() lockagent.AcquireReply {
	s.t.Helper()
	req := reading("orders", agentB, 1)
	req.Queue = true
	o := s.rwTry(req)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// wanted reports whether an agent was told that somebody wants what it has.
func (s *server) wanted(heard *redistest.Conn) bool {
	s.t.Helper()
	s.Do("PUBLISH", AgentChannel(agentA), "the end")
	found := false
	for {
		payload := s.hear(heard)
		if payload == "the end" {
			return found
		}
		found = found || strings.Contains(payload, "wanted")
	}
}

// rwKept expects the free lock to be kept from all agents, for 100 ms at most, and not from a program that polls.
func (s *server) rwKept() {
	s.t.Helper()
	s.busyUntil(time.Minute/20, time.Second, 0, "0") // however slow this is
	for left := time.Duration(0); left == 0; {
		s.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(s.time()+99_000, 10), "polls")
		began := s.time()
		o := s.rwTry(wish("orders", agentC, 9))[0]
		if s.time()-began > 90_000 && o.Reply.Granted { // its time may be over on a slow machine
			s.rwEnd(end(wish("orders", agentC, 9)))
			continue
		}
		left = o.Reply.Remaining
		if o.Err != nil || o.Reply.Granted || left <= 0 || left > 100*time.Millisecond {
			s.t.Fatalf("kept: %+v", o)
		}
	}
	if r := s.readsToo(); r.Granted || r.Holder != "" || !r.Queued {
		s.t.Errorf("kept: %+v", r)
	}
	if s.rwPoll() != 1 {
		s.t.Error("whoever polls does not get the lock")
	}
}

// While somebody polls, readers are asked to leave at times, and nobody joins them until they have left.
func TestReadersLeaveForThoseThatPoll(t *testing.T) {
	for _, c := range []struct {
		title string
		set   func(s *server)
		leave bool
		due   time.Duration // of the next turn, or until when they are to leave
		wait  time.Duration
	}{
		{"a turn is due", func(s *server) { s.rwPolled(); s.busyUntil(-time.Millisecond, time.Second, 0, "-") }, true, 100 * time.Millisecond, time.Second},
		{"a turn is not due", func(s *server) { s.rwPolled(); s.busyUntil(3*time.Second, time.Second, 0, "-") }, false, 0, 0},
		{"somebody begins to poll", func(s *server) { s.rwPolled() }, true, 100 * time.Millisecond, time.Second / 2},
		{"nobody polls", func(s *server) { s.busyUntil(-time.Millisecond, time.Second, 0, "-") }, false, 0, 0},
		{"they were asked", func(s *server) { s.rwPolled(); s.busyUntil(3*time.Second, time.Second, 0, "+") }, true, 0, 0},
		{"they did not leave", func(s *server) { s.rwPolled(); s.busyUntil(-time.Millisecond, time.Second, 0, "+") }, false, 8 * time.Second, 8 * time.Second},
		{"a reader of another program came first", func(s *server) { s.rwPolled(); s.busyUntil(3*time.Second, time.Second, 0, "0") }, false, 0, 0},
	} {
		for _, how := range []string{"join", "renew"} {
			t.Run(c.title+"/"+how, func(t *testing.T) {
				s, heard := startReaders(t, lockagent.Shared)
				c.set(s)
				before := s.Do("GETRANGE", busyKey, "0", "-1")
				at, leave := lockagent.StoreTime(0), false
				if how == "join" {
					r := s.readsToo()
					if r.Granted == c.leave || c.leave && (!r.Queued || r.Remaining <= 0 || r.Remaining > 3*time.Second) {
						t.Errorf("%+v", r)
					}
					at, leave = r.At, s.wanted(heard)
				} else {
					leave = s.rwRenewed(reading("orders", agentA, 1)).Contested
				}
				if leave != c.leave {
					t.Errorf("asked to leave: %t", !c.leave)
				}
				after := s.Do("GETRANGE", busyKey, "0", "-1")
				if c.due == 0 {
					if after != before {
						t.Errorf("%q became %q", before, after)
					}
					return
				}
				due, wait, freed, takes := s.turns(at)
				if how == "join" && due != c.due || wait != c.wait || freed || (takes == "+") != c.leave {
					t.Errorf("due in %v, after %v, free %t, %q takes", due, wait, freed, takes)
				}
			})
		}
	}
}

// When the last reader has left, it is the turn of those that poll.
func TestALockIsKeptForThoseThatPollToWrite(t *testing.T) {
	for _, c := range []struct {
		title string
		set   func(s *server)
		turn  bool
	}{
		{"readers were asked to leave", func(s *server) { s.rwPolled(); s.busyUntil(time.Second, time.Second, 0, "+") }, true},
		{"a turn is due", func(s *server) { s.rwPolled(); s.busyUntil(-time.Millisecond, time.Second, 0, "-") }, true},
		{"a turn is not due", func(s *server) { s.rwPolled(); s.busyUntil(3*time.Second, time.Second, 0, "-") }, false},
		{"nobody polls", func(s *server) { s.busyUntil(-time.Millisecond, time.Second, 0, "-") }, false},
		{"an outsider waits", func(s *server) {
			s.rwPolled()
			s.busyUntil(-time.Millisecond, time.Second, 0, "-")
			s.Do("SET", "lockagent_turn:{orders}", "0")
			s.listen(ReadWriteChannel("orders"))
		}, false},
	} {
		t.Run(c.title, func(t *testing.T) {
			s, _ := startReaders(t, lockagent.Exclusive)
			if r := s.readsToo(); !r.Queued {
				t.Fatalf("%+v", r)
			}
			c.set(s)
			o := s.rwEnd(end(wish("orders", agentA, 1)))[0]
			if o.Err != nil || o.Reply.Passed == c.turn || c.turn && o.Reply.Others != 3 {
				t.Fatalf("released %+v", o)
			}
			if c.turn {
				if _, _, _, takes := s.turns(o.Reply.At); takes == "-" || takes == "+" {
					t.Errorf("%q takes", takes)
				}
				s.rwKept()
			}
		})
	}
}

// The tenures of an agent that contends only with itself follow each other with short pauses.
func TestOneReaderLeavesTheLockToThoseThatPoll(t *testing.T) {
	s, _ := startReaders(t, lockagent.Shared)
	s.rwPolled()
	s.busyUntil(3*time.Second, time.Second, 0, "-")
	last := end(wish("orders", agentA, 1))
	last.Subscribed = true
	o := s.rwEnd(last)[0]
	if _, _, freed, _ := s.turns(o.Reply.At); !freed {
		t.Error("it is not noted that the lock is free")
	}
	s.busyUntil(-time.Millisecond, time.Second, time.Minute, "+") // the pause is short
	if r := s.readsToo(); r.Granted || r.Holder != "" || !r.Queued || r.Remaining != 100*time.Millisecond {
		t.Errorf("in their turn: %+v", r)
	}
	s.rwKept()
}

// When their turn is over, an agent that asks is granted the lock. The next turn comes later if nobody took the lock in it.
func TestTurnsOfThoseThatPollToWriteComeLessOften(t *testing.T) {
	for _, c := range []struct {
		taken      bool
		wait, next time.Duration
	}{{false, time.Second / 2, 750 * time.Millisecond}, {false, 3 * time.Second, 4 * time.Second}, {true, 4 * time.Second, time.Second / 2}} {
		s, _ := startReaders(t, lockagent.Shared)
		s.rwEnd(end(wish("orders", agentA, 1)))
		s.rwPolled()
		s.Do("HEXISTS", "others", "somebody")
		s.busyUntil(-time.Millisecond, c.wait, 0, "1")
		if c.taken && s.rwPoll() != 1 {
			t.Fatal("whoever polls does not get the lock")
		}
		s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(s.time()+3600e6, 10), "polls") // the clock was set back
		r := s.readsToo()
		if due, wait, freed, takes := s.turns(r.At); !r.Granted || due != c.next || wait != c.next || freed || takes != "-" {
			t.Errorf("taken %t after %v: %+v, due in %v, after %v, free %t, %q takes", c.taken, c.wait, r, due, wait, freed, takes)
		}
	}
}

// While a slow reader leaves, the other readers of its agent wait. So such turns are rare, unless somebody takes the lock in them.
func TestASlowReaderMakesTurnsRare(t *testing.T) {
	for _, c := range []struct {
		title  string
		freed  time.Duration
		turn   bool
		wait   time.Duration // at least
		halved time.Duration // at least, after the turn
	}{
		{"it has left just now", 0, true, 80 * time.Second, 40 * time.Second},
		{"the lock was free a little later", time.Minute, true, 240 * time.Second, 120 * time.Second},
		{"the lock was free for long", -500 * time.Millisecond, false, time.Second / 2, 0},
	} {
		t.Run(c.title, func(t *testing.T) {
			s, _ := startReaders(t, lockagent.Shared)
			s.rwEnd(end(wish("orders", agentA, 1)))
			s.rwPolled()
			s.busyUntil(-time.Second, time.Second/2, c.freed, "+")
			r := s.readsToo()
			_, wait, _, _ := s.turns(r.At)
			if r.Granted == c.turn || wait < c.wait || wait > 2*c.wait {
				t.Fatalf("%+v, and then after %v", r, wait)
			}
			if c.turn {
				s.busyUntil(-time.Millisecond, wait, 0, "0")
				s.Do("ZREM", "lockagent_notes:{orders}", "polls")
				r = s.readsToo()
				if due, wait, _, takes := s.turns(r.At); !r.Granted || due < c.halved || due > 2*c.halved || due != wait || takes != "-" {
					t.Errorf("%+v, and then after %v", r, due)
				}
			}
		})
	}
}

// Somebody polls if a look finds that HGET was called at least four times a second since the last. No script of ours calls it.
func TestHGetsTellOfPolls(t *testing.T) {
	for _, calls := range []int{0, 3} {
		s, _ := startReaders(t, lockagent.Shared)
		look := func() []string {
			t.Helper()
			s.rwRenew(reading("orders", agentA, 1))
			return strings.Fields(s.Do("GETRANGE", "lockagent_hgets", "0", "-1").(string))
		}
		if words := look(); len(words) != 3 || words[1] != "0" || words[2] != "0" {
			t.Fatalf("the first look found %q", words)
		}
		for range calls {
			s.Do("HGET", "others", "field")
		}
		s.finds(calls, "lockagent_hgets", look)
	}
}
