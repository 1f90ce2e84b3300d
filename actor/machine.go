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
	InDoubt() bool
	Resting() bool
	Unheld() uint64
	Idle() bool

	Waiters() int
	Hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64)
	Grants(owner lockagent.Owner, yield func(lockstate.RequestID) bool)
	Asked(session lockagent.Owner) bool
	Deadline(tenure uint64) lockstate.Instant
	Wanted() bool
	Uncertain(id lockstate.RequestID) bool
	Snapshot() lockstate.Snapshot
	Tenure(number uint64) (lockstate.SavedTenure, bool)
	Request(id lockstate.RequestID) (lockstate.SavedRequest, bool)
	Floor() lockagent.Token
}

// advance takes a step of a machine. Step is not a method of the interface, because then every
// command would be allocated.
func advance(s machine, c lockstate.Command, m lockstate.Moment, do func(*lockstate.Event)) {
	switch s := s.(type) {
	case *lockstate.State:
		s.Step(c, m, do)
	case *lockstate.Fair:
		s.Step(c, m, do)
	case *lockstate.Permits:
		s.Step(c, m, do)
	case *lockstate.Latch:
		s.Step(c, m, do)
	}
}

// newMachine makes the state machine of a lock, from a snapshot. A new lock has the zero snapshot.
type newMachine func(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine

// machinesOf returns how the machine of each kind is made.
func machinesOf(a *Agent) map[lockagent.LockKind]newMachine {
	return map[lockagent.LockKind]newMachine{
		lockagent.PlainLock: a.plain,
		lockagent.FairLock:  a.fair,

		lockagent.ReadWriteLock: a.readWrite,
		lockagent.Semaphore:     a.permits,
		lockagent.Permits:       a.permits,
		lockagent.FencedLock:    a.plain,
		lockagent.SpinLock:      a.spin,
		lockagent.Latch:         a.latch,
	}
}

// kind checks the kind of a request.
func (a *Agent) kind(kind lockagent.LockKind) (lockagent.LockKind, error) {
	kind = kind.OrPlain()
	if a.machines[kind] == nil {
		return "", wrongOption("kind", "%.64q is no kind of lock; use one of lockagent.LockKinds", kind)
	}
	return kind, nil
}

// plain makes the machine of a plain or fenced lock.
func (a *Agent) plain(
	name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant,
) machine {
	return lockstate.Resume(name, a.restingConfig, from, shift, now)
}

// readWrite makes the machine of a read/write lock.
func (a *Agent) readWrite(
	name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant,
) machine {
	return lockstate.Resume(name, a.baseConfig, from, shift, now)
}

// spin makes the machine of a spin lock.
func (a *Agent) spin(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine {
	return lockstate.Resume(name, a.spinningConfig, from, shift, now)
}

// fair makes the machine of a fair lock.
func (a *Agent) fair(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine {
	return lockstate.ResumeFair(name, a.baseConfig, func() uint64 { return a.fresh.Add(1) }, from, shift, now)
}

// permits makes the machine of a semaphore.
func (a *Agent) permits(
	name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant,
) machine {
	return lockstate.ResumePermits(name, a.baseConfig, func() uint64 { return a.fresh.Add(1) }, from, shift, now)
}

// latch makes the machine of a latch. There is nothing in a snapshot that it could go on with.
func (a *Agent) latch(name lockagent.Name, _ lockstate.Snapshot, _ time.Duration, _ lockstate.Instant) machine {
	return lockstate.NewLatch(name, a.baseConfig)
}
