package lockstate

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Snapshot is what another process needs to go on with a lock. The zero Snapshot is that of a lock that
// nobody holds and nobody waits for.
type Snapshot struct {
	// Tenures are those that the agent may have in the store. A State has at most one.
	Tenures []SavedTenure
	// Waiting are the requests that wait, in the order of their ids.
	Waiting []WaitingRequest `json:",omitempty"`
	// Floor is the greatest token that the agent knows of.
	Floor lockagent.Token
}

// WaitingRequest is a request that waits.
type WaitingRequest struct {
	Request Request
	Part    uint64 `json:",omitempty"` // the part of a [Fair] that serves it, see [SavedTenure]
}

// SavedTenure is a tenure in a [Snapshot].
type SavedTenure struct {
	Number uint64
	// Part is the part of a [Fair] that has the tenure. It serves the requests that wait with the same Part. It is 0 if
	// the lock is a State.
	Part uint64 `json:",omitempty"`
	// Grants are held in the tenure. If there are none, and Asks is false, the next process withdraws the tenure.
	Grants []HeldGrant

	// Asks says that no hold of the tenure has begun: a request waits for the store to grant it. The next process asks
	// again, with the same number. So the tenure keeps its place in the store's queue. Queued says that it has one.
	Asks   bool `json:",omitempty"`
	Queued bool `json:",omitempty"`

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
	Own     Instant `json:",omitempty"` // see [Event]
	ClaimBy Instant // 0 once somebody is known to have received the grant
}

// WithoutWaiting is the snapshot without the requests that wait: whoever resumes it withdraws the tenures that
// they ask for.
func (n Snapshot) WithoutWaiting() Snapshot {
	n.Waiting = nil
	tenures := n.Tenures
	n.Tenures = nil
	for _, t := range tenures {
		switch {
		case !t.Asks:
			n.Tenures = append(n.Tenures, t)
		case t.Unanswered || t.Queued: // otherwise the store does not know of it
			n.Tenures = append(n.Tenures, SavedTenure{Number: t.Number, Part: t.Part, Until: t.Until, Open: t.Open, Unanswered: t.Unanswered})
		}
	}
	return n
}

// WithoutHolds is the snapshot without its grants, and without the requests that wait: whoever resumes it withdraws
// every tenure.
func (n Snapshot) WithoutHolds() Snapshot {
	n = n.WithoutWaiting()
	for i := range n.Tenures {
		n.Tenures[i].Grants, n.Tenures[i].Unanswered = nil, true
	}
	return n
}

// Snapshot returns what another process needs to go on with the lock. Calls to the store may
// be under way, and this process may end at once. To leave only the holds to that process, give it
// [Snapshot.WithoutWaiting], and then take the step [Detach].
func (s *State) Snapshot() Snapshot {
	n := Snapshot{Floor: s.floor}
	for w := range s.requests.waiters {
		n.Waiting = append(n.Waiting, WaitingRequest{w.Request, s.part})
	}
	saved, ok := s.saved()
	if !ok {
		return n
	}
	for g := range s.requests.grants {
		saved.Grants = append(saved.Grants, HeldGrant{Request: g.Request, Token: g.token, Since: g.since, Fixed: g.fixed, Own: g.own, ClaimBy: g.claimBy})
	}
	n.Tenures = append(n.Tenures, saved)
	return n
}

// Tenure returns a tenure as [State.Snapshot] has it, but without its grants, of which there may be many. It reports
// false if the snapshot does not have it.
func (s *State) Tenure(number uint64) (SavedTenure, bool) {
	saved, ok := s.saved()
	return saved, ok && saved.Number == number
}

// saved is the tenure of the snapshot, without its grants. It reports false if there is none.
func (s *State) saved() (SavedTenure, bool) {
	if s.phase == asking || s.phase == sleeping {
		a := &s.attempt
		return SavedTenure{
			Number: a.number, Part: s.part, Asks: true, Queued: a.queued, Mode: a.mode, Contested: a.contested,
			Unanswered: a.unanswered || s.phase == asking, Open: max(a.open, a.callLease(s.phase)),
		}, a.number != 0
	}
	t := &s.tenure
	saved := SavedTenure{
		Number: t.number, Part: s.part, Mode: t.mode, Began: t.began, Sent: t.sent, Replied: t.replied, Deadline: t.deadline, Until: t.until,
		Lease: t.lease, Open: t.open, Unanswered: t.unanswered, StoreTime: t.storeTime, Incarnation: t.incarnation, Replicas: t.replicas,
		First: t.first, Last: t.last, Holds: t.holds, Outsiders: t.outsiders, Contested: t.contested,
	}
	if s.renewal.inFlight {
		saved.Open = max(saved.Open, s.renewal.lease)
	}
	if s.phase == held && t.holds == 0 { // the first hold waits for a renewal: the next process asks for the tenure once more
		saved = SavedTenure{
			Number: t.number, Part: s.part, Asks: true, Queued: true, Mode: t.mode, Contested: t.contested,
			Unanswered: t.unanswered, Open: saved.Open, Until: t.until,
		}
	}
	return saved, t.number != 0
}

