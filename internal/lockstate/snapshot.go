package lockstate

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Snapshot is what another process needs to go on with a lock. The zero Snapshot is that of a lock that
// nobody holds and nobody waits for.
type Snapshot struct {
	// Tenures are those that the agent may have in the store. A State has at most one.
	Tenures []SavedTenure
	// Requests are those that hold the lock, the oldest grant first, and then those that wait, in the order of their
	// ids, which is that of their arrival.
	Requests []SavedRequest
	// Floor is the greatest token that the agent knows of.
	Floor lockagent.Token
}

// SavedRequest is a request in a [Snapshot]: it waits, or it holds the lock.
type SavedRequest struct {
	Request
	// Part is the part of a [Fair] that serves it, see [SavedTenure].
	Part uint64
	// Tenure is the tenure of its grant. It is 0 while the request waits, and so is what follows.
	Tenure  uint64
	Token   lockagent.Token
	Since   Instant
	Fixed   Instant // when a fixed lease ends, or 0
	Own     Instant // see [Grant]
	ClaimBy Instant // 0 once somebody is known to have received the grant
	// Confirmed is when the store had confirmed the tenure last when the hold began. All grants of a session are one
	// hold.
	Confirmed lockagent.StoreTime
}

// Compare compares two requests by the order that they have in a [Snapshot].
func (r SavedRequest) Compare(other SavedRequest) int {
	waits := func(r *SavedRequest) int {
		if r.Tenure == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(waits(&r), waits(&other)), cmp.Compare(r.Since, other.Since), cmp.Compare(r.ID, other.ID))
}

// SavedTenure is a tenure in a [Snapshot].
type SavedTenure struct {
	Number uint64
	// Part is the part of a [Fair] that has the tenure. It serves the requests with the same Part. It is 0 if
	// the lock is a State.
	Part uint64

	// Asks says that no hold of the tenure has begun: a request waits for the store to grant it. The next process asks
	// again, with the same number. So the tenure keeps its place in the store's queue. Queued says that it has one, and
	// Arrived since when. It is 0 if that is not known.
	// If Asks is false, and no request holds the lock in the tenure, the next process withdraws it.
	Asks    bool
	Queued  bool
	Arrived lockagent.StoreTime

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
	Wanted      bool `json:",omitempty"` // another agent is known to wait for the lock
}

// withoutWaiting is the snapshot without the requests that wait: whoever resumes it withdraws the tenures that
// they ask for.
func (n Snapshot) withoutWaiting() Snapshot {
	n.Requests = slices.DeleteFunc(slices.Clone(n.Requests), func(r SavedRequest) bool { return r.Tenure == 0 })
	tenures := n.Tenures
	n.Tenures = nil
	for _, t := range tenures {
		switch {
		case !t.Asks:
			n.Tenures = append(n.Tenures, t)
		case t.Unanswered || t.Queued: // otherwise the store does not know of it
			n.Tenures = append(n.Tenures, SavedTenure{
				Number: t.Number, Part: t.Part, Until: t.Until, Open: t.Open, Unanswered: t.Unanswered,
			})
		}
	}
	return n
}

// WithoutHolds is the snapshot without its requests: whoever resumes it withdraws every tenure.
func (n Snapshot) WithoutHolds() Snapshot {
	n = n.withoutWaiting()
	n.Requests = nil
	for i := range n.Tenures {
		n.Tenures[i].Unanswered = true
	}
	return n
}

// Snapshot returns what another process needs to go on with the lock. Calls to the store may
// be under way, and this process may end at once.
func (s *State) Snapshot() Snapshot {
	n := Snapshot{Floor: s.floor}
	if saved, ok := s.saved(); ok {
		n.Tenures = append(n.Tenures, saved)
	}
	for x := range s.requests.grants {
		n.Requests = append(n.Requests, s.savedRequest(x))
	}
	for x := range s.requests.waiters {
		n.Requests = append(n.Requests, s.savedRequest(x))
	}
	return n
}

// Tenure returns a tenure as [State.Snapshot] has it. It reports false if the snapshot does not have it.
func (s *State) Tenure(number uint64) (SavedTenure, bool) {
	saved, ok := s.saved()
	return saved, ok && saved.Number == number
}

// Request returns a request as [State.Snapshot] has it. It reports false if the snapshot does not have it.
func (s *State) Request(id RequestID) (SavedRequest, bool) {
	x := s.requests.find(id)
	if x == nil {
		return SavedRequest{}, false
	}
	return s.savedRequest(x), true
}

// savedRequest is a request of the snapshot.
func (s *State) savedRequest(x *slot) SavedRequest {
	saved := SavedRequest{Request: x.Request, Part: s.part}
	if x.held {
		saved.Tenure, saved.Token, saved.Since = s.tenure.number, x.token, x.since
		saved.Fixed, saved.Own, saved.ClaimBy = x.fixed, x.own, x.claimBy
		saved.Confirmed = x.confirmed
	}
	return saved
}

