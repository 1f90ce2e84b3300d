package memstore

import (
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// lock is what the memory knows of a name. The zero lock is free.
type lock struct {
	kind    lockagent.LockKind // as which the name was used last
	holders []holder           // one, or several that share the lock
	latch   latch
	value   bool        // the name has a value that is no lock
	queue   []place     // the tenures that wait, the first one first
	turn    turn        // of the outsiders
	fence   fence       // of a fenced lock
	places  []fairPlace // at a fair lock, in place of the queue

	permits *semaphore // nil unless the name is in use as a semaphore
}

// expire ends the tenures whose leases have run out.
func (l *lock) expire(now time.Time) {
	l.holders = slices.DeleteFunc(l.holders, func(h holder) bool { return !h.endless() && !now.Before(h.expires) })
}

// inUse reports whether somebody holds the lock or waits for it, the latch is closed, or the semaphore
// exists.
func (l *lock) inUse() bool {
	return l.held() || len(l.queue)+len(l.places) > 0 || l.latch.count > 0 || l.permits != nil && l.permits.exists
}

func (l *lock) held() bool { return len(l.holders) > 0 }

// heldBy is what a tenure has of the lock, or nil. No tenure has a lock that another program
// holds: the zero Tenure is none.
func (l *lock) heldBy(tenure lockagent.Tenure) *holder {
	for i := range l.holders {
		if l.holders[i].tenure == tenure {
			return &l.holders[i]
		}
	}
	return nil
}

// begin gives a tenure the lock, or a share of it.
func (l *lock) begin(p place, now time.Time, lease time.Duration) {
	h := holder{place: p, count: 1, expires: now}
	h.extend(now, lease)
	l.holders = append(l.holders, h)
}

// remaining is what is left of the lease that ends last, or negative if that has no end.
func (l *lock) remaining(now time.Time) (left time.Duration) {
	for i := range l.holders {
		if l.holders[i].endless() {
			return -1
		}
		left = max(left, l.holders[i].expires.Sub(now))
	}
	return left
}

// holder has a lock, or shares it.
type holder struct {
	place
	foreign string // in place of a tenure: the text of another program
	count   int
	expires time.Time // zero if the lease has no end
	rests   bool      // the tenure may rest
}

// String is the holder as the store writes it.
func (h *holder) String() string {
	if h.foreign != "" {
		return h.foreign
	}
	return h.tenure.String()
}

func (h *holder) endless() bool { return h.expires.IsZero() }

// extend starts the lease anew, in whole milliseconds, unless that would shorten it.
func (h *holder) extend(now time.Time, lease time.Duration) {
	lease = (lease + time.Millisecond - 1).Truncate(time.Millisecond)
	if expires := now.Add(lease); expires.After(h.expires) {
		h.expires = expires
	}
}
