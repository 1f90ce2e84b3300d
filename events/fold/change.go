package fold

// ChangeKind is what a [Change] tells. The zero ChangeKind is none.
type ChangeKind uint8

const (
	// HoldGranted is told when a hold begins, or when the log tells that one goes on of which it does not have the
	// grant.
	HoldGranted ChangeKind = iota + 1

	// HoldChanged is told when a hold goes on with another number of grants, another mode, another lease or at another
	// [LockKey], or when End, Uncertain or Gone is another one. What a sign of life tells of the leases of an agent is
	// not told for each of its holds.
	HoldChanged

	// HoldSuperseded is told when another grant shows that a hold is over. Its end may still come, or the
	// hold is forgotten.
	HoldSuperseded

	// HoldEnded is told when the log has the end of a hold. A hold of which the log has only the end was not granted
	// before.
	HoldEnded

	// HoldForgotten is told when the log will not have the end of a hold that is superseded.
	HoldForgotten

	// RequestWaits is told when a request begins to wait, when it finds another holder, and when it waits at another
	// [LockKey].
	RequestWaits

	// RequestOver is told when a request waits no longer. If it was granted, the hold is told next.
	RequestOver
)

// String is the kind in one word or two.
func (k ChangeKind) String() string {
	switch k {
	case HoldGranted:
		return "granted"
	case HoldChanged:
		return "changed"
	case HoldSuperseded:
		return "superseded"
	case HoldEnded:
		return "ended"
	case HoldForgotten:
		return "forgotten"
	case RequestWaits:
		return "waits"
	case RequestOver:
		return "waits no longer"
	}
	return "nothing"
}

// Change is one thing that a record has changed in a [Fold]. Each hold is granted first, unless the log has only its
// end. It is superseded at most once, and then it ends or is forgotten.
type Change struct {
	Kind ChangeKind

	// Lock has the hold or the request.
	Lock LockKey

	// Hold is the hold as it is after the whole record, or nil if a request has changed. It must not be changed.
	Hold *Hold

	// Waiter is the request if Hold is nil.
	Waiter Waiter
}

// over reports whether the Fold does not know the hold any more.
func (c *Change) over() bool { return c.Kind == HoldEnded || c.Kind == HoldForgotten }

// notify notes what has changed about a hold. An audit has a watcher instead.
func (f *Fold) notify(kind ChangeKind, h *Hold) {
	switch {
	case f.watch == nil:
		f.changes = append(f.changes, Change{Kind: kind, Lock: h.LockKey, Hold: h})
	case kind == HoldEnded || kind == HoldForgotten:
		f.spare = append(f.spare, h)
	}
}

// tellRequest notes what has changed about a request.
func (f *Fold) tellRequest(kind ChangeKind, l *lockFold, w *Waiter) {
	if f.watch == nil {
		f.changes = append(f.changes, Change{Kind: kind, Lock: l.LockKey, Waiter: f.waiter(l, w)})
	}
}

// recycle has the holds that are over used again, and forgets what has changed.
func (f *Fold) recycle() {
	for i := range f.changes {
		if c := &f.changes[i]; c.over() {
			f.spare = append(f.spare, c.Hold)
		}
	}
	clear(f.changes)
	f.changes = f.changes[:0]
}