// saved is the tenure of the snapshot. It reports false if there is none.
func (s *State) saved() (SavedTenure, bool) {
	if s.phase == asking || s.phase == sleeping {
		a := &s.attempt
		return SavedTenure{
			Number: a.number, Part: s.part, Asks: true, Queued: a.queued(), Arrived: a.arrived, Mode: a.mode,
			Contested: a.contested, Wanted: a.wanted, Unanswered: a.unanswered || s.phase == asking,
			Open: max(a.open, a.callLease(s.phase)),
		}, a.number != 0
	}
	t := &s.tenure
	saved := SavedTenure{
		Number: t.number, Part: s.part, Mode: t.mode, Began: t.began, Sent: t.sent, Replied: t.replied,
		Deadline: t.deadline, Until: t.until,
		Lease: t.lease, Open: t.open, Unanswered: t.unanswered, StoreTime: t.storeTime, Incarnation: t.incarnation,
		Replicas: t.replicas,
		First:    t.first, Last: t.last, Holds: t.holds, Outsiders: t.outsiders, Contested: t.contested,
		Wanted: t.wanted,
	}
	if s.renewal.inFlight {
		saved.Open = max(saved.Open, s.renewal.lease)
	}
	// The first hold waits for a renewal: the next process asks for the tenure once more.
	if s.phase == held && t.holds == 0 {
		saved = SavedTenure{
			Number: t.number, Part: s.part, Asks: true, Queued: true, Mode: t.mode, Contested: t.contested,
			Wanted: t.wanted, Unanswered: t.unanswered, Open: saved.Open, Until: t.until,
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
		s.resume(&n.Tenures[i], n.Requests, shift, now)
	}
	s.wait(n.Requests, shift)
	return s
}

// resume makes a new state go on with a tenure, and with the requests that hold the lock in it.
func (s *State) resume(n *SavedTenure, requests []SavedRequest, shift time.Duration, now Instant) {
	moved := func(i Instant) Instant { return i.add(shift) }
	s.part = n.Part
	if n.Asks {
		// The call before may have taken effect, or may do so later. What the store said is forgotten, as after a
		// failed call. But a semaphore with a place is set.
		s.phase, s.retryAt = sleeping, now
		s.attempt = attempt{
			number: n.Number, mode: n.Mode, arrived: n.Arrived, contested: n.Contested, wanted: n.Wanted, unanswered: true,
			open: n.Open, set: n.Queued,
		}
		if n.Until != 0 {
			s.attempt.open = max(n.Open, moved(n.Until).Sub(now))
		}
		return
	}
	t := tenure{
		number: n.Number, mode: n.Mode, began: moved(n.Began), budgetFrom: moved(n.Began), sent: moved(n.Sent),
		replied: moved(n.Replied), deadline: moved(n.Deadline),
		until: moved(n.Until), lease: n.Lease, open: n.Open, unanswered: n.Unanswered, storeTime: n.StoreTime,
		incarnation: n.Incarnation, replicas: n.Replicas,
		first: n.First, last: n.Last, holds: n.Holds, outsiders: n.Outsiders, contested: n.Contested, wanted: n.Wanted,
		doubt: true,
	}
	if !slices.ContainsFunc(requests, func(r SavedRequest) bool { return r.Tenure == n.Number }) {
		s.withdraw(
			tenure{number: t.number, last: t.last, unanswered: t.unanswered, open: max(t.open, t.until.Sub(now))}, now,
		)
		return
	}
	s.phase, s.tenure = held, t
	s.tenure.third = s.third()
	ends := sessionEnds(requests)
	for i := range requests {
		g := &requests[i]
		if g.Tenure != n.Number {
			continue
		}
		r, own := g.Request, grant{token: g.Token, since: moved(g.Since), confirmed: g.Confirmed}
		r.Arrived = moved(r.Arrived)
		switch end, of := ends[g.Owner]; {
		case of && g.Session && end == 0 && !g.Outlive && g.Fixed != 0:
			own.own = moved(g.Fixed)
		case of && g.Session && end != 0:
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
func (s *State) wait(requests []SavedRequest, shift time.Duration) {
	waiting := slices.Clone(requests)
	waiting = slices.DeleteFunc(waiting, func(r SavedRequest) bool { return r.Tenure != 0 })
	slices.SortFunc(waiting, SavedRequest.Compare)
	for i := range waiting {
		r := waiting[i].Request
		r.Arrived = r.Arrived.add(shift)
		s.part = waiting[i].Part
		s.requests.arrive(r)
	}
	// A place needs a subscription. If nobody is ahead, that ends soon.
	s.contended = len(waiting) > 0
}

// sessionEnds is when the one lease of each session that holds the lock ends, or 0 if it is kept. The process before
// may have ended while it began a lease anew, and then the journal tells only of some holds.
func sessionEnds(requests []SavedRequest) map[lockagent.Owner]Instant {
	var ends map[lockagent.Owner]Instant
	for i := range requests {
		g := &requests[i]
		if g.Tenure == 0 || !g.Session {
			continue
		}
		if ends == nil {
			ends = make(map[lockagent.Owner]Instant)
		}
		end, of := ends[g.Owner]
		switch {
		case !of || g.Fixed == 0:
			ends[g.Owner] = g.Fixed
		case end != 0:
			ends[g.Owner] = max(end, g.Fixed)
		}
	}
	return ends
}
