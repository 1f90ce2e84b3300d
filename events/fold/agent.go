package fold

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// alive notes what a sign of life says.
func (a *AgentState) alive(r *events.Record) {
	if r.Time.After(a.Alive) {
		a.Alive = r.Time
	}
	a.Settled = max(a.Settled, r.StoreTime)
	if r.Confirmed >= a.Confirmed && r.Lease != 0 {
		a.Lease = r.Lease
	}
	a.Confirmed = max(a.Confirmed, r.Confirmed)
}

// wasAlive notes what an earlier sign of life says.
func (f *Fold) wasAlive(a *folded, r *events.Record) {
	if r.Epoch == a.Epoch {
		a.alive(r)
		return
	}
	for h := range a.holds {
		if h.Epoch == r.Epoch && h.Gone {
			then := AgentState{Confirmed: r.Confirmed, Lease: r.Lease}
			h.Confirmed, h.Lease = then.Renewed(h)
		}
	}
}

// Renewed is when the store has confirmed the lease of a hold last, at the latest, and for how long. The
// log does not tell of each renewal, so this rests on what the agent tells of all of them. After a pass or a
// hand-off, a hold begins with the lease of its tenure. The next renewal asks for the lease that the hold
// needs.
func (a *AgentState) Renewed(h *Hold) (confirmed lockagent.StoreTime, lease time.Duration) {
	if !h.Renewable() {
		return h.Confirmed, h.Lease
	}
	return max(h.Confirmed, a.Confirmed), max(h.Lease, a.Lease)
}

// Renewable is false of a fixed lease that the store granted in full.
func (h *Hold) Renewable() bool {
	return !h.Fixed || h.How != lockagent.ByStore || h.Lease <= lockagent.PassLease
}

// begins notes that an agent begins another life. It says how many holds of the last one it goes on with.
func (f *Fold) begins(a *folded, r *events.Record) {
	for _, h := range a.sorted() {
		if !h.Gone && f.watch == nil {
			h.Confirmed, h.Lease = a.Renewed(h)
		}
		f.setGone(h, h.Epoch < r.Epoch && r.HasNoHolds())
	}
	f.waitsNoMore(a)
	if f.watch == nil {
		a.Confirmed, a.Lease = 0, 0
	}
}

const (
	// fewAgents is how many agents a Fold remembers without a look whether some are over.
	fewAgents = 16384

	// longSilent is how long a Fold remembers an agent that has stopped or is silent, by the clock of the stream: what
	// it has told may be read again.
	longSilent = time.Hour
)

// hear notes when the stream took a record.
func (f *Fold) hear(a *folded, r *events.Record) {
	a.heard, f.heard, f.position = r.Stored, r.Stored, r.Position
	if r.Kind == lockagent.EventAlive {
		f.alive = r.Stored
	}
}

// longSilent reports whether an agent has been silent for longSilent. Of an agent that
// stopped, this is counted up to the last record of any agent. Of others it is counted up to the last sign of life of
// any agent: if the log is read without signs of life, an agent that runs may be silent, too.
func (f *Fold) longSilent(a *folded) bool {
	now := f.alive
	if a.Stopped {
		now = f.heard
	}
	return !a.heard.IsZero() && now.Sub(a.heard) > longSilent
}

// forgetAgents forgets the agents that hold nothing, wait for nothing, and have been silent for longSilent.
func (f *Fold) forgetAgents() {
	for id, a := range f.agents {
		if !f.longSilent(a) {
			continue
		}
		for _, h := range a.sorted() {
			if l := a.holds[h]; h.Superseded { // its end will not come
				f.close(a, l, h)
				f.notify(HoldForgotten, h)
				f.tidy(l)
			}
		}
		if len(a.holds)+len(a.waits) == 0 {
			delete(f.agents, id)
		}
	}
	f.most = max(fewAgents, 2*len(f.agents))
}

// ForgetSilent forgets the agents of which the stream has taken nothing since a time. It forgets all that they hold and
// wait for as well, because an agent that has crashed never tells that this is over. Of other agents it forgets the
// holds which nothing has told of since then: the log lacks their end. An agent tells every ten minutes that a hold
// goes on, so the time must be longer ago. ForgetSilent tells no changes.
func (f *Fold) ForgetSilent(since time.Time) {
	for id, a := range f.agents {
		if a.heard.Before(since) {
			f.waitsNoMore(a)
			f.ForgetAgent(id)
			continue
		}
		f.Forget(id, func(h *Hold) bool { return h.told.Before(since) })
	}
}

// waitsNoMore forgets the requests of an agent. No other process goes on with those.
func (f *Fold) waitsNoMore(a *folded) {
	for l := range a.waits {
		for i := range l.waiters {
			if l.waiters[i].Agent == a.Agent {
				f.tellRequest(RequestOver, l, &l.waiters[i])
			}
		}
		l.waiters = slices.DeleteFunc(l.waiters, func(w Waiter) bool { return w.Agent == a.Agent })
		if l != f.latest {
			f.tidy(l)
		}
	}
	a.waits = nil
}

// setAllGone marks the holds of an agent whose log has ended, or goes on after all.
func (f *Fold) setAllGone(a *folded, gone bool) {
	for _, h := range a.sorted() {
		f.setGone(h, gone)
	}
}

// setGone marks a hold whose agent is gone, or goes on after all.
func (f *Fold) setGone(h *Hold, gone bool) {
	if h.Gone != gone {
		h.Gone = gone
		f.notify(HoldChanged, h)
	}
}

// leaveLease notes that a hold has ended, but its lease stays in the store: no record tells of its return so far. Now
// and then it forgets such leases that are over.
func (f *Fold) leaveLease(l *lockFold, h *Hold) {
	over := *h
	over.Left = true
	l.left = append(l.left, &over)
	if f.leases++; f.leases < mostIdle {
		return
	}
	f.leases = 0
	for _, l := range f.locks {
		l.left = slices.DeleteFunc(l.left, func(o *Hold) bool { return o.Store == h.Store && o.LeaseEnd() < h.End })
		if l != f.latest {
			f.tidy(l)
		}
	}
}

// sorted returns the holds of an agent in the order of their records.
func (a *folded) sorted() []*Hold {
	return slices.SortedFunc(maps.Keys(a.holds), func(x, y *Hold) int {
		return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), cmp.Compare(x.Seq, y.Seq))
	})
}
