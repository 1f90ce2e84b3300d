package fold

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// Fold makes the state of all locks from the records of all agents: the holders, the waiters, and
// how each hold ended. The log is the only source of that state.
//
// The records of one agent are applied in their order, those of different agents in any order. Signs of
// life may come last. A record that was applied before changes nothing. Records may be missing: then holds are
// missing, or go on for too long, until another hold shows that they are over: see
// Hold.Superseded. Kinds that this version does not know change nothing. Another process can go on with a
// [Fold.Snapshot].
//
// A Fold must be made by [New] and is not safe for concurrent use.
type Fold struct {
	watch  Watcher // or nil
	agents map[lockagent.AgentID]*folded
	locks  map[LockKey]*lockFold
	stores stores

	heard  time.Time // when the stream took the last record
	alive  time.Time // and the last sign of life
	most   int       // how many agents are remembered until some are forgotten
	leases int       // that were left in a store since those were forgotten that are over

	latest *lockFold // the lock of the last record: the next is often about the same
	spare  []*Hold

	record   events.Record // that is applied
	changes  []Change      // that it has made; none if there is a watcher
	position uint64        // of the last record, or 0
}

// folded is what a Fold knows of an agent.
type folded struct {
	AgentState
	heard time.Time           // when the stream took its last record
	holds map[*Hold]*lockFold // that it has
	waits map[*lockFold]int   // how many of its requests wait
}

// lockFold is what a Fold knows of a lock.
type lockFold struct {
	LockKey
	open    []*Hold
	left    []*Hold // see [LockState]
	waiters []Waiter

	// The latest grants, of each mode: with them a hold whose grant comes late is superseded at once.
	exclusive, shared grant
}

// grant is what supersedes the earlier holds of other agents.
type grant struct {
	token lockagent.Token
	agent lockagent.AgentID
	start lockagent.StoreTime
}

// New returns the fold of an empty log.
func New() *Fold {
	return &Fold{agents: make(map[lockagent.AgentID]*folded), locks: make(map[LockKey]*lockFold), most: fewAgents}
}

// Apply applies a record, and returns what has changed. It is part of a [events.Visit] if it is called with what was
// read:
//
//	reader.Replay(ctx, from, filter, func(r *events.Record, err error) error {
//		if err != nil {
//			return nil
//		}
//		for _, c := range fold.Apply(*r) {
//			...
//		}
//		return nil
//	})
//
// Most records change one thing or two. The end of an agent changes all of its holds and requests. The changes and
// their holds are valid until the next call of Apply, which uses their memory again. A caller that needs them for
// longer keeps a copy of the hold.
func (f *Fold) Apply(r events.Record) []Change {
	f.recycle()
	f.record = r
	a := f.agent(r.Agent)
	f.hear(a, &f.record)
	f.apply(a, &f.record)
	return f.changes
}

func (f *Fold) agent(id lockagent.AgentID) *folded {
	a := f.agents[id]
	if a == nil {
		if f.watch == nil && len(f.agents) >= f.most {
			f.forgetAgents()
		}
		a = &folded{AgentState: AgentState{Agent: id}, holds: make(map[*Hold]*lockFold)}
		f.agents[id] = a
	}
	return a
}

func (f *Fold) apply(a *folded, r *events.Record) {
	if r.Epoch < a.Epoch || r.Epoch == a.Epoch && r.Seq <= a.Seq {
		if r.Kind == lockagent.EventAlive && f.watch == nil {
			f.wasAlive(a, r)
		}
		return
	}
	a.Epoch, a.Seq, a.Time = r.Epoch, r.Seq, r.Time
	if r.Store != "" {
		if a.Store == "" && len(a.holds)+len(a.waits) > 0 {
			f.move(a, r.Store)
		}
		a.Store = r.Store
	}
	switch r.Kind {
	case 0:
	case lockagent.EventAgentStarted:
		a.Process, a.Stopped = Process(r.Process), false
		f.begins(a, r)
	case lockagent.EventAgentStopped:
		a.Stopped = true
		f.setAllGone(a, true)
		f.waitsNoMore(a)
	case lockagent.EventAlive:
		a.alive(r)
	case lockagent.EventStoreReset:
		f.joinStores(r.Reset.Store, r.Store)
	default:
		if r.Lock != "" {
			f.about(a, r)
		}
	}
}

