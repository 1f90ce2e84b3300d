package actor

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// machine is the state machine of a lock. [lockstate.State] documents the methods. See
// [advance] for its steps.
type machine interface {
	Alarm() (at lockstate.Instant, ok bool)
	Listening() bool
	Idle() bool

	Waiters() int
	Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64)
	Deadline(tenure uint64) lockstate.Instant
	Snapshot() lockstate.Snapshot
}

// advance takes a step of a machine. Step is not a method of the interface, because then every
// command would be allocated.
func advance(s machine, c lockstate.Command, m lockstate.Moment, do func(*lockstate.Event)) {
	if s, ok := s.(*lockstate.State); ok {
		s.Step(c, m, do)
		return
	}
	s.(*lockstate.Fair).Step(c, m, do)
}

// plain makes the machine of a plain lock. A snapshot with several tenures is that of a fair
// lock, which stays fair.
func (a *Agent) plain(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine {
	if len(from.Tenures) > 1 {
		return a.fair(name, from, shift, now)
	}
	return lockstate.Resume(name, a.locks, from, shift, now)
}

// fair makes the machine of a fair lock.
func (a *Agent) fair(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine {
	return lockstate.ResumeFair(name, a.locks, func() uint64 { return a.fresh.Add(1) }, from, shift, now)
}
