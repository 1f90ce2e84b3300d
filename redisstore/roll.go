package redisstore

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

const (
	// callEvery is how often an agent calls that it is there, and hears who else is.
	callEvery = 10 * time.Second

	// lapse is for how much longer than its lease the server keeps an entry of the roll, see incarnation.lua.
	lapse = time.Minute

	// kept is the longest lease for which an agent stays on the roll although nobody asks for such a lease any more. A
	// grace period may have to last as long as a lease on the roll.
	kept = time.Minute

	// leaves is how long a store that is closed waits for the server to take its agent off the roll.
	leaves = 250 * time.Millisecond
)

// roll knows the agents that may have tenures: if a server has forgotten them, this one tells it. An agent is on the
// roll of a shard before it makes the first call for a lease there: with that lease, or a longer one. The server tells
// the others at once.
type roll struct {
	first   time.Duration // how long a grace period lasts in a database that nobody knew
	off     bool          // a new incarnation has no grace period
	listens atomic.Bool   // an agent has to be on the roll
	leaving sync.WaitGroup

	mu      sync.Mutex                  // guards what follows, and what it guards of the shards
	self    lockagent.AgentID           // empty if nobody listens
	entries map[script.Member]time.Time // of the agent on the roll, with when they end there
	closed  bool
}

// waiting is a call that waits until the agent is on the roll for a lease, or until the store has looked at a server
// that may have forgotten everything.
type waiting struct {
	lease time.Duration
	whole bool
	goOn  func(error)
}

// onRoll is a lease as the roll has it, so that an agent has few entries there: in seconds. A tenure that was passed to
// an agent lasts for PassLease.
func onRoll(lease time.Duration) time.Duration {
	return (max(lease, lockagent.PassLease) + time.Second - 1).Truncate(time.Second)
}

// covers reports whether a call for a lease can be made at once.
func (s *Store) covers(of *shard, lease time.Duration) bool {
	if int64(lease) > of.asked.Load() {
		of.asked.Store(int64(lease)) // of two calls at a time the shorter may win: it is called again in time
	}
	return int64(lease) <= of.covered.Load() || !s.roll.listens.Load()
}

// enrol begins to keep an agent on the roll.
func (s *Store) enrol(agent lockagent.AgentID) {
	r := &s.roll
	r.mu.Lock()
	defer r.mu.Unlock()
	r.self, r.entries = agent, make(map[script.Member]time.Time)
	for _, of := range s.incarnations.all() {
		of.covered.Store(0)
		s.callLater(of, callEvery)
	}
	r.listens.Store(true)
	s.incarnations.listens()
}

// found begins to keep the agent on the roll of a shard that was not known. The agent may have tenures there, because
// the node of the shard had another home, or took slots over from another one.
func (s *Store) found(of *shard) {
	r := &s.roll
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.self == "" || r.closed {
		return
	}
	var longest time.Duration
	for m, ends := range r.entries {
		if time.Now().Before(ends) {
			longest = max(longest, m.Lease)
		}
	}
	if longest == 0 {
		s.callLater(of, callEvery)
		return
	}
	of.asked.Store(int64(longest))
	s.callLater(of, 0)
}

// cover calls goOn when the agent is on the roll of a shard for a lease, or with the error that it is not. whole has
// the store look whether the server has forgotten everything.
func (s *Store) cover(of *shard, lease time.Duration, whole bool, goOn func(error)) {
	r := &s.roll
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		goOn(lockagent.ErrClosed)
		return
	}
	of.waiting = append(of.waiting, waiting{lease, whole, goOn})
	begin := !of.calling
	of.calling = true
	r.mu.Unlock()
	if begin {
		s.callRoll(of)
	}
}

// callRoll calls that the agent is there, with a lease that is long enough for all that wait, and for all calls since
// the roll was called before. An entry with a longer lease stays there until that lease is over.
func (s *Store) callRoll(of *shard) {
	r := &s.roll
	r.mu.Lock()
	waiting := of.waiting
	of.waiting = nil
	lease, whole := time.Duration(max(of.asked.Swap(0), min(of.covered.Load(), int64(kept)))), false
	for _, w := range waiting {
		lease, whole = max(lease, w.lease), whole || w.whole
	}
	var self script.Member
	if r.self != "" && lease > 0 {
		lease = onRoll(lease)
		self = script.Member{Agent: r.self, Lease: lease}
		maps.DeleteFunc(r.entries, func(_ script.Member, ends time.Time) bool { return time.Now().After(ends) })
		r.entries[self] = time.Now().Add(callEvery + lease + lapse) // the server may hear of the call later
	}
	r.mu.Unlock()
	var c script.Call
	take := s.look(&c, of, s.servers.Master(of.slot), self, whole)
	s.send(&c, of.slot, func(text string, err error) {
		if err == nil {
			_, err = take(text)
		}
		r.mu.Lock()
		if forgot := errors.Is(err, script.ErrForgotten); forgot && !whole && !r.closed {
			waiting = append(waiting, wholeLook)
			for i := range waiting {
				waiting[i].whole = true
			}
			of.waiting, waiting = append(waiting, of.waiting...), nil
		}
		if err == nil && self.Agent == r.self {
			of.covered.Store(int64(lease))
		}
		again := len(of.waiting) > 0 && !r.closed
		of.calling = again
		if !again && !r.closed {
			s.callLater(of, callEvery)
		}
		r.mu.Unlock()
		transport.Each(len(waiting), func(i int) { waiting[i].goOn(err) })
		if again {
			s.callRoll(of)
		}
	})
}