// about applies a record about a lock.
func (f *Fold) about(a *folded, r *events.Record) {
	l := f.lock(KeyOf(f.stores.find(a.Store), r))
	switch r.Kind {
	case lockagent.EventRequested, lockagent.EventQueued:
		if f.watch == nil { // an audit does not ask who waits
			f.wait(a, l, r)
		}
	case lockagent.EventTimedOut, lockagent.EventCancelled, lockagent.EventRefused:
		f.noWait(a, l, r)
	case lockagent.EventGranted, lockagent.EventHeld:
		f.granted(a, l, r, f.noWait(a, l, r))
	case lockagent.EventReentered:
		f.noWait(a, l, r)
		h := l.find(r)
		if f.watch != nil {
			f.watch.Reentered(l.LockKey, h, r)
		}
		if h != nil {
			h.Grants = r.Count
			if r.Mode == lockagent.Shared && h.Mode != lockagent.Shared {
				h.shares++
			}
			f.notify(HoldChanged, h)
		}
	case lockagent.EventHolding:
		f.holding(a, l, r)
	case lockagent.EventRenewed:
		if f.watch != nil {
			f.watch.Renewed(l.LockKey, r)
		}
		for _, h := range l.open {
			if h.Agent == r.Agent && h.Tenure == r.Tenure {
				h.Confirmed, h.Lease, h.Uncertain, h.Gone = max(h.Confirmed, r.StoreTime), r.Lease, time.Time{}, false
				f.notify(HoldChanged, h)
			}
		}
	case lockagent.EventUncertain:
		for _, h := range l.open {
			if h.Agent == r.Agent && h.Tenure == r.Tenure {
				h.Gone = false
				if h.Uncertain.IsZero() {
					h.Uncertain = r.Time
				}
				f.notify(HoldChanged, h)
			}
		}
	case lockagent.EventPermits:
		if f.watch != nil {
			f.watch.Changed(l.LockKey, r)
		}
	case lockagent.EventReturned:
		// All holds of the tenure are over. If one is not, the record that says so is missing.
		l.left = slices.DeleteFunc(l.left, func(h *Hold) bool { return h.Agent == r.Agent && h.Tenure == r.Tenure })
		f.replace(a, l, r, func(h *Hold) bool { return h.Tenure == r.Tenure })
		if f.watch != nil {
			f.watch.Returned(l.LockKey, r)
		}
	default:
		switch {
		case !r.Kind.EndsHold():
		case r.Kind == lockagent.EventBroken && r.Token == 0:
			l.left = nil
			if f.watch != nil {
				f.watch.Broke(l.LockKey, r)
			}
		default:
			f.ended(a, l, r)
		}
	}
}

func (f *Fold) lock(key LockKey) *lockFold {
	if f.latest != nil {
		if f.latest.LockKey == key {
			return f.latest
		}
		f.tidy(f.latest)
	}
	l := f.locks[key]
	if l == nil {
		l = &lockFold{LockKey: key}
		f.locks[key] = l
	}
	f.latest = l
	return l
}

func (l *lockFold) empty() bool { return len(l.open) == 0 && len(l.left) == 0 && len(l.waiters) == 0 }

// mostIdle is how many locks may be kept about which there is nothing to say: often there is soon.
const mostIdle = 1024

// tidy forgets a lock about which there is nothing to say.
func (f *Fold) tidy(l *lockFold) {
	if !l.empty() || len(f.locks) <= mostIdle {
		return
	}
	delete(f.locks, l.LockKey)
	f.latest = nil
}

func (f *Fold) wait(a *folded, l *lockFold, r *events.Record) {
	i := slices.IndexFunc(l.waiters, func(w Waiter) bool { return w.Agent == r.Agent && w.Request == r.Request })
	if i < 0 {
		i = len(l.waiters)
		l.waiters = append(l.waiters, Waiter{
			Agent: a.Agent, Owner: r.Owner, Who: Who{r.Who}, Request: r.Request, Mode: r.Mode, Since: r.Time.Add(-r.Waited),
		})
		a.waitsFor(l)
	}
	w := &l.waiters[i]
	w.Holder, w.Behind = r.Holder, f.behind(l, r.Agent, r.Holder)
	f.tellRequest(RequestWaits, l, w)
}

// waitsFor notes that one more request waits for a lock.
func (a *folded) waitsFor(l *lockFold) {
	if a.waits == nil {
		a.waits = make(map[*lockFold]int)
	}
	a.waits[l]++
}

// noWait ends the wait of a request, and returns for whom it has waited, or nil.
func (f *Fold) noWait(a *folded, l *lockFold, r *events.Record) (behind *Party) {
	for i := range l.waiters {
		if w := &l.waiters[i]; w.Agent == r.Agent && w.Request == r.Request {
			behind = w.Behind
			f.tellRequest(RequestOver, l, w)
			l.waiters = slices.Delete(l.waiters, i, i+1)
			if a.waits[l]--; a.waits[l] == 0 {
				delete(a.waits, l)
			}
			break
		}
	}
	return behind
}

