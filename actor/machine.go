package actor

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// machine decides for one lock. The methods are those of [lockstate.State], which says what
// they mean. The actor performs whatever events come of a step, see [advance].
type machine interface {
	Alarm() (at lockstate.Instant, ok bool)
	Listening() bool
	Idle() bool

	Waiters() int
	Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64)
	Deadline(tenure uint64) lockstate.Instant
	Snapshot() lockstate.Snapshot
}

// advance has a machine take a step. The calls are not made through the interface, or every
// command would be allocated.
func advance(s machine, c lockstate.Command, m lockstate.Moment, do func(*lockstate.Event)) {
	if s, ok := s.(*lockstate.State); ok {
		s.Step(c, m, do)
		return
	}
	s.(*lockstate.Fair).Step(c, m, do)
}

// plain makes the machine of a plain lock. What was fair goes on as fair, if it has
// several tenures.
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
