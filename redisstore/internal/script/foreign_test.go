package script

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

const notesKey = "lockagent_notes:{orders}"

// another is another program that holds a lock.
const another = "5ef3f1a2-0c4d-4c3b-9d6e-7f8091a2b3c4:52"

// contest is a lock of some kind with the name orders, that agents contend for.
type contest struct {
	*server
	kind    lockagent.LockKind
	mode    lockagent.Mode
	permits int
	acquire func(lockagent.AcquireRequest) lockagent.AcquireReply
	release func(ReleaseRequest) lockagent.ReleaseReply
	channel string
	passes  bool   // there is a queue
	take    func() // has another program take what it polls
	drop    func() // and give it back
}

// withQueues are the kinds of locks that give turns, and have a queue.
var withQueues = []lockagent.LockKind{
	lockagent.PlainLock, lockagent.FencedLock, lockagent.ReadWriteLock, lockagent.Semaphore, lockagent.Permits,
}

// contests runs a test with each kind of lock that gives turns.
func contests(t *testing.T, test func(c *contest)) {
	contestsOf(t, append([]lockagent.LockKind{lockagent.SpinLock}, withQueues...), test)
}

func contestsOf(t *testing.T, kinds []lockagent.LockKind, test func(c *contest)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t)
			c := &contest{server: s, kind: kind, permits: 1, channel: Channel("orders"), passes: true}
			c.take = func() { s.Do("HSET", "orders", another, "1") }
			c.drop = func() { s.Do("DEL", "orders") }
			acquire := func(req lockagent.AcquireRequest) {
				s.room.Acquire(&s.call, []lockagent.AcquireRequest{req}, s.past)
			}
			release := func(req ReleaseRequest) { s.room.Release(&s.call, []ReleaseRequest{req}, s.past) }
			switch kind {
			case lockagent.FencedLock:
				c.take = func() { s.Do("HSET", "orders", another, "1"); s.Do("SET", "redisson_lock_token:{orders}", "1") }
				acquire = func(req lockagent.AcquireRequest) {
					s.room.AcquireFenced(&s.call, []lockagent.AcquireRequest{req}, s.past)
				}
				release = func(req ReleaseRequest) { s.room.ReleaseFenced(&s.call, []ReleaseRequest{req}, s.past) }
			case lockagent.SpinLock:
				c.passes = false
				acquire = func(req lockagent.AcquireRequest) {
					s.room.AcquireSpin(&s.call, []lockagent.AcquireRequest{req}, s.past)
				}
				release = func(req ReleaseRequest) { s.room.ReleaseSpin(&s.call, []ReleaseRequest{req}, s.past) }
			case lockagent.ReadWriteLock:
				c.channel = ReadWriteChannel("orders")
				c.take = func() { s.Do("HSET", "orders", another+":write", "1", "mode", "write") }
				acquire = func(req lockagent.AcquireRequest) {
					s.room.ReadWriteAcquire(&s.call, []lockagent.AcquireRequest{req}, s.past)
				}
				release = func(req ReleaseRequest) { s.room.ReadWriteRelease(&s.call, []ReleaseRequest{req}, s.past) }
			case lockagent.Semaphore, lockagent.Permits:
				c.channel = PermitsChannel("orders")
				s.Do("SET", "orders", "1")
				c.take = func() { s.Do("DECR", "orders") }
				c.drop = func() { s.Do("INCR", "orders") }
				if kind == lockagent.Permits {
					c.take = func() { s.Do("DECR", "orders"); s.Do("ZADD", "{orders}:timeout", "922337203685477", "theirs") }
					c.drop = func() { s.Do("INCR", "orders"); s.Do("DEL", "{orders}:timeout") }
				}
				acquire = func(req lockagent.AcquireRequest) { s.room.AcquirePermits(&s.call, &req, s.past) }
				release = func(req ReleaseRequest) { s.room.ReleasePermits(&s.call, &req, s.past) }
			}
			c.acquire = func(req lockagent.AcquireRequest) lockagent.AcquireReply {
				t.Helper()
				acquire(req)
				o := s.acquired(1)[0]
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				return o.Reply
			}
			c.release = func(req ReleaseRequest) lockagent.ReleaseReply {
				t.Helper()
				release(req)
				o := s.released(1)[0]
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				return o.Reply
			}
			test(c)
		})
	}
}