// wholeLook is a call for which nobody waits.
var wholeLook = waiting{whole: true, goOn: func(error) {}}

// callLater calls after a while, unless a call is under way then. It expects the mu of the roll to be held.
func (s *Store) callLater(of *shard, d time.Duration) {
	if of.timer != nil {
		of.timer.Reset(d)
		return
	}
	r := &s.roll
	of.timer = time.AfterFunc(d, func() {
		r.mu.Lock()
		left := s.one == nil && !of.calling && s.servers.Home(of.slot) != of.slot
		if left {
			s.forget(of)
		}
		due := !left && !of.calling && !r.closed && r.self != ""
		of.calling = of.calling || due
		r.mu.Unlock()
		if due {
			s.callRoll(of)
		}
	})
}

// forget forgets a shard that is no home any more. Another shard remembers who was on its roll, for as long as they may
// have tenures: they need not be on the other roll. It expects the mu of the roll to be held.
func (s *Store) forget(of *shard) {
	heir := s.incarnations.drop(of, s.servers.Home(of.slot))
	if heir == nil {
		return
	}
	for m := range of.members {
		if _, there := heir.members[m]; !there {
			heir.add(m, time.Now().Add(m.Lease))
		}
	}
}

// endRoll answers the calls that wait.
func (s *Store) endRoll() {
	r := &s.roll
	r.mu.Lock()
	r.closed = true
	var waiting []waiting
	for _, of := range s.incarnations.all() {
		waiting = append(waiting, of.waiting...)
		of.waiting = nil
		for _, t := range []*time.Timer{of.timer, of.over, of.again} {
			if t != nil {
				t.Stop()
			}
		}
	}
	r.mu.Unlock()
	transport.Each(len(waiting), func(i int) { waiting[i].goOn(lockagent.ErrClosed) })
	left := make(chan struct{})
	go func() {
		r.leaving.Wait()
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(leaves):
	}
}

// look writes a look at a server, and returns what takes the reply.
//   - at is the server, if it is known.
//   - self is the agent as it is to be on the roll. The zero Member leaves the agent there as it is.
//   - whole says that the server may have forgotten who was on the roll.
func (s *Store) look(
	c *script.Call, of *shard, at *transport.Node, self script.Member, whole bool,
) (take func(text string) (script.Looked, error)) {
	former, epoch := s.incarnations.known(of)
	addr := ""
	if at != nil {
		addr = at.Addr()
	}
	r := &s.roll
	look := script.Look{
		Home: of.home, Whose: of.whose, Grace: !r.off, First: r.first, Self: self, Whole: whole,
		Deaf: s.listener.Load() == nil,
	}
	shards := s.incarnations.all()
	r.mu.Lock()
	look.Known, look.Version = of.of, of.version
	if look.Known == "" {
		look.Known = s.incarnations.at(addr, of)
	}
	if lease := of.covered.Load(); self.Agent == "" && r.self != "" && lease > 0 {
		look.Self = script.Member{Agent: r.self, Lease: time.Duration(lease)}
	}
	if whole { // an agent on the roll of one shard may have tenures of each
		look.Roll = slices.Collect(maps.Keys(r.entries))
		for _, other := range shards {
			look.Roll = slices.AppendSeq(look.Roll, maps.Keys(other.members))
		}
	}
	r.mu.Unlock()
	script.Incarnation(c, look)
	written := time.Now()
	return func(text string) (script.Looked, error) {
		seen, err := script.ReadIncarnation(text)
		if err != nil {
			return seen, err
		}
		if former == "" && seen.Age >= 0 && of.home == "" {
			// Only the first look trusts the clock of the server: nobody knows of steps before it.
			s.incarnations.began(time.Now().Add(-seen.Age))
		}
		s.clocks.note(of.slot, seen.Name, seen.At, 0)
		r.told(of, &look, &seen, written)
		s.incarnations.seen(of, &seen, addr, epoch)
		if seen.Left >= 0 { // perhaps nobody calls when the period is over
			s.after(&of.over, seen.Left, s.incarnations.suspect)
		}
		return seen, nil
	}
}