// callLease is the lease of the call that is under way, if there is one.
func (a *attempt) callLease(p phase) time.Duration {
	if p == asking {
		return a.lease
	}
	return 0
}

// Resume returns a lock that goes on from n, which has at most one tenure. The holds go on. The
// tenure is in doubt until a renewal has confirmed it. The requests that wait go on with their ids. A tenure
// that they ask for is asked for again at once. Any other tenure without a hold is withdrawn at
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
	s.wait(n.Waiting, shift)
	return s
}

// resume makes a new state go on with a tenure.
func (s *State) resume(n *SavedTenure, shift time.Duration, now Instant) {
	moved := func(i Instant) Instant { return i.add(shift) }
	s.part = n.Part
	if n.Asks {
		// The call before may have taken effect, or may do so later. What the store said is forgotten, as after a failed
		// call. But a semaphore with a place is set.
		s.phase, s.retryAt = sleeping, now
		s.attempt = attempt{
			number: n.Number, mode: n.Mode, contested: n.Contested, unanswered: true, open: n.Open, set: n.Queued,
		}
		if n.Until != 0 {
			s.attempt.open = max(n.Open, moved(n.Until).Sub(now))
		}
		return
	}
	t := tenure{
		number: n.Number, mode: n.Mode, began: moved(n.Began), budgetFrom: moved(n.Began), sent: moved(n.Sent), replied: moved(n.Replied), deadline: moved(n.Deadline),
		until: moved(n.Until), lease: n.Lease, open: n.Open, unanswered: n.Unanswered, storeTime: n.StoreTime, incarnation: n.Incarnation, replicas: n.Replicas,
		first: n.First, last: n.Last, holds: n.Holds, outsiders: n.Outsiders, contested: n.Contested, doubt: true,
	}
	if len(n.Grants) == 0 {
		s.withdraw(tenure{number: t.number, last: t.last, unanswered: t.unanswered, open: max(t.open, t.until.Sub(now))}, now)
		return
	}
	s.phase, s.tenure = held, t
	s.tenure.third = s.third()
	ends := sessionEnds(n.Grants)
	for i := range n.Grants {
		g := &n.Grants[i]
		r, own := g.Request, grant{token: g.Token, since: moved(g.Since)}
		r.Arrived = moved(r.Arrived)
		switch end, of := ends[g.Request.Owner]; {
		case of && g.Request.Session && end == 0 && !g.Request.Outlive && g.Fixed != 0:
			own.own = moved(g.Fixed)
		case of && g.Request.Session && end != 0:
			own.fixed = moved(end)
		case g.Fixed != 0:
			own.fixed = moved(g.Fixed)
		}
		if g.Own != 0 {
			own.own = moved(g.Own)
		}
		if g.ClaimBy != 0 {
			own.claimBy = moved(g.ClaimBy)
		}
		s.requests.arrive(r)
		s.requests.grant(s.requests.find(r.ID), own)
	}
}

// wait makes a resumed state go on with the requests that wait.
func (s *State) wait(waiting []WaitingRequest, shift time.Duration) {
	waiting = slices.Clone(waiting)
	slices.SortFunc(waiting, byID)
	for i := range waiting {
		r := waiting[i].Request
		r.Arrived = r.Arrived.add(shift)
		s.part = waiting[i].Part
		s.requests.arrive(r)
	}
	// A place needs a subscription. If nobody is ahead, that ends soon.
	s.contended = len(waiting) > 0
}

// sessionEnds is when the one lease of each session ends, or 0 if it is kept. The process before may have ended while
// it began a lease anew, and then the journal tells only of some holds.
func sessionEnds(grants []HeldGrant) map[lockagent.Owner]Instant {
	var ends map[lockagent.Owner]Instant
	for i := range grants {
		g := &grants[i]
		if !g.Request.Session {
			continue
		}
		if ends == nil {
			ends = make(map[lockagent.Owner]Instant)
		}
		end, of := ends[g.Request.Owner]
		switch {
		case !of || g.Fixed == 0:
			ends[g.Request.Owner] = g.Fixed
		case end != 0:
			ends[g.Request.Owner] = max(end, g.Fixed)
		}
	}
	return ends
}
