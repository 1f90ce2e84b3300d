package fold

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// holding applies a record which tells that a hold goes on. If the log does not have its grant, the record takes the
// place of that: it has the time of the store at which the hold began.
func (f *Fold) holding(a *folded, l *lockFold, r *events.Record) {
	if h := l.named(r); h != nil {
		f.holdsOn(h, r)
		return
	}
	f.replace(a, l, r, func(h *Hold) bool { return conflict(h, r) })
	h := f.newHold(a, l, r)
	h.From = r.Time.Add(-r.Held)
	f.begun(a, l, h)
	if f.watch != nil {
		f.watch.Appeared(h, r)
	}
	l.open = append(l.open, h)
	a.holds[h] = l
}

// holdsOn applies it to a hold that is known. Most often it says nothing new.
func (f *Fold) holdsOn(h *Hold, r *events.Record) {
	if f.watch != nil {
		f.watch.Confirmed(h, r)
	}
	changed := h.Gone || h.Grants != r.Count || h.Mode != r.Mode || h.Lease != r.Lease || h.Fixed != r.Fixed
	if h.Mode != r.Mode && r.Mode == lockagent.Shared {
		h.shares = 0 // all of its grants are shared now
	}
	h.Gone, h.Grants, h.Mode, h.Lease, h.Fixed = false, r.Count, r.Mode, r.Lease, r.Fixed
	h.Confirmed, h.told = max(h.Confirmed, r.Confirmed), r.Stored
	if changed {
		f.notify(HoldChanged, h)
	}
}
