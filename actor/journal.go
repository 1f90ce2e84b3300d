package actor

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/saved"
)

// Journal keeps records for another process, should this one end at any instant: [saved.Read] makes of them what
// [Resume] needs. A journal is a map: a change takes the place of the record with its key. The waits for latches are
// not in it: they have no place, and their owners ask again.
//
// The agent calls Begin once, before all else. It calls Write from many goroutines, which wait for it. The changes of
// one lock come one after the other. An agent that is detached calls neither, so that the journal keeps what was held
// and wanted then.
type Journal interface {
	// Begin takes the place of all records that agents have written before.
	Begin([]saved.Change)
	// Write makes changes. After the end of this process either all of them have been made or none. Write must not keep
	// the slice. It may keep the keys and the data, which do not change.
	//
	// If the changes are due, these and all earlier ones have been written when Write returns. Nobody has learned by
	// then of what they tell, and no store has. The agent goes on also if the journal cannot be written. The journal
	// remembers why, and what it missed.
	Write(changes []saved.Change, due bool)
}

const (
	// stampEvery is how often the journal gets the present time. Somebody may set the wall clock, and the last time
	// that it got is what another process compares with its own.
	stampEvery = time.Second
	// reserved is how many numbers the journal takes for used, beyond those that are. So not every step has to be
	// written. The next agent takes all of them for its own, so they are few beside those among which the copy of an
	// agent begins: see firstNumber.
	reserved = 1 << 24
)

// journaling is what an agent keeps for its journal.
type journaling struct {
	agent   *Agent
	journal Journal
	stamped atomic.Int64  // the instant of the last record of the agent
	last    atomic.Uint64 // the greatest number that this record reserves
	spare   sync.Pool     // of *unwritten
}

// record is the present record of the agent.
func (j *journaling) record() saved.Change {
	of := saved.Stay{ID: j.agent.cfg.ID, First: j.agent.first, Last: j.agent.fresh.Load() + reserved}
	of.Taken = saved.Now(j.agent.clock.now)
	j.stamped.Store(int64(of.Taken.At))
	j.last.Store(of.Last)
	return of.Record()
}

// stale reports whether the record of the agent is to be written again. It reports so to one of those who ask.
func (j *journaling) stale(now lockstate.Instant) bool {
	stamped, last := j.stamped.Load(), j.last.Load()
	if now.Sub(lockstate.Instant(stamped)) < stampEvery && j.agent.fresh.Load()+reserved/2 < last {
		return false
	}
	return j.stamped.CompareAndSwap(stamped, int64(now))
}

// unwritten is what the journal has to be told of a lock.
type unwritten struct {
	requests []lockstate.RequestID // those of which the journal may have something else
	tenures  []uint64              // likewise
	changes  []saved.Change
}

// scribe is what a lock keeps for the journal of its agent.
type scribe struct {
	journaling *journaling
	pending    *unwritten      // what has changed in the present step and is not written yet; or nil
	arrived    bool            // a request arrived in the present step, and is not written yet
	floor      lockagent.Token // that the journal has
	tenures    []uint64        // that the journal has
}

// newScribe returns the scribe of a lock, or nil if it needs none.
func (a *Agent) newScribe(kind lockagent.LockKind) *scribe {
	if a.journaling == nil || kind == lockagent.Latch {
		return nil
	}
	return &scribe{journaling: a.journaling}
}

// concern notes that a request, a tenure or both are not as the journal has them. 0 is none.
func (s *scribe) concern(id lockstate.RequestID, tenure uint64) {
	if id == 0 && tenure == 0 {
		return
	}
	if s.pending == nil {
		var ok bool
		if s.pending, ok = s.journaling.spare.Get().(*unwritten); !ok {
			s.pending = new(unwritten)
		}
	}
	if id != 0 {
		s.pending.requests = append(s.pending.requests, id)
	}
	if tenure != 0 {
		s.pending.tenures = append(s.pending.tenures, tenure)
	}
}

// note notes an event, which was applied, and of which nobody knows yet. When note returns, the journal has what it
// must have before the lock does what the event asks for.
func (l *lock) note(e *lockstate.Event) {
	if l.detached {
		return
	}
	l.scribe.concern(e.Request.ID, e.Tenure)
	l.scribe.arrived = l.scribe.arrived || e.Kind == lockstate.Requested
	if e.Commits() {
		l.writeRecords(true)
	}
}

