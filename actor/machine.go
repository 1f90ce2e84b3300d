package actor

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// machine decides for one lock. The methods are those of [lockstate.State], which says what
// they mean: the actor performs whatever events come of a step.
type machine interface {
	Step(c lockstate.Command, m lockstate.Moment, do func(*lockstate.Event))

	Alarm() (at lockstate.Instant, ok bool)
	Listening() bool
	Idle() bool

	Waiters() int
	Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64)
	Deadline(tenure uint64) lockstate.Instant
	Snapshot() lockstate.Snapshot
}

// plain makes the machine of a plain lock.
func (a *Agent) plain(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine {
	return lockstate.Resume(name, a.locks, from, shift, now)
}