// ask tries to acquire. An agent that contends asks for a place, if locks of the kind have places.
func (c *contest) ask(agent lockagent.AgentID, number uint64, contends bool) lockagent.AcquireReply {
	c.t.Helper()
	req := wish("orders", agent, number)
	req.Kind, req.Mode, req.Permits, req.Queue, req.Contends = c.kind, c.mode, c.permits, contends, contends
	return c.acquire(req)
}

func (c *contest) giveBack(agent lockagent.AgentID, number uint64) lockagent.ReleaseReply {
	c.t.Helper()
	req := end(wish("orders", agent, number))
	req.Kind = c.kind
	return c.release(req)
}

// waits has an agent listen as one that waits for the lock.
func (c *contest) waits(agent lockagent.AgentID) *redistest.Conn {
	c.t.Helper()
	return c.listen(AgentChannel(agent), c.channel, AgentsChannel("orders"))
}

// seen notes that another program had the lock a moment ago, and that agents have contended for so long.
func (s *server) seen(contended time.Duration) {
	s.t.Helper()
	now := s.time()
	at := func(ago time.Duration) string { return strconv.FormatInt(now-ago.Microseconds(), 10) }
	s.Do("ZADD", notesKey, at(0), "foreign", at(contended), "contended", at(0), "last")
}

// noted is the score of one of the notes, or 0.
func (s *server) noted(member string) int64 {
	s.t.Helper()
	text, _ := s.Do("ZSCORE", notesKey, member).(string)
	score, _ := strconv.ParseInt(text, 10, 64)
	return score
}

// kept expects what is free to be kept from all agents, for 150 ms at most.
func (c *contest) kept() {
	c.t.Helper()
	if c.noted("polls") == 0 {
		c.t.Fatal("no turn is noted")
	}
	c.lives(notesKey, time.Minute)
	for _, contends := range []bool{false, true} {
		waittest.Until(c.t, "an attempt that is fast enough", func() bool { // on a slow machine the turn may be over
			began := c.time()
			c.Do("ZADD", notesKey, "XX", strconv.FormatInt(began+149_000, 10), "polls")
			r := c.ask(agentC, 99, contends)
			c.giveBack(agentC, 99)
			if c.time()-began > 100_000 {
				return false
			}
			most := 150 * time.Millisecond
			if !c.passes {
				most = 10 * time.Millisecond // nobody is first, so all look who takes the lock
			}
			if r.Granted || r.Holder != "" || r.Remaining <= 0 || r.Remaining > most {
				c.t.Errorf("contends %t: %+v, want it kept", contends, r)
			}
			return true
		})
	}
	c.Do("ZADD", notesKey, strconv.FormatInt(c.time()+3600e6, 10), "polls") // the clock was set back
	if r := c.ask(agentC, 98, true); !r.Granted && c.kind != lockagent.Semaphore && c.kind != lockagent.Permits {
		c.t.Errorf("when the turn is over: %+v", r)
	}
}

