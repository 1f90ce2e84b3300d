// Package plan says what happens in a run of the simulator: how many agents there are, which locks, and which faults.
// The host makes a Plan from a seed, and the guest follows it.
package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Plan is a run. The same Plan is always the same run.
type Plan struct {
	Seed    uint64
	Agents  int
	Workers int // of each agent
	Lease   time.Duration
	Work    time.Duration // for how long workers ask for locks; then comes the last round
	Locks   []Lock
	Faults  []Fault
	NoGrace bool // the store has no grace periods, so a store that forgets has two holders

	Commands bool // the guest tells what the first server does

	// Outsiders is how many threads a program has that is no agent, and uses the plain lock as Redisson's client does.
	// 0 if there is no such program.
	Outsiders int

	Pause    time.Duration // the longest one between two requests of a worker
	Patience time.Duration // for how long a worker waits at most
	Longest  time.Duration // for how long a worker uses a lock at most; most often it is much shorter

	// Drift is by how many millionths the clock of the first server is faster than the clocks of the agents. The clock of
	// each further server is slow if that of the server before was fast. Clocks that NTP keeps right drift by up to 500.
	Drift int

	// Latency is the least and the greatest time that a message takes.
	Latency [2]time.Duration
}

// Lock is one of the locks that workers contend for.
type Lock struct {
	Name    string
	Kind    lockagent.LockKind
	Permits int // all of a semaphore, or 0
}

// Counted reports whether the lock has permits.
func (l Lock) Counted() bool { return l.Kind == lockagent.Semaphore || l.Kind == lockagent.Permits }

// Heartbeat is how often an agent tells the event log that it is alive. It is more often than outside of the simulator:
// runs are short.
const Heartbeat = time.Second

// kinds are those of the locks. Every run has some of them.
var kinds = []lockagent.LockKind{
	lockagent.PlainLock, lockagent.FencedLock, lockagent.FairLock, lockagent.ReadWriteLock, lockagent.SpinLock,
	lockagent.Semaphore, lockagent.Permits,
}

// New makes a plan from a seed.
func New(seed uint64) Plan {
	random := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed:    seed,
		Agents:  3,
		Workers: 2 + random.IntN(2),
		Lease:   time.Duration(1500+random.IntN(3000)) * time.Millisecond,
		Work:    10 * time.Second,
		Latency: [2]time.Duration{50 * time.Microsecond, time.Duration(300+random.IntN(5000)) * time.Microsecond},
		Pause:   600 * time.Millisecond,
	}
	p.Patience, p.Longest = 2*p.Lease, 3*p.Lease/2
	for _, i := range random.Perm(len(kinds))[:3] {
		l := Lock{Name: string(kinds[i]), Kind: kinds[i]}
		if l.Counted() {
			l.Permits = 2 + random.IntN(3)
		}
		p.Locks = append(p.Locks, l)
	}
	p.Faults = newFaults(random, &p)
	p.takeOutsiders(rand.New(rand.NewPCG(seed, 4)))
	if drifts := rand.New(rand.NewPCG(seed, 5)); drifts.IntN(2) == 0 {
		p.Drift = drifts.IntN(2*mostDrift+1) - mostDrift
	}
	return p
}

// mostDrift is that of clocks that NTP keeps right, in millionths.
const mostDrift = 500

// Check returns an error if a fault is about an agent that there is not, or if there is nothing for outsiders.
func (p Plan) Check() error {
	if p.Outsiders > 0 && p.OutsidersUse() == "" {
		return errors.New("outsiders use a plain lock, and the plan has none: add locks=plain before outsiders")
	}
	for _, f := range p.Faults {
		if f.Agent < 0 || f.Agent >= p.Parties() {
			return fmt.Errorf(
				"the fault %q is about an agent that there is not: they are numbered from 0 to %d", f, p.Parties()-1,
			)
		}
	}
	return nil
}

// Resumes reports whether agents keep a journal, from which another process goes on.
func (p Plan) Resumes() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == Resume })
}

// Within is the random duration between two others.
func Within(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}
