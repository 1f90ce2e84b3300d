package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
)

const busyKey = "lockagent_busy:{orders}"

// another is another program that holds a lock.
const another = "5ef3f1a2-0c4d-4c3b-9d6e-7f8091a2b3c4:52"

// polled has the server believe that somebody polled a moment ago.
func (s *server) polled() {
	s.t.Helper()
	s.Do("SET", "lockagent_polls", fmt.Sprintf("1 0 %d", s.time()))
}

// busyFor sets since when the lock is busy. It returns the rest of what the key says.
func (s *server) busyFor(d time.Duration) string {
	s.t.Helper()
	since, last, _ := strings.Cut(s.Do("GET", busyKey).(string), " ")
	if at, err := strconv.ParseInt(since, 10, 64); err != nil || s.time()-at > (10*time.Second).Microseconds() {
		s.t.Fatalf("busy since %q", since)
	}
	s.Do("SET", busyKey, fmt.Sprintf("%d %s", s.time()-d.Microseconds(), last))
	return last
}

// keptForPolls expects the free lock to be kept from all agents, for 150 ms at most.
func (s *server) keptForPolls() { s.t.Helper(); s.kept(s.acquire, s.release) }

// kept is keptForPolls for any kind of lock.
func (s *server) kept(acquire func(lockagent.AcquireRequest) lockagent.AcquireReply, release func(ReleaseRequest) lockagent.ReleaseReply) {
	s.t.Helper()
	if s.Do("ZSCORE", "lockagent_notes:{orders}", "polls") == nil {
		s.t.Fatal("the lock is not kept for those that poll")
	}
	for range 100 { // which may be over at once on a slow machine
		s.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(s.time()+149_000, 10), "polls")
		r := acquire(queueing("orders", agentC, 99))
		if r.Granted {
			release(end(wish("orders", agentC, 99)))
			continue
		}
		if r.Holder != "" || !r.Queued || r.Remaining <= 0 || r.Remaining > 150*time.Millisecond {
			s.t.Errorf("kept: %+v", r)
		}
		release(end(wish("orders", agentC, 99)))
		return
	}
	s.t.Error("the lock is not kept from agents")
}

// finds expects a look, half a second after another one that found no calls of a command, to note in a key how many there
// were, and that somebody polls if there were any.
func (s *server) finds(calls int, key string, look func() []string) {
	s.t.Helper()
	waittest.Until(s.t, "a look that is fast enough", func() bool {
		began := s.time()
		s.Do("SET", key, fmt.Sprintf("%d 0 0", began-500_000))
		words := look()
		if s.time()-began > 100_000 {
			return false
		}
		if words[1] != strconv.Itoa(calls) || (words[2] != "0") != (calls > 0) {
			s.t.Errorf("%d calls: %q", calls, words)
		}
		return true
	})
}

// A lock that is passed from tenure to tenure for half a second is free for a while then, if
// somebody polls.
func TestPassesLeaveATurnToThoseThatPoll(t *testing.T) {
	for _, c := range []struct {
		title  string
		busy   time.Duration
		polls  bool
		broken bool // the tenure did not follow another
		turn   bool
	}{
		{"busy for long", time.Second, true, false, true},
		{"not for long", 100 * time.Millisecond, true, false, false},
		{"nobody polls", time.Second, false, false, false},
		{"the lock was free meanwhile", time.Second, true, true, false},
	} {
		t.Run(c.title, func(t *testing.T) {
			s := start(t)
			s.grant(wish("orders", agentA, 1))
			s.queue("orders", agentB, agentC)
			if r := s.release(end(wish("orders", agentA, 1))); !r.Passed {
				t.Fatalf("released %+v", r)
			}
			if last := s.busyFor(c.busy); last != tenure(agentB, 1).String() {
				t.Errorf("busy since the beginning of %q", last)
			}
			if c.polls {
				s.polled()
			}
			if c.broken {
				s.Do("SET", busyKey, fmt.Sprintf("%d %s", s.time()-1e6, tenure(agentA, 1)))
			}
			r := s.release(end(wish("orders", agentB, 1)))
			if r.Passed == c.turn || c.turn && r.Others != 2 {
				t.Fatalf("released %+v", r)
			}
			if c.turn {
				s.keptForPolls()
				s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(s.time()+3600e6, 10), "polls") // the clock was set back
				s.grant(wish("orders", agentA, 2))
			}
		})
	}
}