// Agents that have contended for half a second leave the lock free for a while, if another program had it lately.
func TestAForeignLockGivesTurns(t *testing.T) {
	for _, test := range []struct {
		title string
		set   func(c *contest)
		turn  bool
	}{
		{"contended for long", func(c *contest) { c.seen(time.Second) }, true},
		{"not for long", func(c *contest) { c.seen(100 * time.Millisecond) }, false},
		{"no other program had it", func(c *contest) { c.seen(time.Second); c.Do("ZREM", notesKey, "foreign") }, false},
		{"another program just had it", func(c *contest) { c.seen(time.Second); c.Do("ZREM", notesKey, "contended") }, false},
		{"the clock was set back", func(c *contest) { c.seen(-time.Hour) }, false},
		{"an outsider had its turn just now", func(c *contest) {
			c.seen(time.Second)
			c.Do("SET", "lockagent_turn:{orders}", "0")
		}, false},
		{"the notes are spoilt", func(c *contest) { c.Do("SET", notesKey, "spoilt") }, false},
	} {
		t.Run(test.title, func(t *testing.T) {
			contests(t, func(c *contest) {
				c.waits(agentA)
				waittest.Until(c.t, "an attempt that is fast enough", func() bool {
					c.Do("DEL", notesKey)
					began := c.time()
					test.set(c)
					r := c.ask(agentA, 1, true)
					if c.time()-began >= 400_000 { // on a slow machine agents may have contended for long
						c.giveBack(agentA, 1)
						return false
					}
					if r.Granted == test.turn || test.turn && (r.Holder != "" || r.Queued != c.passes) {
						c.t.Fatalf("acquired %+v", r)
					}
					return true
				})
				if test.turn {
					c.kept()
				}
			})
		})
	}
}

// A release does not pass the lock when a turn is due. All waiters are woken: they learn how long it lasts.
func TestAReleaseBeginsATurn(t *testing.T) {
	for _, long := range []bool{true, false} {
		contestsOf(t, withQueues, func(c *contest) {
			waiters := []lockagent.AgentID{agentB, agentC}
			for _, agent := range waiters {
				c.waits(agent)
			}
			waittest.Until(c.t, "an attempt that is fast enough", func() bool {
				c.Do("DEL", notesKey)
				c.ask(agentA, 1, false)
				for _, agent := range waiters {
					if r := c.ask(agent, 1, true); !r.Queued {
						c.t.Fatalf("%s has no place: %+v", agent, r)
					}
				}
				began := c.time()
				c.seen(100 * time.Millisecond)
				if long {
					c.seen(time.Second)
				}
				r := c.giveBack(agentA, 1)
				if c.time()-began >= 400_000 { // on a slow machine agents may have contended for long
					for _, agent := range waiters {
						c.giveBack(agent, 1)
					}
					return false
				}
				if r.Passed == long || long && r.Others < 1 {
					c.t.Fatalf("after %t: released %+v", long, r)
				}
				return true
			})
			if long {
				c.kept()
			} else if c.noted("contended") == 0 || c.noted("last") == 0 {
				c.t.Error("it is not noted that agents contend")
			}
		})
	}
}

// An agent that does not contend ends the contention, unless it comes in between others.
func TestWhoEndsTheContention(t *testing.T) {
	contests(t, func(c *contest) {
		for _, last := range []time.Duration{time.Second, -time.Hour} {
			c.seen(2 * time.Second)
			c.Do("ZADD", notesKey, strconv.FormatInt(c.time()-last.Microseconds(), 10), "last")
			if r := c.ask(agentA, 1, false); !r.Granted {
				c.t.Fatalf("acquired %+v", r)
			}
			if noted := c.noted("contended") != 0; noted != (last < 0) {
				c.t.Errorf("%v after the last grant: contended %t", last, noted)
			}
			c.giveBack(agentA, 1)
		}
	})
}

// An agent notes that a program which is no agent has the lock. Agents then contend anew.
func TestWhoHasTheLockIsNoted(t *testing.T) {
	contests(t, func(c *contest) {
		c.waits(agentB)
		c.ask(agentB, 1, true) // sees a semaphore before
		c.giveBack(agentB, 1)
		for _, foreign := range []bool{false, true} {
			if foreign {
				c.take()
			} else {
				c.ask(agentA, 1, false)
			}
			// An agent that does not contend tells another program from an agent only by what is in a hash.
			hashes := []lockagent.LockKind{lockagent.PlainLock, lockagent.FencedLock, lockagent.SpinLock}
			byCount := foreign && slices.Contains(hashes, c.kind)
			if c.ask(agentB, 2, false); (c.noted("foreign") != 0) != byCount {
				c.t.Errorf("another program has it: %t, and an agent that does not contend has noted it: %t", foreign, !byCount)
			}
			c.Do("ZREM", notesKey, "foreign")
			c.Do("ZADD", notesKey, strconv.FormatInt(c.time(), 10), "contended")
			c.ask(agentB, 2, true)
			if noted := c.noted("foreign") != 0; noted != foreign || foreign == (c.noted("contended") != 0) {
				c.t.Errorf("another program has it: %t, noted %t, contended since %d", foreign, noted, c.noted("contended"))
			}
			if !foreign {
				c.giveBack(agentA, 1)
				c.giveBack(agentB, 2)
			}
		}
		c.lives(notesKey, time.Minute)
		c.drop()
	})
}

