package memstore

import (
	"time"

	"github.com/lockagent/lockagent"
)

// lock is what the memory knows of a name. The zero lock is free.
type lock struct {
	kind   lockagent.LockKind // as which the name is in use, if it is; empty if nobody can tell
	holder holder
	latch  latch
	value  bool               // the name has a value that is no lock
	queue  []lockagent.Tenure // the tenures that wait, the first one first
	turn   turn               // of the outsiders
	fence  fence              // of a fenced lock
	places []fairPlace        // at a fair lock, in place of the queue

	permits *semaphore // nil unless the name is in use as a semaphore
}

// expire frees the lock if its lease has run out.
func (l *lock) expire(now time.Time) {
	if l.held() && !l.holder.endless() && !now.Before(l.holder.expires) {
		l.holder = holder{}
	}
}

// inUse reports whether somebody holds the lock or waits for it, the latch is closed, or the semaphore
// exists.
func (l *lock) inUse() bool {
	return l.held() || len(l.queue)+len(l.places) > 0 || l.latch.count > 0 || l.permits != nil && l.permits.exists
}

func (l *lock) held() bool { return l.holder.count > 0 }

// heldBy reports whether a tenure has the lock. No tenure has a lock that another
// program holds: the zero Tenure is none.
func (l *lock) heldBy(tenure lockagent.Tenure) bool { return l.held() && l.holder.tenure == tenure }

// holder has a lock. The zero holder is nobody.
type holder struct {
	tenure  lockagent.Tenure
	foreign string // in place of a tenure: the text of another program
	count   int
	expires time.Time // zero if the lease has no end
}

// String is the holder as the store writes it.
func (h *holder) String() string {
	switch {
	case h.count == 0:
		return ""
	case h.foreign != "":
		return h.foreign
	}
	return h.tenure.String()
}

func (h *holder) endless() bool { return h.expires.IsZero() }

// remaining is what is left of the lease, or negative if that has no end.
func (h *holder) remaining(now time.Time) time.Duration {
	if h.endless() {
		return -1
	}
	return h.expires.Sub(now)
}

// extend starts the lease anew, in whole milliseconds, unless that would shorten it.
func (h *holder) extend(now time.Time, lease time.Duration) {
	lease = (lease + time.Millisecond - 1).Truncate(time.Millisecond)
	if expires := now.Add(lease); expires.After(h.expires) {
		h.expires = expires
	}
}
