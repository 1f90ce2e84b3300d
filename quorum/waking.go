package quorum

import (
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent"
)

// crowd is what is known of those who wait for a lock. Store.mu guards it.
type crowd struct {
	subs      int
	failures  int       // in a row
	notBefore time.Time // when this agent may try again after one
}

// An attempt fails if the votes were split, or if no majority answered. The pause after it is random, so
// that one agent is first. It is at most twice as long as the attempt was, and twice as long after each
// failure in a row, up to pauseLongest.
const (
	pauseLeast   = time.Millisecond
	pauseLongest = 250 * time.Millisecond
	doublings    = 8
)

// pause returns the pause after an attempt that failed. No wake-up comes before the pause is over. mu is
// held.
func (s *Store) pause(name lockagent.Name, attempt time.Duration) time.Duration {
	c := s.crowds[name]
	if c == nil { // nobody waits
		return pauseLeast
	}
	c.failures++
	most := max(attempt, pauseLeast) << min(c.failures, doublings)
	pause := pauseLeast + rand.N(min(most, pauseLongest))
	c.notBefore = time.Now().Add(pause)
	return pause
}

// calm notes that the agent has won a majority. mu is held.
func (s *Store) calm(name lockagent.Name) {
	if c := s.crowds[name]; c != nil {
		c.failures = 0
	}
}

// The wake-ups of a majority count at once. Those of fewer nodes count after a while: the others may be
// lost. In most cases they are only about votes that were given back. After a wake-up the other nodes
// repeat it, and for a moment that does not count.
const (
	fewer   = 250 * time.Millisecond
	repeats = 10 * time.Millisecond
)

// sub is one call of Subscribe. Store.mu guards it.
type sub struct {
	store *Store
	crowd *crowd
	wake  func()

	heard []bool // the nodes that have woken since the last wake-up
	late  []bool // those that were not needed for the last one: what they tell before until repeats it
	until time.Time
	timer *time.Timer
	over  bool
}

// Subscribe implements [lockagent.Store]. It wakes when a majority of the nodes does, or a while
// after the first of them.
func (s *Store) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) (cancel func()) {
	s.mu.Lock()
	c := s.crowds[name]
	if c == nil {
		c = new(crowd)
		s.crowds[name] = c
	}
	c.subs++
	u := &sub{store: s, crowd: c, wake: wake, heard: make([]bool, len(s.nodes)), late: make([]bool, len(s.nodes))}
	s.mu.Unlock()
	var cancels []func()
	for i, n := range s.nodes {
		cancels = append(cancels, n.Subscribe(name, kind, func() { u.woken(i) }))
	}
	return func() {
		s.mu.Lock()
		if !u.over {
			u.over = true
			if u.timer != nil {
				u.timer.Stop()
			}
			if c.subs--; c.subs == 0 {
				delete(s.crowds, name)
			}
		}
		s.mu.Unlock()
		run(cancels)
	}
}

// woken takes the wake-up of a node.
func (u *sub) woken(i int) {
	s, now := u.store, time.Now()
	s.mu.Lock()
	if u.late[i] && now.Before(u.until) {
		u.late[i] = false
		s.mu.Unlock()
		return
	}
	u.heard[i] = true
	count := 0
	for _, heard := range u.heard {
		if heard {
			count++
		}
	}
	if count >= s.majority {
		for i, heard := range u.heard {
			u.late[i] = !heard
		}
		u.until = now.Add(repeats)
		u.fire(now)
		return
	}
	if u.timer == nil && !u.over {
		u.timer = time.AfterFunc(fewer, u.ring)
	}
	s.mu.Unlock()
}

// ring is called by the timer.
func (u *sub) ring() {
	u.store.mu.Lock()
	u.timer = nil
	u.fire(time.Now())
}

// fire wakes, unless a pause is not over yet. mu is held, and fire releases it.
func (u *sub) fire(now time.Time) {
	s := u.store
	if u.timer != nil {
		u.timer.Stop()
		u.timer = nil
	}
	pause := u.crowd.notBefore.Sub(now)
	clear(u.heard)
	wakes := !u.over && pause <= 0
	if !u.over && pause > 0 {
		u.timer = time.AfterFunc(pause, u.ring)
	}
	s.mu.Unlock()
	if wakes {
		u.wake()
	}
}