// Beside another program nothing may tell of its release. So the first waiter asks again, and soon in a turn and after
// it.
func TestTheFirstWaiterAsksForAll(t *testing.T) {
	contestsOf(t, withQueues, func(c *contest) { // all who wait for a spin lock ask
		c.take()
		for _, agent := range []lockagent.AgentID{agentB, agentC} {
			c.waits(agent)
			c.ask(agent, 1, true)
		}
		const seldom = time.Second
		for _, test := range []struct {
			over   time.Duration // since the end of a turn
			within time.Duration
		}{{time.Hour, seldom}, {100 * time.Millisecond, 10 * time.Millisecond}} {
			waittest.Until(c.t, "attempts that are fast enough", func() bool {
				began := c.time()
				c.Do("ZADD", notesKey, strconv.FormatInt(began-test.over.Microseconds(), 10), "polls")
				first, second := c.ask(agentB, 1, true), c.ask(agentC, 1, true)
				if c.time()-began > 500_000 {
					return false
				}
				if first.AskWithin != test.within || second.AskWithin != 0 || !first.Queued || !second.Queued {
					c.t.Errorf("%v after a turn: %+v and %+v, want the first to ask within %v", test.over, first, second, test.within)
				}
				return true
			})
		}
		c.drop()
		waittest.Until(c.t, "an attempt that is fast enough", func() bool {
			began := c.time()
			c.Do("ZADD", notesKey, strconv.FormatInt(began+140_000, 10), "polls")
			r := c.ask(agentB, 1, true)
			if c.time()-began > 100_000 {
				return false
			}
			if r.Granted || r.AskWithin != 10*time.Millisecond {
				c.t.Errorf("in a turn: %+v", r)
			}
			return true
		})
	})
}

// Where no other program comes, nothing is noted.
func TestAgentsAmongThemselvesLeaveNoTrace(t *testing.T) {
	contests(t, func(c *contest) {
		c.waits(agentA)
		c.ask(agentA, 1, true)
		if notes := c.Do("ZRANGE", notesKey, "0", "-1").([]any); len(slices.DeleteFunc(notes, func(note any) bool {
			return note == "sum" || note == ".semaphore" || note == ".permits" // of a semaphore
		})) > 0 {
			c.t.Errorf("noted %q", notes)
		}
	})
}

// An agent with an identity that the program chose is told from another program, if it listens.
func TestWhoWaitsForAnAgentDoesNotAsk(t *testing.T) {
	s := start(t)
	s.waits(agentB, "orders")
	asks := func() bool {
		t.Helper()
		r := s.acquire(queueing("orders", agentB, 1))
		if !r.Queued || r.Remaining < 20*time.Second {
			t.Errorf("%+v, want a place", r)
		}
		if foreign := s.noted("foreign") != 0; foreign != (r.AskWithin > 0) {
			t.Errorf("%+v, and another program is noted: %t", r, foreign)
		}
		return r.AskWithin > 0
	}
	for _, id := range []lockagent.AgentID{agentA, lockagent.NewAgentID(), "billing-" + lockagent.NewAgentID()} {
		s.Do("DEL", "orders")
		s.grant(wish("orders", id, 1))
		if asks() {
			t.Errorf("%s is an agent, and the store does not rely on it", id)
		}
	}
	const odd = "somebody" // an identity that the program chose
	s.Do("DEL", "orders")
	s.grant(wish("orders", odd, 1))
	if !asks() {
		t.Error("nobody listens as the holder, but the store relies on it")
	}
	s.Do("DEL", notesKey)
	s.waits(odd, "orders")
	if asks() {
		t.Error("the holder is an agent that listens, and the store does not rely on it")
	}
}