// Fenced locks leave such turns, too. An attempt that comes meanwhile uses up no token.
func TestAFencedLockLeavesATurnToThoseThatPoll(t *testing.T) {
	s := startFenced(t)
	acquire := func(req lockagent.AcquireRequest) lockagent.AcquireReply { return s.acquireAll(req)[0].Reply }
	s.grant(wish("orders", agentA, 1))
	for _, agent := range []lockagent.AgentID{agentB, agentC} {
		s.waits(agent, "orders")
		if r := acquire(queueing("orders", agent, 1)); !r.Queued {
			t.Fatalf("%s has no place: %+v", agent, r)
		}
	}
	if r := s.release(end(wish("orders", agentA, 1))); !r.Passed {
		t.Fatalf("released %+v", r)
	}
	s.busyFor(time.Second)
	s.polled()
	last := end(wish("orders", agentB, 1))
	last.Last = s.token(tokenKey)
	if r := s.release(last); r.Passed || r.Others != 2 {
		t.Fatalf("released %+v", r)
	}
	s.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(s.time()+149_000, 10), "polls")
	if r := acquire(queueing("orders", agentA, 2)); !r.Granted && s.token(tokenKey) != last.Last {
		t.Errorf("the key is %d, the last token was %d", s.token(tokenKey), last.Last)
	}
	s.kept(acquire, s.release)
}

// The tenures of an agent that contends only with itself follow each other with short pauses.
func TestOneAgentLeavesATurnToThoseThatPoll(t *testing.T) {
	for _, c := range []struct {
		title       string
		busy, pause time.Duration
		turn        bool
	}{
		{"busy for long", time.Second, 0, true},
		{"not for long", 100 * time.Millisecond, 0, false},
		{"the lock was free meanwhile", time.Second, 20 * time.Millisecond, false},
	} {
		t.Run(c.title, func(t *testing.T) {
			s := start(t)
			s.polled()
			since, last := s.holdAlone()
			if since != 400*time.Millisecond || last != tenure(agentA, 1).String() {
				t.Errorf("busy for %v and since %q, want a first turn after 100 ms", since, last)
			}
			s.busyFor(c.busy)
			release := end(wish("orders", agentA, 1))
			release.Subscribed = true
			if r := s.release(release); r.Others != 0 {
				t.Fatalf("released %+v", r)
			}
			began, last, _ := strings.Cut(s.Do("GET", busyKey).(string), " ")
			if !strings.HasPrefix(last, "free ") {
				t.Errorf("after the release the lock is busy until %q", last)
			}
			s.Do("SET", busyKey, fmt.Sprintf("%s free %d", began, s.time()+9000-c.pause.Microseconds()))
			r := s.acquire(queueing("orders", agentA, 2))
			if r.Granted == c.turn || c.turn && (r.Holder != "" || !r.Queued || r.Remaining != 150*time.Millisecond) {
				t.Fatalf("acquired %+v", r)
			}
			if c.turn {
				s.keptForPolls()
			}
		})
	}
	t.Run("nobody polls", func(t *testing.T) {
		s := start(t)
		s.waits(agentA, "orders")
		s.grant(queueing("orders", agentA, 1))
		s.expectKeys("orders", "lockagent_clock", "lockagent_polls")
	})
}

// holdAlone has an agent acquire a lock that it contends for with itself. It returns for how long the
// lock is said to be busy at that moment, and since what.
func (s *server) holdAlone() (time.Duration, string) {
	s.t.Helper()
	s.waits(agentA, "orders")
	r := s.grant(queueing("orders", agentA, 1))
	since, last, _ := strings.Cut(s.Do("GET", busyKey).(string), " ")
	at, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.At.Sub(lockagent.StoreTime(at)), last
}

