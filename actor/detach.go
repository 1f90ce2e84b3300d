package actor

import (
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// AgentSnapshot is what another process needs to go on with the locks of an agent: see
// [Agent.Detach] and [Resume]. It is plain data, and package json keeps all of it. Keep it
// secret: with it, a program can release these locks.
type AgentSnapshot struct {
	// Format is the version of this format.
	Format int
	// Agent is the identity of the agent.
	Agent lockagent.AgentID
	// First and Last bound the numbers that the agent has used, of tenures and requests: they are above First, and not above Last.
	// Tenures that it went on with itself have lower ones. If First is 0, an earlier version took the snapshot, which did not tell.
	First uint64 `json:",omitempty"`
	Last  uint64
	// Taken is when the snapshot was taken.
	Taken Stamp
	// Locks are the locks with a tenure, a request that waits, or a floor, in the order of their names.
	Locks []LockSnapshot
}

// The formats of snapshots that this version knows.
const (
	detachFormat   = 2 // nobody waits
	snapshotFormat = 3
)

// LockSnapshot is one lock in an [AgentSnapshot]: its tenures, their grants, and the floor of
// its tokens.
type LockSnapshot struct {
	Name lockagent.Name
	Kind lockagent.LockKind `json:",omitempty"` // empty for a plain lock
	lockstate.Snapshot
	// Bounds are the bounds of the waits that have one.
	Bounds []WaitBound `json:",omitempty"`
	// Tags are those of the requests that have one.
	Tags []RequestTag `json:",omitempty"`
}

// WaitBound is when the wait of a request ends.
type WaitBound struct {
	ID    lockstate.RequestID
	Until lockstate.Instant
}

// RequestTag is the tag of a request: see [Request].
type RequestTag struct {
	ID  lockstate.RequestID
	Tag string
}

// note notes what the state machine does not know of a request.
func (n *LockSnapshot) note(id lockstate.RequestID, tag string) {
	if tag != "" {
		n.Tags = append(n.Tags, RequestTag{id, tag})
	}
}

// noted is what a snapshot says of a request beside its state machine.
type noted struct {
	tag   string
	until lockstate.Instant
}

func (n *LockSnapshot) noted() map[lockstate.RequestID]noted {
	all := make(map[lockstate.RequestID]noted, len(n.Tags))
	change := func(id lockstate.RequestID, do func(*noted)) {
		x := all[id]
		do(&x)
		all[id] = x
	}
	for _, t := range n.Tags {
		change(t.ID, func(x *noted) { x.tag = t.Tag })
	}
	for _, b := range n.Bounds {
		change(b.ID, func(x *noted) { x.until = b.Until })
	}
	return all
}

// Detach ends the agent and gives nothing back, so that another process can go on with its
// locks: see [Resume]. Every hold ends in this process, with [lockagent.LostClosed]. No event
// tells of that, because the hold goes on elsewhere. Requests that wait are answered with
// [lockagent.ErrClosed].
//
// Detach tells the store nothing and renews nothing. A lock that nobody resumes is free when
// its lease has run out. So the next process should start soon.
//
// A grant that nobody has received is taken back, and is not part of the snapshot. If its
// tenure serves no other grant, the next process withdraws the tenure.
//
// Calls to the store may still be under way when Detach returns. The snapshot is right whether
// and whenever they take effect. [Agent.Close] waits until they are answered. Call it before
// the store is closed.
//
// Further calls return the same snapshot. After Close the snapshot has no locks. Do not call
// Detach from a callback of the agent.
func (a *Agent) Detach() AgentSnapshot {
	a.ending.detach.Do(func() {
		a.identity.settle(verdictCut)
		a.deafen() // the store passes no lock to an agent that does not listen
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
		slices.SortFunc(locks, byName)
		a.ending.snapshot = AgentSnapshot{
			Format: detachFormat, Agent: a.cfg.ID, First: a.first, Last: a.fresh.Load(), Taken: taken, Locks: locks,
		}
		a.awaitEnd()
	})
	return a.ending.snapshot
}

// detach leaves the lock to another process.
func (l *lock) detach(m *detachMsg) {
	l.draining, l.closing, l.detached = true, true, true
	n := LockSnapshot{Name: l.entry.name}
	defer func() { m.snapshot <- n }()
	n = l.snapshot()
	n.Snapshot = n.WithoutWaiting()
	for i := range n.Tenures {
		t := &n.Tenures[i]
		var claimed []lockstate.HeldGrant
		for _, g := range t.Grants {
			r := l.requests.get(g.Request.ID)
			if !r.takeBack() {
				claimed = append(claimed, g)
				n.note(r.id, r.Tag)
			}
		}
		t.Grants = claimed
	}
	l.step(lockstate.Detach{})
}

// snapshot is the snapshot of the state machine.
func (l *lock) snapshot() LockSnapshot {
	n := LockSnapshot{Name: l.entry.name, Snapshot: l.state.Snapshot()}
	if l.entry.kind != lockagent.PlainLock {
		n.Kind = l.entry.kind // an earlier version reads the others
	}
	return n
}

// leaveHolds tells the holders that their holds are over in this process.
func (l *lock) leaveHolds() {
	for r := range l.holds {
		l.forget(r)
		r.end(r.lost(lockagent.LostClosed))
	}
}