// A lock that another program had lately does not rest: that program cannot ask for it.
func TestAForeignLockDoesNotRest(t *testing.T) {
	s := start(t)
	s.seen(0)
	if r := s.acquire(resting("orders", agentA, 1)); !r.Granted || r.Rests {
		t.Errorf("acquired %+v", r)
	}
	s.release(end(wish("orders", agentA, 1)))
	s.Do("ZREM", notesKey, "foreign")
	if r := s.acquire(resting("orders", agentA, 2)); !r.Rests {
		t.Errorf("acquired %+v", r)
	}
}

// Readers are asked to leave for a turn. When they have left, the turn begins anew.
func TestReadersLeaveForATurn(t *testing.T) {
	for _, how := range []string{"join", "renew"} {
		t.Run(how, func(t *testing.T) {
			contests(t, func(c *contest) {
				if c.kind != lockagent.ReadWriteLock {
					return
				}
				c.mode = lockagent.Shared
				c.waits(agentA)
				heard := c.waits(agentB)
				c.ask(agentA, 1, false)
				if r := c.ask(agentB, 1, false); !r.Granted {
					t.Fatalf("joined %+v", r)
				}
				waittest.Until(c.t, "an attempt that is fast enough", func() bool {
					c.Do("DEL", notesKey)
					began := c.time()
					c.seen(100 * time.Millisecond)
					contested := c.rwRenewed(reading("orders", agentA, 1)).Contested
					if c.time()-began >= 400_000 { // on a slow machine agents may have contended for long
						return false
					}
					if contested {
						t.Error("the readers are asked to leave too early")
					}
					return true
				})
				c.seen(time.Second)
				if how == "renew" {
					c.rwWanted(reading("orders", agentA, 1), true)
				} else if r := c.ask(agentC, 1, true); r.Granted || r.Remaining <= 0 || r.Remaining > 150*time.Millisecond {
					t.Errorf("joined %+v", r)
				} else if got := c.hear(heard); got != fmt.Sprintf("readwrite wanted %s orders", tenure(agentB, 1)) {
					t.Errorf("a reader heard %q", got)
				}
				c.Do("ZADD", notesKey, "XX", strconv.FormatInt(c.time()+149_000, 10), "polls")
				c.giveBack(agentA, 1)
				before := c.noted("polls")
				if before == 0 {
					t.Fatal("no turn is noted")
				}
				left := c.giveBack(agentB, 1)
				if over := c.noted("polls"); over != int64(left.At)+150_000 && int64(left.At) < before {
					t.Errorf("released at %d, and the turn is over at %d", left.At, over)
				}
				c.kept()
			})
		})
	}
}

// The permits of another program are seen by their sum with those of agents. A change by an agent is none of it.
func TestForeignPermits(t *testing.T) {
	for _, change := range []lockagent.PermitsOp{"", lockagent.AddPermits} {
		contests(t, func(c *contest) {
			if c.kind != lockagent.Semaphore && c.kind != lockagent.Permits {
				return
			}
			c.Do("SET", "orders", "5")
			c.waits(agentA)
			c.permits = 2
			for number := range uint64(2) { // agents take permits and give them back
				c.ask(agentA, number+1, true)
				c.ask(agentB, number+1, true)
				c.giveBack(agentA, number+1)
			}
			if c.noted("foreign") != 0 {
				c.t.Error("the permits of agents are taken for those of another program")
			}
			if change == "" {
				c.take()
			} else {
				req := lockagent.PermitsRequest{Name: "orders", Kind: c.kind, Op: change, N: 7}
				c.room.ChangePermits(&c.call, &req, time.Minute, c.past)
				c.must(&c.call)
			}
			c.ask(agentA, 5, true)
			if foreign := c.noted("foreign") != 0; foreign != (change == "") {
				c.t.Errorf("after %q: another program is noted: %t", change, foreign)
			}
		})
	}
}