// If those that poll take the lock in their turn, the next turn comes sooner.
func TestTheNextTurnOfThoseThatPoll(t *testing.T) {
	for _, c := range []struct {
		title string
		taken int64 // after the end of the last turn
		busy  time.Duration
	}{
		{"in their turn they took the lock", -100_000, 400 * time.Millisecond},
		{"they have it since then", 1000, 400 * time.Millisecond},
		{"they took it in an earlier turn", -1e6, 0},
	} {
		s := start(t)
		s.polled()
		over := s.time() - 1000
		s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(over, 10), "polls", strconv.FormatInt(over+c.taken, 10), "taken")
		if since, _ := s.holdAlone(); since != c.busy {
			t.Errorf("%s: busy for %v, want %v", c.title, since, c.busy)
		}
	}
}

// Another program may release a lock without a word. Who waits for that asks again, sooner if the lock was acquired again meanwhile.
func TestAnotherProgramMayReleaseWithoutAWord(t *testing.T) {
	// A server that stops for longer within the script takes the same hold for another one.
	const slowest = 10_000 // in microseconds
	for _, c := range []struct {
		title       string
		noted       string // what the busy key says of the holder's lease
		ago         time.Duration
		ends        time.Duration // after the noted end
		least, most time.Duration
	}{
		{"the first question", "", 0, 0, 100 * time.Millisecond, 100 * time.Millisecond},
		{"the same hold", "ends", 3 * time.Second, 0, 3 * time.Second, 4 * time.Second},
		{"the same hold, seen by a slow script", "ends", 3 * time.Second, 8 * time.Millisecond, 3 * time.Second, 4 * time.Second},
		{"the same hold, a moment later", "ends", time.Millisecond, 0, 5 * time.Millisecond, time.Second},
		{"another hold", "ends", 100 * time.Millisecond, 50 * time.Millisecond, 25 * time.Millisecond, 90 * time.Millisecond},
		{"another hold, a moment later", "ends", 0, -50 * time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond},
		{"another hold, much later", "ends", time.Minute, time.Second, 100 * time.Millisecond, 100 * time.Millisecond},
		{"the clock was set back", "ends", -time.Minute, 0, 100 * time.Millisecond, 100 * time.Millisecond},
		{"an agent had the lock", "free", time.Second, 0, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		for _, outsiders := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, outsiders %v", c.title, outsiders), func(t *testing.T) {
				s := start(t)
				s.waits(agentB, "orders")
				if outsiders {
					defer s.listen(Channel("orders")).Close()
				}
				waittest.Until(t, "an attempt that is fast enough", func() bool {
					s.Do("DEL", "orders", busyKey, "lockagent_queue:{orders}", "lockagent_notes:{orders}")
					s.Do("HSET", "orders", another, "1")
					began := s.time()
					end := began/1000 + 30_000
					s.Do("PEXPIREAT", "orders", strconv.FormatInt(end, 10))
					if c.noted != "" {
						since, noted := began-c.ago.Microseconds(), end-c.ends.Milliseconds()
						s.Do("SET", busyKey, fmt.Sprintf("%d %s %d", since, c.noted, noted))
					}
					r := s.acquire(queueing("orders", agentB, 1))
					if s.time()-began > slowest {
						return false
					}
					if !r.Queued || r.AskWithin < c.least || r.AskWithin > c.most || r.Remaining < 20*time.Second || r.Holder != another {
						t.Errorf("%+v, want to ask within %v to %v", r, c.least, c.most)
					}
					var since, noted int64
					if _, err := fmt.Sscanf(s.Do("GET", busyKey).(string), "%d ends %d", &since, &noted); err != nil {
						t.Fatal(err)
					}
					if noted < end-10 || noted > end {
						t.Errorf("noted the end %d, want %d", noted, end)
					}
					return true
				})
			})
		}
	}
	t.Run("a hold without end", func(t *testing.T) {
		s := start(t)
		s.waits(agentB, "orders")
		s.Do("HSET", "orders", another, "1")
		s.acquire(queueing("orders", agentB, 1))
		s.Do("SET", busyKey, fmt.Sprintf("%d ends 0", s.time()-3e6))
		if r := s.acquire(queueing("orders", agentB, 1)); r.AskWithin < 3*time.Second || r.Remaining >= 0 {
			t.Errorf("%+v, want to ask within 3 s", r)
		}
	})
}