// named returns the hold that a record is about, or nil.
func (l *lockFold) named(r *events.Record) *Hold {
	for _, h := range l.open {
		if h.Token == r.Token && h.Tenure == r.Tenure && h.Agent == r.Agent {
			return h
		}
	}
	return nil
}

// find returns the same hold. It went on until that record.
func (l *lockFold) find(r *events.Record) *Hold {
	h := l.named(r)
	if h != nil {
		h.Gone = false
	}
	return h
}

// newHold returns the hold that a grant or an end is about.
func (f *Fold) newHold(a *folded, l *lockFold, r *events.Record) *Hold {
	var h *Hold
	if n := len(f.spare); n > 0 {
		h, f.spare = f.spare[n-1], f.spare[:n-1]
	} else {
		h = new(Hold)
	}
	*h = Hold{
		LockKey: l.LockKey, Owner: r.Owner, Who: Who{r.Who}, Agent: a.Agent, Process: a.Process, Epoch: r.Epoch, Seq: r.Seq,
		Request: r.Request, Tenure: r.Tenure, Token: r.Token, Mode: r.Mode, How: r.How, Grants: r.Count,
		From: r.Time, Waited: r.Waited, Start: r.StoreTime, Lease: r.Lease, Fixed: r.Fixed,
		Confirmed: max(r.StoreTime, r.Confirmed), Incarnation: r.Incarnation, Permits: r.Permits, Total: r.Total,
		Replicas: r.Replicas, Holds: r.Holds, told: r.Stored,
	}
	return h
}

func (f *Fold) granted(a *folded, l *lockFold, r *events.Record, waited *Party) {
	// The agent grants the lock to one owner after the other. So a hold that is still open has
	// ended, unless both share the lock, and the record of its end is missing.
	if len(l.open) > 0 {
		f.replace(a, l, r, func(h *Hold) bool { return conflict(h, r) })
	}
	h := f.newHold(a, l, r)
	h.Behind = waited
	f.begun(a, l, h)
	if f.watch != nil {
		f.watch.Granted(h)
	}
	if r.Kind == lockagent.EventHeld {
		h.Until = r.Time.Add(r.Held)
		f.over(l, h, r)
		return
	}
	l.open = append(l.open, h)
	a.holds[h] = l
}

// begun notes that a hold has begun.
func (f *Fold) begun(a *folded, l *lockFold, h *Hold) {
	if !h.Fixed {
		a.Lease = max(a.Lease, h.Lease)
	}
	f.notify(HoldGranted, h)
	if f.watch == nil {
		f.supersede(l, h)
		l.left = slices.DeleteFunc(
			l.left, func(o *Hold) bool { return o.Token < h.Token && !bothShared(o.Mode, h.Mode) && l.Excludes() },
		)
	}
}

// supersede notes which holds are over because the store has granted the lock to another agent
// since. Their ends may be missing in the log, or still under way. An audit compares times instead.
func (f *Fold) supersede(l *lockFold, h *Hold) {
	if !l.Excludes() {
		return // several may hold it
	}
	by := grant{h.Token, h.Agent, h.Start}
	for _, o := range l.open {
		f.supersededBy(o, h.Mode, by)
	}
	f.supersededBy(h, lockagent.Exclusive, l.exclusive)
	f.supersededBy(h, lockagent.Shared, l.shared)
	if latest := l.latest(h.Mode); by.token > latest.token {
		*latest = by
	}
}

// join notes that the grants of another lock are grants of this one.
func (f *Fold) join(l, other *lockFold) {
	for _, mode := range []lockagent.Mode{lockagent.Exclusive, lockagent.Shared} {
		mine, its := l.latest(mode), other.latest(mode)
		for _, h := range l.open {
			f.supersededBy(h, mode, *its)
		}
		for _, h := range other.open {
			f.supersededBy(h, mode, *mine)
		}
		if its.token > mine.token {
			*mine = *its
		}
	}
}

func (l *lockFold) latest(mode lockagent.Mode) *grant {
	if mode == lockagent.Shared {
		return &l.shared
	}
	return &l.exclusive
}

// supersededBy notes that a hold is over if a grant came later that it cannot be beside.
func (f *Fold) supersededBy(h *Hold, mode lockagent.Mode, g grant) {
	if g.token <= h.Token || g.agent == h.Agent || bothShared(mode, h.Mode) {
		return
	}
	f.superseded(h, g.start)
}

