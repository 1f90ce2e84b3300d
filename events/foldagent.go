package events

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// alive notes what a sign of life says.
func (a *AgentState) alive(r *Record) {
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
func (f *Fold) wasAlive(a *folded, r *Record) {
	if r.Epoch == a.Epoch {
		a.alive(r)
		return
	}
	for h := range a.holds {
		if h.Epoch == r.Epoch && h.Gone {
			then := AgentState{Confirmed: r.Confirmed, Lease: r.Lease}
			h.Confirmed, h.Lease = then.renewed(h)
		}
	}
}

// renewed is when the store has confirmed the lease of a hold last, at the latest, and for how long. The
// log does not tell of each renewal, so this rests on what the agent tells of all of them. A hold
// by a pass or a hand-off begins with the lease that its tenure has, and is renewed to the one that it needs.
func (a *AgentState) renewed(h *Hold) (confirmed lockagent.StoreTime, lease time.Duration) {
	if !h.renewable() {
		return h.Confirmed, h.Lease
	}
	return max(h.Confirmed, a.Confirmed), max(h.Lease, a.Lease)
}

// renewable is false of a fixed lease that the store granted in full.
func (h *Hold) renewable() bool {
	return !h.Fixed || h.How != lockagent.ByStore || h.Lease <= lockagent.PassLease
}

// begins notes that an agent begins another life. It says how many holds of the last one it goes on with.
func (f *Fold) begins(a *folded, r *Record) {
	for h := range a.holds {
		if !h.Gone && f.watch == nil {
			h.Confirmed, h.Lease = a.renewed(h)
		}
		h.Gone = h.Epoch < r.Epoch && r.Count == 0
	}
	f.waitsNoMore(a)
	if f.watch == nil {
		a.Confirmed, a.Lease = 0, 0
	}
}

// mostStopped is how many agents a Fold remembers that have stopped: what they have told may be read
// again.
const mostStopped = 8192

// forgetOne forgets an agent for one that has stopped.
func (f *Fold) forgetOne(a *folded) {
	if f.watch != nil || len(a.holds) > 0 {
		return
	}
	f.stopped = append(f.stopped, a.Agent)
	if len(f.stopped) <= mostStopped {
		return
	}
	id := f.stopped[0]
	f.stopped = f.stopped[1:]
	if old := f.agents[id]; old != nil && old.Stopped && len(old.holds) == 0 && old != a {
		delete(f.agents, id)
	}
}

// waitsNoMore forgets the requests of an agent. No other process goes on with those.
func (f *Fold) waitsNoMore(a *folded) {
	for l := range a.waits {
		l.waiters = slices.DeleteFunc(l.waiters, func(w Waiter) bool { return w.Agent == a.Agent })
		if l != f.latest {
			f.tidy(l)
		}
	}
	a.waits = nil
}

// left marks the holds of an agent whose log has ended, or goes on.
func (f *Fold) left(a *folded, gone bool) {
	for h := range a.holds {
		h.Gone = gone
	}
}

// leave notes that a hold left its lease in the store: no record tells of its return so far.
func (f *Fold) leave(l *lockFold, h *Hold) {
	kept := *h
	kept.Left = true
	l.left = append(l.left, &kept)
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