// An agent tells of its release, so nobody has to ask. Its identity shows that it is one.
func TestWhoWaitsForAnAgentDoesNotAsk(t *testing.T) {
	s := start(t)
	s.waits(agentB, "orders")
	asks := func() bool {
		t.Helper()
		r := s.acquire(queueing("orders", agentB, 1))
		if !r.Queued || r.Remaining < 20*time.Second {
			t.Errorf("%+v, want a place", r)
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
	s.Do("SET", busyKey, "1 "+tenure(odd, 1).String())
	if asks() {
		t.Error("the holder was passed the lock, and the store does not rely on it")
	}
	s.Do("DEL", busyKey)
	s.waits(odd, "orders")
	if asks() {
		t.Error("the holder is an agent that listens, and the store does not rely on it")
	}
	if left := s.Do("GET", busyKey); left != nil {
		t.Errorf("noted %q of an agent", left)
	}
}

// Those that poll often have the lock when their turn is over. Then a waiter asks again at once, and notes that they took it.
func TestAfterATurnWaitersAskSoon(t *testing.T) {
	s := start(t)
	s.waits(agentB, "orders")
	s.Do("HSET", "orders", another, "1")
	for _, c := range []struct {
		over time.Duration
		soon bool
	}{{2 * time.Second, false}, {time.Millisecond, true}} {
		s.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(s.time()-c.over.Microseconds(), 10), "polls")
		s.Do("SET", busyKey, fmt.Sprintf("%d ends 0", s.time()-3e6))
		r := s.acquire(queueing("orders", agentB, 1))
		if soon := r.AskWithin == 5*time.Millisecond; soon != c.soon || r.AskWithin == 0 {
			t.Errorf("%v after a turn: %+v", c.over, r)
		}
		if noted := s.Do("ZSCORE", "lockagent_notes:{orders}", "taken") != nil; noted != c.soon {
			t.Errorf("%v after a turn: noted that it was taken: %v", c.over, noted)
		}
	}
}

// Somebody polls if a look finds that HEXISTS was called at least four times a second since the last.
func TestCallsTellOfPolls(t *testing.T) {
	for _, c := range []struct {
		calls int
		ago   time.Duration
		polls bool
	}{{0, time.Second, false}, {3, 10 * time.Second, false}, {3, 500 * time.Millisecond, true}} {
		s := start(t)
		s.Do("HSET", "orders", another, "1")
		s.waits(agentB, "orders")
		s.acquire(queueing("orders", agentB, 1))
		looked := s.Do("GET", "lockagent_polls").(string)
		if words := strings.Fields(looked); len(words) != 3 || words[1] != "0" || words[2] != "0" {
			t.Fatalf("the first look found %q", looked)
		}
		for range c.calls {
			s.Do("HEXISTS", "orders", "somebody")
		}
		waittest.Until(t, "a look that is fast enough", func() bool {
			s.Do("SET", "lockagent_polls", fmt.Sprintf("%d 0 0", s.time()-c.ago.Microseconds()))
			began := s.time()
			s.acquire(queueing("orders", agentB, 1))
			return s.time()-began < 100_000
		})
		words := strings.Fields(s.Do("GET", "lockagent_polls").(string))
		if words[1] != strconv.Itoa(c.calls) || (words[2] != "0") != c.polls {
			t.Errorf("%d calls in %v: %q", c.calls, c.ago, words)
		}
	}
}

// No script of ours makes the calls that tell of polls.
func TestNoScriptCallsWhatTellsOfPolls(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"HEXISTS", "HGET", "GET", "DECRBY"} {
			if strings.Contains(string(text), "call('"+command+"'") {
				t.Errorf("%s calls %s, see polled.lua", file, command)
			}
		}
	}
}
