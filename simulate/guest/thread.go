package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// thread is one of an outsider. It locks, works, and unlocks, again and again.
type thread struct {
	of     *outsider
	client int
	random *rand.Rand
}

func newThread(o *outsider, number int) *thread {
	client := plan.ClientOf(o.index, o.life, number)
	return &thread{of: o, client: client, random: rand.New(rand.NewPCG(o.world.plan.Seed, uint64(10000+client)))}
}

func (t *thread) upTo(most time.Duration) time.Duration { return plan.Within(t.random, 0, most) }

// work works until the time for work is over, or the program dies.
func (t *thread) work() {
	p := &t.of.world.plan
	for {
		sleep(t.of.alive, t.upTo(p.Pause))
		t.of.standStill()
		if t.of.isDead() || t.of.world.since() > p.Work {
			return
		}
		var wait time.Duration
		if t.random.IntN(5) > 0 { // the other times it does not wait
			wait = t.upTo(p.Patience)
		}
		watched := t.random.IntN(5) > 0
		takes := t.upTo(min(30*time.Millisecond, p.Longest))
		if t.random.IntN(4) == 0 {
			takes = t.upTo(p.Longest)
		}
		if h := t.acquire(wait, watched); h != nil {
			t.use(h, takes)
		}
	}
}

// last gets the lock when nothing goes wrong any more.
func (t *thread) last() {
	var h *hold
	for until := time.Now().Add(time.Minute); h == nil && time.Now().Before(until); {
		if h = t.acquire(time.Until(until), true); h == nil { // a connection was broken
			sleep(t.of.alive, 10*time.Millisecond)
		}
	}
	if h == nil {
		t.of.world.breach(plan.Breach{
			What: plan.Stuck, Lock: t.of.lock.Name, Outsider: true,
			Text: fmt.Sprintf("client %d, with Redisson, got no lock within a minute", t.client),
		})
		return
	}
	t.use(h, t.upTo(10*time.Millisecond))
}

// acquire asks for the lock until wait is over. It returns nil if it did not get the lock, or does not know. If
// watched, the watchdog renews the lease.
func (t *thread) acquire(wait time.Duration, watched bool) *hold {
	o := t.of
	h := &hold{world: o.world, of: plan.Hold{Lock: o.lock.Name, Client: t.client, Asked: o.world.since()}}
	o.world.note("client %d asks for %s", t.client, o.lock.Name)
	left, err := t.await(h, time.Now().Add(wait), watched)
	o.world.note("client %d: %s: held by somebody else for %v, %v", t.client, o.lock.Name, left, err)
	if left > 0 || err != nil {
		h.tellWait()
		return nil
	}
	return h
}

// await asks for the lock again and again. It returns 0, or for how long somebody else has the lock.
func (t *thread) await(h *hold, until time.Time, watched bool) (left time.Duration, err error) {
	o := t.of
	var heard <-chan struct{}
	for {
		left, err = t.try(h, watched)
		switch remains := time.Until(until); {
		case err != nil || left == 0 || remains <= 0:
			return left, err
		case heard == nil: // what it has not heard before may have been told, so it tries again
			messages, end, err := o.subscribe(channelOf(o.lock))
			if err != nil {
				return left, err
			}
			defer end()
			heard = messages
		default:
			select {
			case <-heard:
			case <-time.After(min(left, remains)):
			case <-o.alive.Done():
			}
			o.standStill()
		}
	}
}

// try asks for the lock once. It returns 0, or for how long somebody else has the lock. All leases are equally long:
// Redisson lets a try that comes late make the lease of its own thread shorter.
func (t *thread) try(h *hold, watched bool) (left time.Duration, err error) {
	o, lease, sent := t.of, t.of.world.plan.Lease, time.Now()
	answer, err := o.eval(acquireScript, []string{o.lock.Name}, milliseconds(lease), o.owner(t.client))
	if err != nil {
		return 0, err
	}
	if ms, held := answer.(int); held {
		return time.Duration(max(1, ms)) * time.Millisecond, nil
	}
	h.of.Granted, h.until = o.world.since(), sent.Add(lease)
	h.of.Ending = h.of.Granted
	if watched {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.watched = append(o.watched, h)
	}
	return 0, nil
}

// use works with the lock, and releases it. A thread of Redisson's learns nothing of its lease, and would go on to work
// when that is over. Here it stops: no lock can help such a thread.
func (t *thread) use(h *hold, takes time.Duration) {
	o := t.of
	r := o.world.registers[h.of.Lock]
	r.enter(h)
	for done := time.Now().Add(takes); h.look() > 0 && time.Now().Before(done) && !o.isDead(); {
		sleep(o.alive, min(time.Until(done), time.Until(h.until)))
	}
	o.standStill()
	if h.of.Lost = h.look() <= 0; h.of.Lost {
		h.expire()
	}
	r.leave(h)
	released, denied := t.release(h)
	h.of.Lost, h.of.Denied = h.of.Lost || denied, denied
	h.of.Ended = o.world.since()
	o.world.note("client %d: %s: released %v, denied %v", t.client, h.of.Lock, released, denied)
	o.world.tellJSON('H', h.of)
}

// attempts is how often a release is sent, and latchLasts is for how long the server knows what it did.
const (
	attempts   = 5
	latchLasts = 20 * time.Second
)

// release gives the lock back. It reports whether the server did so, and whether the server did not have the lock
// although its lease cannot have been over.
func (t *thread) release(h *hold) (released, denied bool) {
	o := t.of
	latch := fmt.Sprintf("redisson_unlock_latch:{%s}:%016x%016x", o.lock.Name, t.random.Uint64(), t.random.Uint64())
	for i := range attempts {
		answer, err := o.eval(releaseScript, []string{o.lock.Name, channelOf(o.lock), latch},
			milliseconds(o.world.plan.Lease), o.owner(t.client), milliseconds(latchLasts))
		if err == nil {
			released, denied = answer != nil, answer == nil && i == 0 && h.trusted()
			go func() { _, _ = o.call("DEL", latch) }()
			break
		}
		if sleep(o.alive, plan.Within(t.random, time.Second, 2*time.Second)); o.isDead() {
			break
		}
	}
	o.unwatch(h)
	return released, denied
}

// channelOf is where a release is told.
func channelOf(l plan.Lock) string { return "redisson_lock__channel:{" + l.Name + "}" }