// superseded notes that a hold without an end was over by a time on the clock of the store, or by a time that the log
// does not say if that is 0.
func (f *Fold) superseded(h *Hold, by lockagent.StoreTime) {
	known, end := h.Superseded, h.End
	h.Superseded, h.End = true, sooner(h.End, by)
	switch {
	case h.stray: // it ends at once
	case !known:
		f.notify(HoldSuperseded, h)
	case h.End != end:
		f.notify(HoldChanged, h)
	}
}

func bothShared(a, b lockagent.Mode) bool { return a == lockagent.Shared && b == lockagent.Shared }

// conflict reports whether a hold and another one that an agent grants cannot go on side by side.
func conflict(h *Hold, r *events.Record) bool {
	switch {
	case h.HasPermits():
		return h.Tenure == r.Tenure
	case bothShared(h.Mode, r.Mode):
		return false
	case h.Mode != r.Mode && h.Owner == r.Owner && h.Owner != "":
		return false // a session that has the lock in both modes
	}
	return true
}

func (f *Fold) ended(a *folded, l *lockFold, r *events.Record) {
	h := l.find(r)
	switch {
	case r.Count > 0:
		if f.watch != nil {
			f.watch.Partly(l.LockKey, h, r)
		}
		if h != nil {
			h.Grants = r.Count
			h.downgrade(r)
			f.notify(HoldChanged, h)
		}
		return
	case h == nil:
		h = f.newHold(a, l, r)
		h.From, h.Start, h.stray = r.Time.Add(-r.Held), 0, true
		if f.watch == nil {
			f.supersede(l, h)
		}
	default:
		f.close(a, l, h)
	}
	h.Until = r.Time
	f.over(l, h, r)
}

// Downgrades reports whether only shared grants are left of an exclusive hold, after one of its grants has
// ended: the owner goes on reading.
func (h *Hold) Downgrades(r *events.Record) bool {
	if h.Mode == lockagent.Shared || h.shares == 0 {
		return false
	}
	left := h.shares
	if r.Mode == lockagent.Shared {
		left--
	}
	return r.Count == left
}

func (h *Hold) downgrade(r *events.Record) {
	if h.Downgrades(r) {
		h.Mode, h.shares = lockagent.Shared, 0
	} else if r.Mode == lockagent.Shared && h.shares > 0 {
		h.shares--
	}
}

// endKind is how a hold ended of which a record tells. A hold in one record was released.
func endKind(k lockagent.EventKind) lockagent.EventKind {
	if k == lockagent.EventHeld {
		return lockagent.EventReleased
	}
	return k
}

// finish notes what the record of its end says of a hold.
func (h *Hold) finish(r *events.Record) {
	h.Ended, h.Reason, h.Operator, h.Err = endKind(r.Kind), r.Reason, r.Operator, r.Err
	h.Superseded = false
	h.Held, h.Grants = r.Held, 0
	h.Confirmed = max(h.Confirmed, r.Confirmed)
	if r.Lease != 0 {
		h.Lease = r.Lease
	}
	h.End = r.Until
	if r.Returned != 0 && r.Reason == 0 && (h.End == 0 || r.Returned < h.End) {
		h.End = r.Returned
	}
}

// replace ends the holds of an agent for which the log has no end, though by shows that they are
// over.
func (f *Fold) replace(a *folded, l *lockFold, by *events.Record, over func(*Hold) bool) {
	for i := 0; i < len(l.open); i++ {
		h := l.open[i]
		if h.Agent != a.Agent || !over(h) {
			continue
		}
		f.close(a, l, h)
		if f.watch != nil {
			f.watch.Replaced(h, by)
		} else {
			f.lapsed(h, by)
		}
		f.notify(HoldForgotten, h)
		i--
	}
}

// lapsed notes when a hold that has no end was over at the latest.
func (f *Fold) lapsed(h *Hold, by *events.Record) {
	next := by.Returned
	if by.How == lockagent.ByStore {
		next = sooner(next, by.StoreTime)
	}
	f.superseded(h, next)
}

// close takes a hold from those that go on.
func (f *Fold) close(a *folded, l *lockFold, h *Hold) {
	l.open = slices.DeleteFunc(l.open, func(x *Hold) bool { return x == h })
	delete(a.holds, h)
}

// over ends a hold.
func (f *Fold) over(l *lockFold, h *Hold, r *events.Record) {
	if f.watch != nil {
		f.watch.Ended(h, r, h.stray)
	}
	superseded := h.Superseded
	h.finish(r)
	if f.watch == nil && !superseded && r.Fixed && r.Reason == lockagent.LostClosed {
		f.leaveLease(l, h)
	}
	f.notify(HoldEnded, h)
}

// sooner is the earlier of two times that may not be known.
func sooner(a, b lockagent.StoreTime) lockagent.StoreTime {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
