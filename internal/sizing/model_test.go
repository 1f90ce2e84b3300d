package sizing

import (
	"time"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/renewals"
)

// fleet says what there is and what it does. These are the letters of
// docs/performance.md.
type fleet struct {
	hosts int           // H
	locks int           // L: kept by each host
	lease time.Duration // W: of a kept lock

	holds    float64       // c: short holds per second on each host, of locks that nobody else wants
	holdTime time.Duration // how long each of them takes, and of those of contended locks

	contended int           // locks that several hosts want all the time, and as many that they want now and then
	rivals    int           // A: hosts that want each of them
	rest      time.Duration // about how long a host does without the latter
}

func newFleet(hosts, locks int) fleet {
	return fleet{
		hosts: hosts, locks: locks, lease: actor.DefaultLease,
		holds: 1, holdTime: 20 * time.Millisecond,
		contended: max(1, hosts/100), rivals: 10, rest: 200 * time.Millisecond,
	}
}

// period is how often a kept lock is renewed.
func (f fleet) period() time.Duration { return f.lease / 3 }

// renewals is how many locks are renewed in a second by one host.
func (f fleet) renewals() float64 { return float64(f.locks) / f.period().Seconds() }

// beat is how far apart the instants are at which the locks of one host are renewed.
func (f fleet) beat() time.Duration { return f.lease / 300 }

// company is how many locks one command renews, unless it is full: those of one beat. The first of
// them waits as long as a beat, so those of the next beat may join.
func (f fleet) company() (least, most float64) {
	once := f.renewals() * f.beat().Seconds()
	return min(max(1, once), renewals.Most), min(1+2*once, renewals.Most)
}

// renewCommands is how many commands one host renews its locks with in a second,
// if their renewals are spread over the period.
func (f fleet) renewCommands() (least, most float64) {
	few, many := f.company()
	return f.renewals() / many, f.renewals() / few
}

// inStep is how many commands one host renews its locks with in a second, if they were
// all begun at one instant: their renewals are scattered over half of the period.
func (f fleet) inStep() (least, most float64) {
	f.locks *= 2
	least, most = f.renewCommands()
	return least / 2, most / 2
}

// A hold of a lock that nobody else wants is an acquire and a release, and three
// facts: granted, released and returned.
const (
	commandsPerHold = 2
	factsPerHold    = 3
)

// messagesPerPass is how many messages a grant costs if all hosts that listen wait. The release sends
// one to the new holder and one to each of two standbys. The next host that waits sends one to the holder.
const messagesPerPass = 4

// crowded is how many commands and messages a grant costs at most, if several hosts want the lock
// now and then. A release passes the lock if a host has a place in the queue. Otherwise it tells all
// hosts that listen. In the worst case all of them have just begun to wait, and ask again.
func (f fleet) crowded() (commands, messages float64) {
	return commandsPerHold + float64(f.rivals), float64(f.rivals)
}

// attempts is how often n waiters that have a place ask in a second for locks that agents
// keep.
func (f fleet) attempts(n int) float64 {
	const looks = 10 * time.Second // between two attempts, or less if the lease ends before
	return float64(n) / min(looks, f.lease).Seconds()
}

// attemptsBeside is how often n waiters ask in a second for locks that another program keeps, if each waits for a lock
// of its own. That program may release a lock without a wake-up. So the first waiter asks every second, up to a
// twentieth later.
func (f fleet) attemptsBeside(n int) float64 {
	const every, scatter = time.Second, 1.05
	return float64(n) / (every.Seconds() * scatter)
}

// vacancy is the shortest and the longest time for which a lock stays with a host that died. That is
// the rest of the lease, and then the scatter of the waiters. A lease is renewed when a third of it
// has passed, or up to renewals.MaxWait later.
func (f fleet) vacancy() (least, most time.Duration) {
	const late, scatter = time.Millisecond, 100 * time.Millisecond
	return f.lease - f.period() - renewals.MaxWait, f.lease + renewals.MaxWait + late + scatter
}
