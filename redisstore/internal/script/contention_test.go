package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// contention is a model of agents, and of a program that uses Redisson. All want one lock without a
// pause. The model has a time of its own. It does one thing after the other in the order of that time,
// so the result does not depend on the speed of the machine. Nothing is done before its time, because
// the server has a clock.
type contention struct {
	*server
	random  *rand.Rand
	began   time.Time
	now     time.Duration // in the model
	pending []*event

	agents     []*contender
	outsiders  []*contender
	process    *redistest.Conn // has the subscription of the outsiders, while some of them wait
	subscribed bool
	parked     []*contender // outsiders, in the order in which they began to wait for a message
	messages   int          // that no outsider has taken
	grants     int
}

// event is something that is going to happen.
type event struct {
	at time.Duration
	do func()
}

// contender is an agent, or a thread of the only process with Redisson.
type contender struct {
	id      lockagent.AgentID
	number  uint64
	waits   bool          // it is an agent, and woken by a message
	refused bool          // it waits for a grant
	since   time.Duration // when that began, in the model
	longest time.Duration // it has waited
	grants  int
	next    *event // what it does next, if nothing wakes it
}

const contended lockagent.Name = "orders"

// after has something happen between two times from now.
func (c *contention) after(least, most time.Duration, do func()) *event {
	e := &event{at: c.now + least + time.Duration(c.random.Int64N(int64(most-least)+1)), do: do}
	i, _ := slices.BinarySearchFunc(c.pending, e.at, func(e *event, at time.Duration) int { return int(e.at - at) })
	c.pending = slices.Insert(c.pending, i, e)
	return e
}

// Within patience, in the model, everybody has fewest grants. That takes less than a second if nobody starves. No lease
// ends meanwhile: at its end each thread would try.
const (
	fewest   = 3
	patience = 10 * time.Second
)

func (c *contention) run(enough func() bool) {
	for !enough() && !c.t.Failed() {
		if len(c.pending) == 0 || c.now > patience {
			c.t.Fatalf(
				"after %v there were %d grants, and fewer than %d of these: %q", c.now, c.grants, fewest, c.starving(),
			)
		}
		e := c.pending[0]
		c.pending = c.pending[1:]
		c.now = e.at
		<-time.After(time.Until(c.began.Add(e.at)))
		e.do()
	}
}

// starving are the names of those who have too few grants.
func (c *contention) starving() (names []string) {
	for what, all := range map[string][]*contender{"agent": c.agents, "thread": c.outsiders} {
		for i, who := range all {
			if who.grants < fewest {
				names = append(names, fmt.Sprintf("%s %d has %d", what, i+1, who.grants))
			}
		}
	}
	slices.Sort(names)
	return names
}

func (c *contention) granted(who *contender) {
	if who.refused {
		who.longest = max(who.longest, c.now-who.since)
	}
	who.refused, who.waits, who.next = false, false, nil
	who.grants++
	c.grants++
}

func (c *contention) refuse(who *contender) {
	if !who.refused {
		who.refused, who.since = true, c.now
	}
}

// An agent is woken after the fraction of a millisecond that a message takes.
func (c *contention) ask(a *contender) {
	r := c.acquire(queueing(contended, a.id, a.number))
	if r.Granted {
		c.granted(a)
		c.hold(a)
		return
	}
	c.refuse(a)
	a.waits = true
	retry := c.after(r.Remaining, r.Remaining+time.Millisecond, func() {})
	retry.do = func() {
		if a.next == retry {
			c.ask(a)
		}
	}
	a.next = retry
}

// hold has an agent keep a tenure for as long as it does while there are outsiders.
func (c *contention) hold(a *contender) {
	c.after(200*time.Microsecond, 2*time.Millisecond, func() {
		r := c.release(end(wish(contended, a.id, a.number)))
		a.number++
		asks := 100 * time.Microsecond
		switch {
		case r.Passed:
			field := c.Do("HKEYS", string(contended)).([]any)[0].(string)
			for _, other := range c.agents {
				if field == tenure(other.id, other.number).String() {
					c.granted(other)
					c.after(200*time.Microsecond, 500*time.Microsecond, func() { c.hold(other) })
				}
			}
		default:
			c.wake()
			asks = 2 * time.Millisecond
		}
		c.after(asks, asks+300*time.Microsecond, func() { c.ask(a) })
	})
}

// wake is what a message does that the lock is free: each agent tries, and one thread of the process.
func (c *contention) wake() {
	for _, a := range c.agents {
		if a.waits {
			a.waits, a.next = false, nil
			c.after(200*time.Microsecond, 500*time.Microsecond, func() { c.ask(a) })
		}
	}
	if c.subscribed {
		c.messages++
		c.unpark()
	}
}