// told takes note of the roll of a shard as the server tells it. written is when the look was written. Who came later
// stays, although the server does not tell of them.
func (r *roll) told(of *shard, look *script.Look, seen *script.Looked, written time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case seen.Left >= 0:
		// The server knows only those that have called since. It may forget them once more.
		of.of, of.version = seen.Name, 0
	case seen.Name != look.Known || seen.Version != look.Version:
		of.of, of.version = seen.Name, seen.Version
		maps.DeleteFunc(of.members, func(_ script.Member, came time.Time) bool { return came.Before(written) })
	}
	for _, m := range seen.Roll {
		of.add(m, time.Time{})
	}
}

// add expects the mu of the roll to be held.
func (s *shard) add(m script.Member, came time.Time) {
	if s.members == nil {
		s.members = make(map[script.Member]time.Time)
	}
	s.members[m] = came
}

// rollOf returns the shard with the roll of a message. It is nil if that is another database of the server.
func (s *Store) rollOf(whose string) *shard {
	switch {
	case s.one == nil:
		return s.shard(hashslot.Of(whose)) // another slot of that node may be the home by now
	case s.one.whose == whose:
		return s.one
	}
	return nil
}

// came takes note of an agent that is on a roll from now on.
func (s *Store) came(whose string, m script.Member) {
	of := s.rollOf(whose)
	if of == nil {
		return
	}
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	of.add(m, time.Now())
}

// gone takes note of an agent that has left a roll.
func (s *Store) gone(whose string, agent lockagent.AgentID) {
	of := s.rollOf(whose)
	if of == nil {
		return
	}
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	maps.DeleteFunc(of.members, func(m script.Member, _ time.Time) bool { return m.Agent == agent })
}

// OnGrace implements [lockagent.Grace].
func (s *Store) OnGrace(f func(lockagent.GracePeriod)) (cancel func()) {
	return s.incarnations.on(&hook{grace: f})
}

// Reasserted implements [lockagent.Grace].
func (s *Store) Reasserted(incarnation string) {
	s.roll.mu.Lock()
	self := s.roll.self
	s.roll.mu.Unlock()
	if self == "" {
		return
	}
	for _, of := range s.incarnations.named(incarnation) {
		name, _ := s.incarnations.known(of)
		// A period that begins later has another name, and a reset.
		if incarnation != lockagent.PresentIncarnation || s.incarnations.graced(of) {
			s.reasserted(of, self, name)
		}
	}
}

// reasserted says that an agent has come back to the incarnation of a shard.
func (s *Store) reasserted(of *shard, agent lockagent.AgentID, incarnation string) {
	var c script.Call
	script.Reasserted(&c, of.home, agent, incarnation)
	s.send(&c, of.slot, func(text string, err error) {
		left, _ := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil && left > 0: // it may be shorter now
			s.after(&of.over, time.Duration(left)*time.Microsecond, s.incarnations.suspect)
		case err != nil && !lockagent.Definite(err):
			s.after(&of.again, sayAgain, func() { s.Reasserted(incarnation) })
		case err != nil && !errors.Is(err, lockagent.ErrClosed):
			s.logger.Warn("lockagent: a grace period of Redis waits for this agent, which cannot say that it has come back",
				"agent", agent, "error", err)
		}
	})
}

// after calls a function after a while, unless the store is closed, or the timer is used again.
func (s *Store) after(timer **time.Timer, d time.Duration, call func()) {
	s.roll.mu.Lock()
	defer s.roll.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
	}
	if !s.roll.closed {
		*timer = time.AfterFunc(d, call)
	}
}

// Left implements [lockagent.Grace]. Close waits for a moment until the server has heard.
func (s *Store) Left() {
	r := &s.roll
	r.mu.Lock()
	entries, shards := slices.Collect(maps.Keys(r.entries)), s.incarnations.all()
	r.self, r.entries = "", nil
	leaves := len(entries) > 0 && !r.closed
	if !leaves {
		r.mu.Unlock()
		return
	}
	r.leaving.Add(len(shards))
	var free []*shard
	for _, of := range shards {
		if of.calling { // that call may put the agent on the roll
			of.waiting = append(of.waiting, waiting{goOn: func(error) { s.leaveRoll(of, entries) }})
		} else {
			free = append(free, of)
		}
	}
	r.mu.Unlock()
	for _, of := range free {
		s.leaveRoll(of, entries)
	}
}

// leaveRoll takes the agent off the roll of a shard.
func (s *Store) leaveRoll(of *shard, entries []script.Member) {
	var c script.Call
	script.Leave(&c, of.home, of.whose, entries)
	s.send(&c, of.slot, func(string, error) { s.roll.leaving.Done() })
}
