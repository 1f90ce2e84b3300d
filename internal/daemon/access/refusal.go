package access

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// Forbidden says what the rules do not allow. It matches [refusal.ErrForbidden].
type Forbidden struct {
	UID     uint32
	Right   Right
	Lock    string // empty for what has no name
	Rule    int    // the rule that does not allow it, of which the first is 1, or 0 if no rule is for it
	NoRules bool   // there are none at all
}

// Error says nothing of the rules: it is for the one who was refused, too.
func (e *Forbidden) Error() string {
	text := fmt.Sprintf("%v: user %d has no right to %s", refusal.ErrForbidden, e.UID, e.Right)
	if e.Lock != "" {
		text += fmt.Sprintf(" %.64q", e.Lock)
	}
	if e.NoRules {
		text += "; without rules the daemon is for its own user and for root"
	}
	return text
}

// Unwrap returns [refusal.ErrForbidden].
func (e *Forbidden) Unwrap() error { return refusal.ErrForbidden }

// Reasons of refusals. That of a QuotaError is what there is too much of.
const (
	notAllowed  = "rights"
	nameTooLong = "name_length"
	notOwner    = "secret"
)

const (
	// tellEvery is the time between two refusals of one user for one reason that are told of.
	tellEvery = time.Minute
	// mostSeen bounds how many users and reasons are told apart. All that come later are others.
	mostSeen = 1024
)

// refusals counts refusals.
type refusals struct {
	now  func() time.Time
	tell func(uint32, error, uint64)

	mu   sync.Mutex
	seen map[refusalKey]*refusalState // guarded by mu
}

type refusalKey struct {
	uid    uint32
	others bool // uid is 0, and it is for all users who came too late to have keys
	reason string
}

type refusalState struct {
	count, unsaid uint64
	told          time.Time
}

// refuse counts err, tells of it if it is time, and returns it.
func (r *refusals) refuse(uid uint32, reason string, err error) error {
	if unsaid, told := r.count(uid, reason); told {
		r.tell(uid, err, unsaid)
	}
	return err
}

func (r *refusals) count(uid uint32, reason string) (unsaid uint64, told bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusalKey{uid: uid, reason: reason}
	s := r.seen[key]
	if s == nil && len(r.seen) >= mostSeen {
		key = refusalKey{others: true, reason: reason}
		s = r.seen[key]
	}
	if s == nil {
		s = &refusalState{}
		r.seen[key] = s
	}
	s.count++
	if !s.told.IsZero() && now.Sub(s.told) < tellEvery {
		s.unsaid++
		return 0, false
	}
	unsaid, s.told, s.unsaid = s.unsaid, now, 0
	return unsaid, true
}

// RefusalCount is how often a user was refused something for one reason.
type RefusalCount struct {
	UID    uint32
	Others bool   // UID is 0, and it is about all users beyond the first thousand or so
	Reason string // "rights", "name_length", "secret", or what there was too much of, such as "claims"
	Count  uint64
}

// Refusals returns the counts of all refusals, in order.
func (a *Access) Refusals() []RefusalCount {
	a.refusals.mu.Lock()
	defer a.refusals.mu.Unlock()
	var all []RefusalCount
	for key, s := range a.refusals.seen {
		all = append(all, RefusalCount{key.uid, key.others, key.reason, s.count})
	}
	slices.SortFunc(all, func(a, b RefusalCount) int {
		switch {
		case a.Others && !b.Others:
			return 1
		case b.Others && !a.Others:
			return -1
		}
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
