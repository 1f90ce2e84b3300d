package actor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// JournalFold makes an [AgentSnapshot] of what a [Journal] gets. The zero JournalFold is that of an empty journal. It is not
// safe for concurrent use.
type JournalFold struct {
	agent   lockagent.AgentID
	first   uint64
	last    uint64
	taken   Stamp
	locks   map[lockagent.Name]*foldedLock
	granted uint64 // counts the grants, which stay in their order
}

// foldedLock is what is known of one lock.
type foldedLock struct {
	kind     lockagent.LockKind
	floor    lockagent.Token
	tenures  few[uint64, lockstate.SavedTenure]
	requests few[lockstate.RequestID, foldedRequest]
}

// foldedRequest is a request that waits or holds.
type foldedRequest struct {
	WaitingRequest
	tenure uint64 // 0 if it waits
	order  uint64 // among the grants

	token                      lockagent.Token
	since, fixed, own, claimBy lockstate.Instant
}

// skipped is how many numbers an agent may have used since the last entry. A number must not be used twice. The next agent takes all
// of them for its own, so they are few beside those among which the copy of an agent begins: see firstNumber.
const skipped = 1 << 24

// Begin is [Journal.Begin].
func (f *JournalFold) Begin(n AgentSnapshot) {
	*f = JournalFold{agent: n.Agent, first: n.First, last: n.Last, taken: n.Taken, locks: make(map[lockagent.Name]*foldedLock)}
	for e := range n.Entries {
		f.Write(e)
	}
}

// Write is [Journal.Write]. It passes over changes of what it does not know.
func (f *JournalFold) Write(e *JournalEntry) {
	f.last = max(f.last, e.Last)
	if e.Stamp != (Stamp{}) {
		f.taken = e.Stamp
	}
	if len(e.Changes) == 0 {
		return
	}
	l := f.locks[e.Lock]
	if l == nil {
		if f.locks == nil {
			f.locks = make(map[lockagent.Name]*foldedLock)
		}
		l = new(foldedLock)
		f.locks[e.Lock] = l
	}
	l.kind = e.Kind
	for i := range e.Changes {
		f.change(l, &e.Changes[i])
	}
	if l.floor == 0 && l.tenures.len() == 0 && l.requests.len() == 0 {
		delete(f.locks, e.Lock)
	}
}

func (f *JournalFold) change(l *foldedLock, c *Change) {
	switch c.Kind {
	case LockForgotten:
		*l = foldedLock{kind: l.kind}
	case FloorRose:
		l.floor = c.Token
	case TenureChanged:
		if t := l.tenures.get(c.Tenure.Number); t != nil {
			*t = c.Tenure
		} else {
			t := c.Tenure
			l.tenures.put(t.Number, &t)
		}
	case TenureOver:
		l.tenures.take(c.Tenure.Number)
	case RequestWaits:
		l.requests.take(c.Request.Request.ID)
		l.requests.put(c.Request.Request.ID, &foldedRequest{WaitingRequest: c.Request})
	case RequestOver:
		l.requests.take(c.ID)
	}
	r := l.requests.get(c.ID)
	if r == nil {
		return
	}
	switch c.Kind {
	case GrantMade:
		f.granted++
		r.tenure, r.order, r.token, r.since, r.fixed, r.claimBy = c.Tenure.Number, f.granted, c.Token, c.Since, c.Fixed, c.ClaimBy
		r.Until = 0
	case GrantReceived:
		r.claimBy = 0
	case LeaseExtended, LeaseKept:
		r.fixed, r.own = c.Fixed, c.Own
	}
}

// Snapshot is what [Resume] needs to go on from the journal. It leaves out numbers that the agent may have used since the last
// entry.
func (f *JournalFold) Snapshot() AgentSnapshot {
	n := f.Now()
	n.Last += skipped
	return n
}

// Head is the snapshot without the locks, and without what Snapshot leaves out. A journal that begins with it and the Entries
// takes the place of all entries so far.
func (f *JournalFold) Head() AgentSnapshot {
	return AgentSnapshot{Format: snapshotFormat, Agent: f.agent, First: f.first, Last: f.last, Taken: f.taken}
}

