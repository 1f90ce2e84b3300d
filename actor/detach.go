package actor

import (
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// AgentSnapshot is what another process needs to go on with the locks of an agent: see
// [Agent.Detach] and [Resume]. It is plain data. Package json keeps all of it. It is as
// secret as the right to release these locks.
type AgentSnapshot struct {
	// Format is snapshotFormat.
	Format int
	// Agent is the identity that goes on.
	Agent lockagent.AgentID
	// Last is the greatest number that the agent has used.
	Last uint64
	// Taken is when the snapshot was taken.
	Taken Stamp
	// Locks are those about which there is something to know, in the order of their names.
	Locks []LockSnapshot
}

// snapshotFormat is the present format of snapshots.
const snapshotFormat = 2

// LockSnapshot is one lock in an [AgentSnapshot]: its tenures, their grants, and the floor of
// its tokens.
type LockSnapshot struct {
	Name lockagent.Name
	lockstate.Snapshot
	// Outlive are the grants whose requests had Outlive.
	Outlive []lockstate.RequestID
}

// Detach leaves the agent without giving anything back, so that another process can go on with
// its locks: see [Resume]. Every hold is over for this process, with [lockagent.LostClosed]. The
// requests that wait are answered with [lockagent.ErrClosed]. The store is told nothing, so
// what nobody resumes is free when its lease has run out. No event tells of the end of a hold, for it
// goes on.
//
// A grant that nobody has received is taken back. It is not part of the snapshot. If the
// tenure serves no other, the next process withdraws it.
//
// Calls to the store may still be under way when Detach returns. The snapshot takes into
// account that each may take effect, now or later. [Agent.Close] waits until they are answered;
// call it before the store is closed. Nothing renews the leases from now on, so the next process
// should not be long.
//
// The first call counts: further ones return the same snapshot. After Close the snapshot has no
// locks. Detach must not be called from a callback of the agent.
func (a *Agent) Detach() AgentSnapshot {
	a.ending.detach.Do(func() {
		a.deafen() // the store passes no lock to who does not listen
		taken := a.clock.stamp()
		var snapshots []chan LockSnapshot
		a.registry.close(func(e *entry) {
			c := make(chan LockSnapshot, 1)
			snapshots = append(snapshots, c)
			send(e, &detachMsg{snapshot: c})
		})
		var locks []LockSnapshot
		for _, c := range snapshots {
			if n := <-c; len(n.Tenures) > 0 || n.Floor != 0 {
				locks = append(locks, n)
			}
		}
		slices.SortFunc(locks, func(x, y LockSnapshot) int { return strings.Compare(string(x.Name), string(y.Name)) })
		a.ending.snapshot = AgentSnapshot{
			Format: snapshotFormat, Agent: a.cfg.ID, Last: a.fresh.Load(), Taken: taken, Locks: locks,
		}
		a.awaitEnd()
	})
	return a.ending.snapshot
}

// detach leaves the lock behind.
func (l *lock) detach(m *detachMsg) {
	l.draining, l.closing, l.detached = true, true, true
	n := LockSnapshot{Name: l.entry.name}
	defer func() { m.snapshot <- n }() // a callback may end this goroutine
	n.Snapshot = l.state.Snapshot()
	var unclaimed []lockstate.RequestID
	for r := range l.holds.all {
		switch {
		case r.takeBack():
			unclaimed = append(unclaimed, r.id)
		case r.Outlive:
			n.Outlive = append(n.Outlive, r.id)
		}
	}
	for i := range n.Tenures {
		t := &n.Tenures[i]
		t.Grants = slices.DeleteFunc(t.Grants, func(g lockstate.HeldGrant) bool { return slices.Contains(unclaimed, g.Request.ID) })
	}
	l.step(lockstate.Detach{})
}

// leaveHolds tells the holders that their holds are over for this process.
func (l *lock) leaveHolds() {
	for r := range l.holds.all {
		l.forget(r)
		l.holds.remove(r)
		r.end(r.lost(lockagent.LostClosed))
	}
}