// unpark has threads take the messages. In Redisson 4.7.0 (github.com/redisson/redisson, classes RedissonLockEntry and
// LockPubSub) all threads of a process that wait for a lock share a java.util.concurrent.Semaphore, for as long as the
// process is subscribed. A message adds a permit, and a thread that was refused takes one before it tries again. So a
// message that comes while no thread is parked is for the next one that would park. The semaphore is not fair, but its
// threads are parked in a queue, and a permit wakes the first. A thread that tries in vain parks again, as the last.
func (c *contention) unpark() {
	for c.messages > 0 && len(c.parked) > 0 {
		o := c.parked[0]
		c.parked = c.parked[1:]
		c.messages--
		o.next = nil
		c.after(time.Millisecond, 3*time.Millisecond, func() { c.try(o) })
	}
}

// try is one attempt of an outsider, as Redisson makes it.
func (c *contention) try(o *contender) {
	reply := c.Do("EVAL", `
		if redis.call('EXISTS', KEYS[1]) == 0 then
			redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
			return -2
		end
		return redis.call('PTTL', KEYS[1])`, "1", string(contended), tenure(o.id, o.number).String(), "30000")
	if left := reply.(int64); left != -2 {
		c.refuse(o)
		c.subscribe()
		retry := c.after(time.Duration(left)*time.Millisecond, time.Duration(left+1)*time.Millisecond, func() {})
		retry.do = func() {
			if o.next == retry {
				c.parked = slices.DeleteFunc(c.parked, func(other *contender) bool { return other == o })
				c.try(o)
			}
		}
		o.next = retry
		c.parked = append(c.parked, o)
		c.unpark()
		return
	}
	c.granted(o)
	c.subscribe()
	c.after(500*time.Microsecond, 3*time.Millisecond, func() {
		c.Do(
			"EVAL", `redis.call('DEL', KEYS[1]) redis.call('PUBLISH', ARGV[1], '0')`, "1", string(contended),
			Channel(contended),
		)
		c.wake()
		c.after(time.Millisecond, 3*time.Millisecond, func() { c.try(o) })
	})
}

// subscribe has the process be subscribed if, and only if, some of its threads wait.
func (c *contention) subscribe() {
	waits := slices.ContainsFunc(c.outsiders, func(o *contender) bool { return o.refused })
	if waits == c.subscribed {
		return
	}
	c.subscribed, c.messages = waits, 0
	command := map[bool]string{true: "SUBSCRIBE", false: "UNSUBSCRIBE"}[waits]
	reply, err := c.process.Do(command, Channel(contended))
	for err == nil && reply.([]any)[0] != strings.ToLower(command) { // but a message
		reply, err = c.process.Receive()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// contend makes agents, and threads of a process with Redisson, that begin to ask for the lock.
func contend(t *testing.T, agents, outsiders int) *contention {
	c := &contention{server: start(t), random: rand.New(rand.NewPCG(1, 2)), began: time.Now()}
	for range agents {
		a := &contender{id: lockagent.NewAgentID(), number: 1}
		c.waits(a.id, contended)
		c.agents = append(c.agents, a)
		c.after(0, time.Millisecond, func() { c.ask(a) })
	}
	c.process = c.Dial()
	for i := range outsiders {
		o := &contender{id: agentC, number: uint64(i + 1)}
		c.outsiders = append(c.outsiders, o)
		c.after(0, time.Millisecond, func() { c.try(o) })
	}
	return c
}

// everyCrowd runs a test for crowds of agents and outsiders.
func everyCrowd(t *testing.T, test func(t *testing.T, agents, outsiders int)) {
	for _, n := range []struct{ agents, outsiders int }{{2, 1}, {1, 1}, {2, 8}, {4, 1}} {
		t.Run(strconv.Itoa(n.agents)+" agents and "+strconv.Itoa(n.outsiders), func(t *testing.T) {
			test(t, n.agents, n.outsiders)
		})
	}
}

// Nobody starves, on either side: not a single slow thread among agents, nor an agent among threads.
func TestSlowOutsidersGetTheLock(t *testing.T) {
	t.Parallel()
	everyCrowd(t, func(t *testing.T, agents, outsiders int) {
		c := contend(t, agents, outsiders)
		c.run(func() bool {
			return !slices.ContainsFunc(slices.Concat(c.agents, c.outsiders), func(who *contender) bool {
				return who.grants < fewest
			})
		})
	})
}
