package redisstore

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// callEvery is how often an agent calls that it is there, and hears who else is. The server keeps an agent on the roll
// for a good deal longer than its longest lease, see incarnation.lua.
const callEvery = 10 * time.Second

// roll knows the agents that may have tenures: if the server has forgotten them, this one tells it. An agent is on the
// roll before it makes the first call for a lease: with that lease, or a longer one. The server tells the others at
// once. A Cluster has no roll.
type roll struct {
	first   time.Duration // how long a grace period lasts in a database that nobody knew
	off     bool          // a new incarnation has no grace period
	covered atomic.Int64  // the longest lease for which the agent is on the roll

	mu      sync.Mutex        // guards what follows
	self    lockagent.AgentID // empty if nobody listens
	since   uint64            // the epoch of incarnations when the agent began to listen
	entries []script.Member   // of the agent, with ever longer leases
	waiting []waiting
	calling bool
	members []script.Member // as the server told last, and those that came since
	of      string          // the incarnation in which it told so
	version int64
	timer   *time.Timer // of the next call; nil before the first
	closed  bool
}

// waiting is a call that waits until the agent is on the roll for a lease, or until the store has looked at a server
// that may have forgotten everything.
type waiting struct {
	lease time.Duration
	whole bool
	goOn  func(error)
}

// everybody is a lease for which nobody need be on the roll.
const everybody = time.Duration(1<<63 - 1)

// covers reports whether a call for a lease can be made at once.
func (r *roll) covers(lease time.Duration) bool { return int64(lease) <= r.covered.Load() }

// enrol begins to keep an agent on the roll.
func (s *Store) enrol(agent lockagent.AgentID) {
	r := &s.roll
	r.mu.Lock()
	defer r.mu.Unlock()
	r.self = agent
	_, r.since = s.incarnations.known()
	r.covered.Store(0)
}

// cover calls goOn when the agent is on the roll for a lease, or with the error that it is not. whole has the store
// look whether the server has forgotten everything.
func (s *Store) cover(lease time.Duration, whole bool, goOn func(error)) {
	r := &s.roll
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		goOn(lockagent.ErrClosed)
		return
	}
	r.waiting = append(r.waiting, waiting{lease, whole, goOn})
	begin := !r.calling
	r.calling = true
	r.mu.Unlock()
	if begin {
		s.callRoll()
	}
}

// callRoll calls that the agent is there, with a lease that is long enough for all that wait.
func (s *Store) callRoll() {
	r := &s.roll
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	lease, whole := time.Duration(r.covered.Load()), false
	for _, w := range waiting {
		lease, whole = max(lease, w.lease), whole || w.whole
	}
	if n := len(r.entries); r.self != "" && (n == 0 || r.entries[n-1].Lease < lease) {
		r.entries = append(r.entries, script.Member{Agent: r.self, Lease: lease})
	}
	r.mu.Unlock()
	var c script.Call
	take := s.look(&c, whole)
	s.send(&c, 0, func(text string, err error) {
		if err == nil {
			_, err = take(text)
		}
		r.mu.Lock()
		if err == nil {
			r.covered.Store(int64(lease))
		}
		again := len(r.waiting) > 0 && !r.closed
		r.calling = again
		if !again && !r.closed {
			r.later(s)
		}
		r.mu.Unlock()
		transport.Each(len(waiting), func(i int) { waiting[i].goOn(err) })
		if again {
			s.callRoll()
		}
	})
}

// later calls again after a while. It expects mu to be held.
func (r *roll) later(s *Store) {
	if r.timer != nil {
		r.timer.Reset(callEvery)
		return
	}
	r.timer = time.AfterFunc(callEvery, func() {
		r.mu.Lock()
		due := !r.calling && !r.closed && r.self != ""
		r.calling = r.calling || due
		r.mu.Unlock()
		if due {
			s.callRoll()
		}
	})
}

// close answers the calls that wait.
func (r *roll) close() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting, r.closed = nil, true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	transport.Each(len(waiting), func(i int) { waiting[i].goOn(lockagent.ErrClosed) })
}

// look writes a look at the server, and returns what takes the reply. whole says that the server may have forgotten
// who was on the roll.
func (s *Store) look(c *script.Call, whole bool) (take func(text string) (script.Looked, error)) {
	former, epoch := s.incarnations.known()
	r := &s.roll
	look := script.Look{Grace: !r.off, First: r.first}
	r.mu.Lock()
	look.Known, look.Version = r.of, r.version
	if n := len(r.entries); n > 0 {
		look.Self = r.entries[n-1]
	}
	if whole {
		look.Roll = slices.Clone(r.members)
	}
	r.mu.Unlock()
	s.room.Incarnation(c, look)
	return func(text string) (script.Looked, error) {
		seen, err := script.ReadIncarnation(text)
		if err != nil {
			return seen, err
		}
		if former == "" && seen.Age >= 0 {
			// Only the first look trusts the clock of the server: nobody knows of steps before it.
			s.incarnations.began(time.Now().Add(-seen.Age))
		}
		s.clocks.note(0, seen.Name, seen.At, 0)
		r.told(&look, &seen, whole)
		s.incarnations.seen(&seen, epoch)
		return seen, nil
	}
}

// told takes note of the roll as the server tells it.
func (r *roll) told(look *script.Look, seen *script.Looked, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case seen.Name != look.Known && look.Known != "" && !whole:
		// The server has not heard what this store knows: the next look tells.
	case seen.Left >= 0:
		// The server knows only those that have called since. It may forget them once more.
		r.of, r.version = seen.Name, 0
		for _, m := range seen.Roll {
			r.add(m)
		}
	case seen.Name != look.Known || seen.Version != look.Version:
		r.of, r.version, r.members = seen.Name, seen.Version, seen.Roll
	}
}

// add expects mu to be held.
func (r *roll) add(m script.Member) {
	if !slices.Contains(r.members, m) {
		r.members = append(r.members, m)
	}
}

// came takes note of an agent that is on the roll from now on.
func (r *roll) came(m script.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(m)
}

// OnGrace implements [lockagent.Grace].
func (s *Store) OnGrace(f func(lockagent.GracePeriod)) (cancel func()) {
	return s.incarnations.on(&hook{grace: f})
}

// Reasserted implements [lockagent.Grace].
func (s *Store) Reasserted(incarnation string) {
	s.roll.mu.Lock()
	self, since := s.roll.self, s.roll.since
	s.roll.mu.Unlock()
	now, epoch := s.incarnations.known()
	if incarnation == lockagent.PresentIncarnation && epoch == since {
		incarnation = now
	}
	if self == "" || now != incarnation {
		return
	}
	var c script.Call
	s.room.Reasserted(&c, self, incarnation)
	s.send(&c, 0, func(text string, err error) {
		left, _ := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil && left > 0: // perhaps nobody calls when the period is over
			time.AfterFunc(time.Duration(left)*time.Microsecond, s.incarnations.suspect)
		case err != nil && !lockagent.Definite(err):
			time.AfterFunc(sayAgain, func() { s.Reasserted(incarnation) })
		}
	})
}

// Left implements [lockagent.Grace].
func (s *Store) Left() {
	r := &s.roll
	r.mu.Lock()
	entries := r.entries
	r.self, r.entries = "", nil
	r.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	var c script.Call
	s.room.Leave(&c, entries)
	s.send(&c, 0, func(string, error) {})
}
