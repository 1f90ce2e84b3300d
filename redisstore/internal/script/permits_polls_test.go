package script

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// pool is a semaphore with the name orders.
type pool struct {
	*server
	kind lockagent.LockKind
}

// pools runs a test with a semaphore of one permit, for either kind.
func pools(t *testing.T, test func(p *pool)) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			p := &pool{start(t), kind}
			p.Do("SET", "orders", "1")
			test(p)
		})
	}
}

// ask asks for the permit, and for a place if queue says so.
func (p *pool) ask(agent lockagent.AgentID, number uint64, queue bool) lockagent.AcquireReply {
	p.t.Helper()
	req := wish("orders", agent, number)
	req.Kind, req.Permits, req.Queue = p.kind, 1, queue
	p.room.AcquirePermits(&p.call, &req, p.past)
	outcomes := make([]Outcome[lockagent.AcquireReply], 1)
	if err := p.room.ReadAcquired(p.must(&p.call), p.past, outcomes); err != nil || outcomes[0].Err != nil {
		p.t.Fatal(err, outcomes[0].Err)
	}
	return outcomes[0].Reply
}

func (p *pool) giveBack(agent lockagent.AgentID, number uint64) lockagent.ReleaseReply {
	p.t.Helper()
	req := end(wish("orders", agent, number))
	req.Kind, req.Subscribed = p.kind, true
	p.room.ReleasePermits(&p.call, &req, p.past)
	return p.released(1)[0].Reply
}

// contend gives the permit to agent A. B and C have places.
func (p *pool) contend() {
	p.t.Helper()
	p.ask(agentA, 1, false)
	for _, agent := range []lockagent.AgentID{agentB, agentC} {
		p.listen(AgentChannel(agent), PermitsChannel("orders"), AgentsChannel("orders"))
		if r := p.ask(agent, 1, true); !r.Queued {
			p.t.Fatalf("%s has no place: %+v", agent, r)
		}
	}
}

// Another program tells nobody that it deletes a semaphore. The first in the queue asks again soon, and then tells the others, who rely on messages.
func TestTheFirstWaiterForPermitsAsksAgainSoon(t *testing.T) {
	pools(t, func(p *pool) {
		p.contend()
		for agent, within := range map[lockagent.AgentID]time.Duration{agentB: time.Second, agentC: 0} {
			if r := p.ask(agent, 1, true); !r.Queued || r.AskWithin != within {
				p.t.Errorf("agent %s: %+v, want it to ask within %v", agent, r, within)
			}
		}
	})
}

// polled has the server believe for the length of a test that somebody polls.
func (p *pool) polled() {
	p.Do("SET", "lockagent_gets", fmt.Sprintf("1 0 %d", p.time()+3600e6))
}

// busyUntil sets what is known of the turns. Times are from now, and zero if they are not known.
func (s *server) busyUntil(due, wait, freed time.Duration, takes string) {
	at := func(d time.Duration) int64 {
		if d == 0 {
			return 0
		}
		return s.time() + d.Microseconds()
	}
	s.Do("SET", busyKey, fmt.Sprintf("%d %d %d %s", at(due), wait.Microseconds(), at(freed), takes))
}

// turns is what is known of the turns. due is from a time of the server on.
func (s *server) turns(at lockagent.StoreTime) (due, wait time.Duration, freed bool, takes string) {
	s.t.Helper()
	text, _ := s.Do("GETRANGE", busyKey, "0", "-1").(string)
	var dueAt, waitFor, freedAt int64
	if _, err := fmt.Sscan(text, &dueAt, &waitFor, &freedAt, &takes); err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	return time.Duration(dueAt-int64(at)) * time.Microsecond, time.Duration(waitFor) * time.Microsecond, freedAt != 0, takes
}

// A semaphore that agents leave no permit of is left free for a while, if somebody polls.
func TestPermitsAreLeftFreeForThoseThatPoll(t *testing.T) {
	for _, c := range []struct {
		title string
		set   func(p *pool)
		turn  bool
		due   time.Duration // of the next turn, or the end of this one
	}{
		{"their turn is due", func(p *pool) { p.polled(); p.busyUntil(-time.Millisecond, time.Second, 0, "-") }, true, 100 * time.Millisecond},
		{"their turn is not due", func(p *pool) { p.polled(); p.busyUntil(time.Minute/20, time.Second, 0, "-") }, false, 0},
		{"nobody polls", func(p *pool) { p.busyUntil(-time.Millisecond, time.Second, 0, "-") }, false, 0},
		{"somebody begins to poll", func(p *pool) { p.polled() }, false, 100 * time.Millisecond},
		{"the clock was set back", func(p *pool) { p.polled(); p.busyUntil(time.Hour, time.Second, 0, "-") }, false, 100 * time.Millisecond},
		{"a permit was free for long", func(p *pool) { p.polled(); p.busyUntil(-time.Millisecond, time.Second, -20*time.Millisecond, "-") }, false, time.Second},
		{"an outsider waits", func(p *pool) {
			p.polled()
			p.busyUntil(-time.Millisecond, time.Second, 0, "-")
			p.Do("SET", "lockagent_turn:{orders}", "0")
			p.listen(PermitsChannel("orders"))
		}, false, 0},
	} {
		t.Run(c.title, func(t *testing.T) {
			pools(t, func(p *pool) {
				p.contend()
				c.set(p)
				before := p.Do("GET", busyKey)
				r := p.giveBack(agentA, 1)
				if r.Passed == c.turn || c.turn && r.Others != 1 {
					p.t.Fatalf("released %+v", r)
				}
				if c.due == 0 {
					if after := p.Do("GET", busyKey); after != before {
						p.t.Errorf("%q became %q", before, after)
					}
					return
				}
				due, wait, freed, takes := p.turns(r.At)
				if due != c.due || freed || (takes == "-") == c.turn {
					p.t.Errorf("due in %v, after %v, free %t, %q takes", due, wait, freed, takes)
				}
				if c.turn {
					p.keptForPolls()
				}
			})
		})
	}
}

