package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Snapshot is what another process needs to go on with the holds of a lock. Requests that wait
// are not part of it: they end with their process. The zero Snapshot is that of a lock that
// nobody holds.
type Snapshot struct {
	// Tenures are those that the agent may have in the store. A State has at most one.
	Tenures []SavedTenure
	// Floor is the greatest token that the agent knows of.
	Floor lockagent.Token
}

// SavedTenure is a tenure in a [Snapshot].
type SavedTenure struct {
	Number uint64
	// Grants are held in the tenure. If there are none, the next process withdraws the tenure.
	Grants []HeldGrant

	Mode        Mode
	Began       Instant
	Sent        Instant // when the last confirmed call was sent
	Replied     Instant // when that call was answered
	Deadline    Instant
	Until       Instant // when all confirmed leases have run out in the store
	Lease       time.Duration
	Open        time.Duration // the longest lease of an unanswered call
	Unanswered  bool          // the tenure may begin once more, by an attempt that arrives late
	StoreTime   lockagent.StoreTime
	Incarnation string
	Replicas    int             // that had what the last confirmed call wrote
	First, Last lockagent.Token // of its holds
	Holds       int
	Outsiders   bool
	Contested   bool
}

// HeldGrant is a grant in a [SavedTenure].
type HeldGrant struct {
	Request Request
	Token   lockagent.Token
	Since   Instant
	Fixed   Instant // when a fixed lease ends, or 0
	ClaimBy Instant // 0 once somebody is known to have received the grant
}

// WithoutHolds is the snapshot without its grants: whoever resumes it withdraws every tenure.
func (n Snapshot) WithoutHolds() Snapshot {
	n.Tenures = slices.Clone(n.Tenures)
	for i := range n.Tenures {
		n.Tenures[i].Grants, n.Tenures[i].Unanswered = nil, true
	}
	return n
}

// Snapshot returns what another process needs to go on with the holds. Calls to the store may
// be under way. To leave the lock to that process, take the snapshot, and then the step
// [Detach].
func (s *State) Snapshot() Snapshot {
	n := Snapshot{Floor: s.floor}
	t, a := s.tenure, &s.attempt
	if s.phase == asking {
		t = tenure{number: a.number, unanswered: true, open: max(a.open, a.lease)}
	} else if s.phase == sleeping && a.mayHave() {
		t = tenure{number: a.number, unanswered: a.unanswered, open: a.open}
	}
	if t.number == 0 {
		return n
	}
	if s.renewal.inFlight {
		t.open = max(t.open, s.renewal.lease)
	}
	saved := SavedTenure{
		Number: t.number, Mode: t.mode, Began: t.began, Sent: t.sent, Replied: t.replied, Deadline: t.deadline, Until: t.until,
		Lease: t.lease, Open: t.open, Unanswered: t.unanswered, StoreTime: t.storeTime, Incarnation: t.incarnation, Replicas: t.replicas,
		First: t.first, Last: t.last, Holds: t.holds, Outsiders: t.outsiders, Contested: t.contested,
	}
	for _, g := range s.grants.all {
		saved.Grants = append(saved.Grants, HeldGrant{Request: g.request, Token: g.token, Since: g.since, Fixed: g.fixed, ClaimBy: g.claimBy})
	}
	n.Tenures = append(n.Tenures, saved)
	return n
}

// Resume returns a lock that goes on from n, which has at most one tenure. The holds go on. The
// tenure is in doubt until a renewal has confirmed it. A tenure without a hold is withdrawn at
// now, which may be in the future.
//
// shift is how far the clock of this agent is ahead of the clock of n: an instant i of n is
// i + shift here. The numbers of the steps must be greater than before. The state wants a
// [Tick] at now.
func Resume(name lockagent.Name, cfg *Config, n Snapshot, shift time.Duration, now Instant) *State {
	s := New(name, cfg)
	s.floor = n.Floor
	for i := range n.Tenures {
		s.resume(&n.Tenures[i], shift, now)
	}
	return s
}

// resume makes a new state go on with a tenure.
func (s *State) resume(n *SavedTenure, shift time.Duration, now Instant) {
	moved := func(i Instant) Instant { return i.add(shift) }
	t := tenure{
		number: n.Number, mode: n.Mode, began: moved(n.Began), sent: moved(n.Sent), replied: moved(n.Replied), deadline: moved(n.Deadline),
		until: moved(n.Until), lease: n.Lease, open: n.Open, unanswered: n.Unanswered, storeTime: n.StoreTime, incarnation: n.Incarnation, replicas: n.Replicas,
		first: n.First, last: n.Last, holds: n.Holds, outsiders: n.Outsiders, contested: n.Contested, doubt: true,
	}
	if len(n.Grants) == 0 {
		s.withdraw(tenure{number: t.number, last: t.last, unanswered: t.unanswered, open: max(t.open, t.until.Sub(now))}, now)
		return
	}
	s.phase, s.tenure = held, t
	s.tenure.third = s.third()
	for i := range n.Grants {
		g := &n.Grants[i]
		own := grant{request: g.Request, token: g.Token, since: moved(g.Since)}
		own.request.Arrived = moved(own.request.Arrived)
		if g.Fixed != 0 {
			own.fixed = moved(g.Fixed)
		}
		if g.ClaimBy != 0 {
			own.claimBy = moved(g.ClaimBy)
		}
		s.grants.add(own)
	}
}
