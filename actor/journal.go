package actor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Journal gets what another process needs to go on with the locks of an agent, should this process end at any instant. A
// [JournalFold] makes an [AgentSnapshot] of it, for [Resume]. The waits for latches are not part of it: they have no place, and
// their owners ask again.
//
// The agent calls Begin once, before all else. It calls Write from many goroutines, which wait for it. The entries of one lock
// come one after the other. An agent that is detached calls neither, so that the journal keeps what was held and wanted then.
type Journal interface {
	// Begin takes the place of everything that was written before.
	Begin(AgentSnapshot)
	// Write adds an entry, and must not keep it. If the entry is due, this and all earlier entries have been written when Write
	// returns. Nobody has learned by then of what the entry tells, and no store has. The agent goes on also if the journal cannot be
	// written. The journal remembers why, and what it missed.
	Write(*JournalEntry)
}

// JournalEntry is what has changed in one lock.
type JournalEntry struct {
	Lock    lockagent.Name
	Kind    lockagent.LockKind
	Last    uint64 // a number that is at least as great as those of tenures and requests so far
	Stamp   Stamp  // the present time, if it is not zero
	Due     bool   // see [Journal.Write]
	Changes []Change

	tenures []uint64 // those that changed
}

// ChangeKind says what a [Change] is.
type ChangeKind uint8

// The changes. Each comment names the fields that are set beside Kind.
const (
	_ ChangeKind = iota
	// LockForgotten: what was written of the lock does not count any more.
	LockForgotten
	// FloorRose: the agent knows of a greater token. Token.
	FloorRose
	// TenureChanged: the agent has a tenure, or asks for one. Tenure, without its grants. These stay.
	TenureChanged
	// TenureOver: the agent does not have the tenure any more. Tenure.Number.
	TenureOver
	// RequestWaits: a request arrived. Request.
	RequestWaits
	// RequestOver: a request was answered, or its hold is over. ID.
	RequestOver
	// GrantMade: a request that waits was granted. ID, Tenure.Number, Token, Since, Fixed, ClaimBy.
	GrantMade
	// GrantReceived: somebody has the grant. ID.
	GrantReceived
	// LeaseExtended: the fixed lease of a hold ends later. ID, Fixed.
	LeaseExtended
	// LeaseKept: the fixed lease of a hold is kept, and then does not end before Own. ID, Own.
	LeaseKept
)

// Change is one change of what a [LockSnapshot] has.
type Change struct {
	Kind    ChangeKind
	ID      lockstate.RequestID
	Tenure  lockstate.SavedTenure
	Request WaitingRequest
	Token   lockagent.Token

	Since, Fixed, ClaimBy, Own lockstate.Instant // see [lockstate.HeldGrant]
}

// WaitingRequest is a request in a journal.
type WaitingRequest struct {
	lockstate.WaitingRequest
	Tag   string            // see [Request]
	Until lockstate.Instant // when the wait ends, or 0
}

// stampEvery is how often the journal gets the present time. Somebody may set the wall clock, and the last time that it
// got is what another process compares with its own.
const stampEvery = time.Second

// journaling is what an agent keeps for its journal.
type journaling struct {
	agent   *Agent
	journal Journal
	stamped atomic.Int64 // the instant of the last stamp
	spare   sync.Pool    // of *JournalEntry
}

// write hands an entry over.
func (j *journaling) write(l *lock, e *JournalEntry, due bool) {
	e.Lock, e.Kind, e.Last, e.Due = l.entry.name, l.entry.kind, j.agent.fresh.Load(), due
	e.Stamp = Stamp{}
	if last := j.stamped.Load(); l.now.Sub(lockstate.Instant(last)) >= stampEvery && j.stamped.CompareAndSwap(last, int64(l.now)) {
		e.Stamp = j.agent.clock.stamp()
	}
	j.journal.Write(e)
}

// scribe is what a lock keeps for the journal of its agent.
type scribe struct {
	journaling *journaling
	entry      *JournalEntry   // what has changed in the present step and is not written yet; or nil
	arrived    bool            // a request arrived in the present step, and is not written yet
	floor      lockagent.Token // that the journal has
}

// newScribe returns the scribe of a lock, or nil if it needs none.
func (a *Agent) newScribe(kind lockagent.LockKind) *scribe {
	if a.journaling == nil || kind == lockagent.Latch {
		return nil
	}
	return &scribe{journaling: a.journaling}
}

// add adds a change to the present entry.
func (s *scribe) add(c Change) {
	s.open()
	s.entry.Changes = append(s.entry.Changes, c)
}

func (s *scribe) open() {
	if s.entry == nil {
		var ok bool
		if s.entry, ok = s.journaling.spare.Get().(*JournalEntry); !ok {
			s.entry = new(JournalEntry)
		}
	}
}