// Entries iterates over entries that make all locks of nothing. An entry is valid until the next one.
func (f *JournalFold) Entries(yield func(*JournalEntry) bool) {
	var e JournalEntry
	for name, l := range f.locks {
		n := l.snapshot(name)
		e = JournalEntry{Lock: name, Kind: l.kind, Last: f.last, Changes: n.changes(e.Changes[:0])}
		if !yield(&e) {
			return
		}
	}
}

// Now is the present snapshot, with all numbers as the last entry had them.
func (f *JournalFold) Now() AgentSnapshot {
	n := f.Head()
	n.Locks = make([]LockSnapshot, 0, len(f.locks))
	for name, l := range f.locks {
		n.Locks = append(n.Locks, l.snapshot(name))
	}
	slices.SortFunc(n.Locks, byName)
	return n
}

// byName compares the names of two locks.
func byName(x, y LockSnapshot) int { return strings.Compare(string(x.Name), string(y.Name)) }

func (l *foldedLock) snapshot(name lockagent.Name) LockSnapshot {
	n := LockSnapshot{Name: name, Kind: l.kind, Snapshot: lockstate.Snapshot{Floor: l.floor}}
	if n.Kind == lockagent.PlainLock {
		n.Kind = ""
	}
	requests := make([]*foldedRequest, 0, l.requests.len())
	for r := range l.requests.all {
		requests = append(requests, r)
	}
	slices.SortFunc(requests, func(x, y *foldedRequest) int {
		return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.Request.ID, y.Request.ID))
	})
	var grants few[uint64, []lockstate.HeldGrant]
	for _, r := range requests {
		n.note(r.Request.ID, r.Tag)
		if r.tenure != 0 {
			of := grants.get(r.tenure)
			if of == nil {
				of = new([]lockstate.HeldGrant)
				grants.put(r.tenure, of)
			}
			*of = append(*of, lockstate.HeldGrant{Request: r.Request, Token: r.token, Since: r.since, Fixed: r.fixed, Own: r.own, ClaimBy: r.claimBy})
			continue
		}
		n.Waiting = append(n.Waiting, r.WaitingRequest.WaitingRequest)
		if r.Until != 0 {
			n.Bounds = append(n.Bounds, WaitBound{r.Request.ID, r.Until})
		}
	}
	for t := range l.tenures.all {
		saved := *t
		if of := grants.get(t.Number); of != nil {
			saved.Grants = *of
		}
		n.Tenures = append(n.Tenures, saved)
	}
	slices.SortFunc(n.Tenures, func(x, y lockstate.SavedTenure) int {
		return cmp.Or(cmp.Compare(x.Part, y.Part), cmp.Compare(x.Number, y.Number))
	})
	return n
}

// changes appends the changes that make the snapshot of nothing.
func (n *LockSnapshot) changes(to []Change) []Change {
	if n.Floor != 0 {
		to = append(to, Change{Kind: FloorRose, Token: n.Floor})
	}
	all := n.noted()
	waits := func(r lockstate.WaitingRequest) {
		x := all[r.Request.ID]
		to = append(to, Change{Kind: RequestWaits, Request: WaitingRequest{WaitingRequest: r, Tag: x.tag, Until: x.until}})
	}
	for _, r := range n.Waiting {
		waits(r)
	}
	for i := range n.Tenures {
		t := n.Tenures[i]
		grants := t.Grants
		t.Grants = nil
		to = append(to, Change{Kind: TenureChanged, Tenure: t})
		for j := range grants {
			g := &grants[j]
			waits(lockstate.WaitingRequest{Request: g.Request, Part: t.Part})
			to = append(to, Change{
				Kind: GrantMade, ID: g.Request.ID, Tenure: lockstate.SavedTenure{Number: t.Number}, Token: g.Token,
				Since: g.Since, Fixed: g.Fixed, ClaimBy: g.ClaimBy,
			})
			if g.Own != 0 {
				to = append(to, Change{Kind: LeaseKept, ID: g.Request.ID, Own: g.Own})
			}
		}
	}
	return to
}

// Entries iterates over entries that make the locks of the snapshot of nothing.
func (s *AgentSnapshot) Entries(yield func(*JournalEntry) bool) {
	for i := range s.Locks {
		n := &s.Locks[i]
		if !yield(&JournalEntry{Lock: n.Name, Kind: n.Kind.OrPlain(), Last: s.Last, Changes: n.changes(nil)}) {
			return
		}
	}
}