// writeRecords writes what has changed since it was called last.
func (l *lock) writeRecords(due bool) {
	s := l.scribe
	if s.pending == nil {
		return
	}
	p := s.pending
	s.pending, s.arrived = nil, false
	name, kind := l.entry.name, l.entry.kind
	for _, id := range once(p.requests) {
		if r, ok := l.saved(id); ok {
			p.changes = append(p.changes, saved.RequestRecord(name, kind, &r))
		} else {
			p.changes = append(p.changes, saved.Change{Key: saved.RequestKey(name, id)})
		}
	}
	for _, number := range once(p.tenures) {
		t, ok := l.state.Tenure(number)
		if ok {
			p.changes = append(p.changes, saved.TenureRecord(name, kind, &t))
		} else {
			p.changes = append(p.changes, saved.Change{Key: saved.TenureKey(name, number)})
		}
		s.wrote(number, ok)
	}
	if floor := l.state.Floor(); floor > s.floor {
		s.floor = floor
		p.changes = append(p.changes, saved.FloorRecord(name, kind, floor))
	}
	s.journaling.write(p, l.now, due)
}

// wrote notes whether the journal has a tenure.
func (s *scribe) wrote(tenure uint64, has bool) {
	switch i := slices.Index(s.tenures, tenure); {
	case has && i < 0:
		s.tenures = append(s.tenures, tenure)
	case !has && i >= 0:
		s.tenures = slices.Delete(s.tenures, i, i+1)
	}
}

// once has each number once, and orders them.
func once[N cmp.Ordered](all []N) []N {
	slices.Sort(all)
	return slices.Compact(all)
}

// write hands changes over.
func (j *journaling) write(p *unwritten, now lockstate.Instant, due bool) {
	if j.stale(now) {
		p.changes = append(p.changes, j.record())
	}
	j.journal.Write(p.changes, due)
	if cap(p.changes) > retainedChanges {
		return
	}
	clear(p.changes)
	p.requests, p.tenures, p.changes = p.requests[:0], p.tenures[:0], p.changes[:0]
	j.spare.Put(p)
}

const retainedChanges = 16

// journalStep writes what is left at the end of a step. Of a new request the next process has to know. Everything else
// can wait for the next write.
func (l *lock) journalStep() {
	if l.scribe != nil {
		l.writeRecords(l.scribe.arrived)
	}
}

// journalLeave writes that the lock is about to leave. Nothing but the floor of its tokens is left in the journal. The
// actor calls it before it retires: afterwards another actor may write about the lock. If the actor stays, the next
// writeRecords has the floor again.
func (l *lock) journalLeave() {
	s := l.scribe
	if s == nil || s.floor == 0 || l.detached {
		return
	}
	s.floor = 0
	s.journaling.write(&unwritten{changes: []saved.Change{{Key: saved.FloorKey(l.entry.name)}}}, l.now, false)
}

// journalRestart writes that the lock has started over. ids are the requests that it had. The new state does not know
// the tenures if the old one could not tell them. Then their records end: the next actor of the name may be of another
// kind, and a journal has one kind for each name.
func (l *lock) journalRestart(ids []lockstate.RequestID) {
	if l.scribe == nil || l.detached {
		return
	}
	for _, number := range l.scribe.tenures {
		l.scribe.concern(0, number)
	}
	for _, id := range ids {
		l.scribe.concern(id, 0)
	}
	l.writeRecords(true)
}

// saved is a request as the journal is to have it. It reports false if the journal is not to have it.
func (l *lock) saved(id lockstate.RequestID) (saved.Request, bool) {
	n, ok := l.state.Request(id)
	if !ok {
		return saved.Request{}, false
	}
	of := saved.Request{SavedRequest: n}
	if r := l.requests.get(id); r != nil {
		of.Tag = r.Tag
		of.Total = cmp.Or(r.total, l.total(n.Tenure, n.Token)) // if it is granted just now
		if n.Tenure == 0 {
			of.Until = r.bound(n.Arrived)
		}
	}
	return of, true
}

// bound is when the wait of the request ends, or 0. A caller who waits in Lock watches it, and the agent does not know
// the instant of its call exactly.
func (r *request) bound(arrived lockstate.Instant) lockstate.Instant {
	if r.waited && r.Wait > 0 {
		return arrived + lockstate.Instant(r.Wait)
	}
	return r.waitUntil
}

// changes are all records of a lock that was loaded, for a new journal.
func (l *lock) changes() []saved.Change {
	n := l.state.Snapshot()
	of := saved.Lock{Name: l.entry.name, Kind: l.entry.kind, Floor: n.Floor, Tenures: n.Tenures}
	for i := range n.Requests {
		r, _ := l.saved(n.Requests[i].ID)
		of.Requests = append(of.Requests, r)
	}
	l.scribe.floor, l.scribe.tenures = n.Floor, nil
	for i := range n.Tenures {
		l.scribe.wrote(n.Tenures[i].Number, true)
	}
	return of.Changes()
}