// note notes an event, which was applied, and of which nobody knows yet. When note returns, the journal has what it must have
// before the lock does what the event asks for.
func (l *lock) note(e *lockstate.Event) {
	s := l.scribe
	if l.detached {
		return
	}
	id := e.Request.ID
	switch e.Kind {
	case lockstate.Requested:
		r := l.arriving
		s.add(Change{Kind: RequestWaits, Request: WaitingRequest{
			WaitingRequest: lockstate.WaitingRequest{Request: e.Request, Part: e.Part}, Tag: r.Tag, Until: r.bound(e.Request.Arrived),
		}})
		s.arrived = true
	case lockstate.Granted, lockstate.Reentered:
		s.add(Change{
			Kind: GrantMade, ID: id, Tenure: lockstate.SavedTenure{Number: e.Tenure}, Token: e.Token,
			Since: e.Now, Fixed: e.Fixed, ClaimBy: e.ClaimBy,
		})
	case lockstate.Answered, lockstate.Ended:
		s.add(Change{Kind: RequestOver, ID: id})
	case lockstate.Recalled:
		s.add(Change{Kind: GrantReceived, ID: id})
	case lockstate.Extended:
		if e.Own != 0 {
			s.add(Change{Kind: LeaseKept, ID: id, Own: e.Own})
		} else {
			s.add(Change{Kind: LeaseExtended, ID: id, Fixed: e.Fixed})
		}
	}
	if e.Tenure != 0 && altersTenure(e.Kind) {
		s.open()
		if !slices.Contains(s.entry.tenures, e.Tenure) {
			s.entry.tenures = append(s.entry.tenures, e.Tenure)
		}
	}
	if e.Commits() {
		l.record(true)
	}
}

// altersTenure reports whether the tenure of such an event is another one in the snapshot of its lock.
func altersTenure(k lockstate.Kind) bool {
	switch k {
	case lockstate.Granted, lockstate.Attempted, lockstate.FoundBusy, lockstate.AttemptFailed, lockstate.AttemptRefused,
		lockstate.Began, lockstate.Forgot, lockstate.Renewing, lockstate.Renewed, lockstate.RenewFailed, lockstate.Denied,
		lockstate.Returning, lockstate.Withdrawing, lockstate.Returned, lockstate.Withdrawn, lockstate.Dropped, lockstate.Contested:
		return true
	}
	return false
}

// record writes what has changed since it was called last.
func (l *lock) record(due bool) {
	s := l.scribe
	if s.entry == nil {
		return
	}
	e := s.entry
	s.entry, s.arrived = nil, false
	for _, number := range e.tenures {
		c := Change{Kind: TenureChanged}
		var ok bool
		if c.Tenure, ok = l.state.Tenure(number); !ok {
			c = Change{Kind: TenureOver, Tenure: lockstate.SavedTenure{Number: number}}
		}
		e.Changes = append(e.Changes, c)
	}
	if floor := l.state.Floor(); floor > s.floor {
		s.floor = floor
		e.Changes = append(e.Changes, Change{Kind: FloorRose, Token: floor})
	}
	s.journaling.write(l, e, due)
	s.journaling.recycle(e)
}

// recycle keeps the room of an entry for the next one.
func (j *journaling) recycle(e *JournalEntry) {
	if cap(e.Changes) > retainedChanges {
		return
	}
	clear(e.Changes)
	e.Changes, e.tenures = e.Changes[:0], e.tenures[:0]
	j.spare.Put(e)
}

const retainedChanges = 16

// recordStep writes what is left at the end of a step. Of a new request the next process has to know. Everything else can
// wait for the next entry.
func (l *lock) recordStep() {
	if l.scribe != nil {
		l.record(l.scribe.arrived)
	}
}

// recordAll replaces what was written of the lock by its present state.
func (l *lock) recordAll() {
	if l.scribe == nil || l.detached {
		return
	}
	l.scribe.entry, l.scribe.arrived, l.scribe.floor = nil, false, 0
	e := &JournalEntry{Changes: []Change{{Kind: LockForgotten}}}
	n := l.saved()
	e.Changes = n.changes(e.Changes)
	l.scribe.journaling.write(l, e, true)
	l.scribe.floor = l.state.Floor()
}

// recordLeave writes that the lock is about to leave. Nothing but the floor of its tokens is left. The actor calls it before it
// retires: afterwards another actor may write about the lock.
func (l *lock) recordLeave() {
	if l.scribe != nil && l.scribe.floor != 0 && !l.detached {
		l.scribe.add(Change{Kind: LockForgotten})
		l.scribe.floor = l.state.Floor() // it is forgotten as well
		l.record(false)
		l.scribe.floor = 0
	}
}

// recordStay takes back recordLeave, because the actor stays.
func (l *lock) recordStay() {
	if l.scribe != nil && !l.detached {
		l.scribe.open()
		l.record(false)
	}
}

// saved is the lock as the journal knows it.
func (l *lock) saved() LockSnapshot {
	n := l.snapshot()
	note := func(id lockstate.RequestID, arrived lockstate.Instant, waits bool) {
		r := l.requests.get(id)
		if r == nil {
			return // it is not there yet, or not any more
		}
		n.note(id, r.Tag)
		if until := r.bound(arrived); waits && until != 0 {
			n.Bounds = append(n.Bounds, WaitBound{id, until})
		}
	}
	for i := range n.Waiting {
		note(n.Waiting[i].Request.ID, n.Waiting[i].Request.Arrived, true)
	}
	for i := range n.Tenures {
		for j := range n.Tenures[i].Grants {
			note(n.Tenures[i].Grants[j].Request.ID, 0, false)
		}
	}
	return n
}

// bound is when the wait of the request ends, or 0. A caller who waits in Lock watches it, and the agent does not know the
// instant of its call exactly.
func (r *request) bound(arrived lockstate.Instant) lockstate.Instant {
	if r.waited && r.Wait > 0 {
		return arrived + lockstate.Instant(r.Wait)
	}
	return r.waitUntil
}

// journaled tells the journal what the agent goes on with.
func (a *Agent) journaled(locks []LockSnapshot) {
	if a.journaling == nil {
		return
	}
	stamp := a.clock.stamp()
	a.journaling.stamped.Store(int64(stamp.At))
	a.journaling.journal.Begin(AgentSnapshot{Format: snapshotFormat, Agent: a.cfg.ID, First: a.first, Last: a.fresh.Load(), Taken: stamp, Locks: locks})
}
