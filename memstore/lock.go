package memstore

import (
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

// lock is what the memory knows of a name.
type lock struct {
	holder *holder         // nil if the lock is free
	queue  []place         // who waits, the longest first
	last   lockagent.Token // the greatest token that was ever reserved
	value  bool            // something else than a lock is here
	memos  int             // how many memos there are of this lock
}

// expire frees the lock if its lease has run out.
func (l *lock) expire(now time.Time) {
	if l.holder != nil && !l.holder.endless() && !now.Before(l.holder.expires) {
		l.holder = nil
	}
}

// heldBy reports whether a tenure has the lock. No tenure has a lock that
// another program holds: the zero Tenure is none.
func (l *lock) heldBy(tenure lockagent.Tenure) bool {
	return l.holder != nil && l.holder.tenure == tenure
}

// reserve takes n tokens and returns the first of them. It takes none and
// returns an [*lockagent.OptionError] if there are not that many left.
func (l *lock) reserve(n int, floor lockagent.Token, at lockagent.StoreTime) (lockagent.Token, error) {
	first := max(l.last, floor) + 1
	if at > 0 { // as long as the clock is not set before 1970
		first = max(first, lockagent.Token(at))
	}
	if first > lockagent.MaxToken || uint64(n) > uint64(lockagent.MaxToken-first)+1 {
		return 0, &lockagent.OptionError{Option: "tokens", Reason: fmt.Sprintf("%d from %d on would pass the greatest token, %d; ask for fewer, with a floor that was a token", n, first, lockagent.MaxToken)}
	}
	l.last = first + lockagent.Token(n) - 1
	return first, nil
}

// holder is who has a lock.
type holder struct {
	tenure  lockagent.Tenure
	foreign string // instead of a tenure, what another program put there
	count   int
	expires time.Time // zero if it does not
}

// String is the holder as the store writes it.
func (h *holder) String() string {
	if h.foreign != "" {
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

// extend starts the lease anew, in whole milliseconds, unless that would shorten
// it.
func (h *holder) extend(now time.Time, lease time.Duration) {
	lease = (lease + time.Millisecond - 1).Truncate(time.Millisecond)
	if expires := now.Add(lease); expires.After(h.expires) {
		h.expires = expires
	}
}