// keptForPolls expects the free permit to be kept from all agents, for 100 ms at most, and not from a program that polls.
func (p *pool) keptForPolls() {
	p.t.Helper()
	for _, queue := range []bool{true, false} {
		p.busyUntil(time.Minute/20, time.Second, 0, "0") // however slow this is
		for left := time.Duration(0); left == 0; {
			p.Do("ZADD", "lockagent_notes:{orders}", "XX", strconv.FormatInt(p.time()+99_000, 10), "polls")
			began := p.time()
			r := p.ask(agentC, 9, queue)
			if p.time()-began > 90_000 { // its time may be over on a slow machine
				continue
			}
			left = r.Remaining
			if r.Granted || r.Holder != "" || r.Queued != queue || left <= 0 || left > 100*time.Millisecond {
				p.t.Fatalf("kept: %+v", r)
			}
		}
	}
	if got := p.poll(); got != 1 {
		p.t.Errorf("whoever polls gets %d", got)
	}
}

// poll tries as Redisson does.
func (p *pool) poll() int64 {
	return p.Do("EVAL", `
		local value = redis.call('get', KEYS[1])
		if value and tonumber(value) >= 1 then
			redis.call('decrby', KEYS[1], 1)
			return 1
		end
		return 0`, "1", "orders").(int64)
}

// When their turn is over, the first agent that asks is granted the permit. The next turn comes later if nobody took a permit.
func TestTurnsOfThoseThatPollComeLessOften(t *testing.T) {
	for _, c := range []struct {
		taken      bool
		wait, next time.Duration
	}{
		{false, 500 * time.Millisecond, 750 * time.Millisecond},
		{false, 3 * time.Second, 4 * time.Second},
		{true, 4 * time.Second, 500 * time.Millisecond},
	} {
		pools(t, func(p *pool) {
			p.polled()
			p.Do("DECRBY", "others", "1")
			p.busyUntil(-time.Millisecond, c.wait, 0, "1")
			if c.taken {
				p.poll()
				p.Do("INCR", "orders")
			}
			p.listen(AgentChannel(agentB), PermitsChannel("orders"), AgentsChannel("orders"))
			p.Do("ZADD", "lockagent_notes:{orders}", strconv.FormatInt(p.time()+3600e6, 10), "polls") // the clock was set back
			r := p.ask(agentB, 1, true)
			if !r.Granted {
				p.t.Fatalf("%+v", r)
			}
			if due, wait, freed, takes := p.turns(r.At); due != c.next || wait != c.next || freed || takes != "-" {
				p.t.Errorf("taken %t after %v: due in %v, after %v, free %t, %q takes", c.taken, c.wait, due, wait, freed, takes)
			}
		})
	}
}

// The tenures of an agent that contends only with itself follow each other with short pauses.
func TestOneAgentLeavesPermitsToThoseThatPoll(t *testing.T) {
	pools(t, func(p *pool) {
		p.listen(AgentChannel(agentA), PermitsChannel("orders"), AgentsChannel("orders"))
		p.polled()
		r := p.ask(agentA, 1, true)
		if due, _, _, _ := p.turns(r.At); !r.Granted || due != 100*time.Millisecond {
			p.t.Fatalf("%+v, and a turn after %v", r, due)
		}
		p.giveBack(agentA, 1)
		if _, _, freed, _ := p.turns(r.At); !freed {
			p.t.Error("it is not noted that a permit is free")
		}
		p.busyUntil(-time.Millisecond, time.Second, time.Minute, "-") // the pause is short
		if r := p.ask(agentA, 2, true); r.Granted || r.Holder != "" || !r.Queued || r.Remaining != 100*time.Millisecond {
			p.t.Errorf("in their turn: %+v", r)
		}
		p.keptForPolls()
	})
}

// Somebody polls if a look finds that GET was called at least four times a second since the last. No script of ours calls it.
func TestGetsTellOfPolls(t *testing.T) {
	for _, gets := range []int{0, 3} {
		pools(t, func(p *pool) {
			p.contend()
			number := uint64(1)
			look := func() []string { // what it notes
				p.t.Helper()
				holder := []lockagent.AgentID{agentA, agentB, agentC}[(number-1)%3]
				p.giveBack(holder, (number+2)/3)
				p.ask(holder, (number+2)/3+1, true)
				number++
				return strings.Fields(p.Do("GETRANGE", "lockagent_gets", "0", "-1").(string))
			}
			calls := func() string { return strconv.Itoa(p.Calls("get")) }
			if words := look(); len(words) != 3 || words[1] != calls() || words[2] != "0" {
				p.t.Fatalf("the first look found %q", words)
			}
			for looked := p.time(); ; looked = p.time() { // a slow machine may take longer
				p.Do("SET", "lockagent_gets", fmt.Sprintf("%d 7 0", looked))
				words := look()
				if p.time()-looked < 350_000 {
					if words[1] != "7" {
						p.t.Errorf("the next look came at once, and found %q", words)
					}
					break
				}
			}
			for range gets {
				p.Do("GET", "others")
			}
			p.finds(gets, "lockagent_gets", look)
		})
	}
}
