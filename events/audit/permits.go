package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// permitsOf is how many permits a hold has.
func permitsOf(h *fold.Hold) int { return max(1, h.Permits) }

// maxSemaphores bounds the semaphores whose numbers an audit follows while nobody has permits of them.
const maxSemaphores = 10_000

// permitChange is what an agent did to a semaphore.
type permitChange struct {
	At     lockagent.StoreTime `json:"at"`
	Op     lockagent.PermitsOp `json:"op"`
	N      int                 `json:"n,omitempty"`
	Permit lockagent.PermitID  `json:"permit,omitempty"`
}

// permitBack is a permit that was given back by its id.
type permitBack struct {
	Permit lockagent.PermitID  `json:"permit"`
	At     lockagent.StoreTime `json:"at"` // the first time that the log tells of
}

// permitNumber is how many permits a semaphore has at most, as far as the log tells: its changes, and what the
// store told of its grants.
type permitNumber struct {
	Known bool                `json:"known,omitempty"`
	N     int                 `json:"n,omitempty"`
	Seen  lockagent.StoreTime `json:"seen,omitempty"` // the last grant that told of it

	// Since is when something told N that has all earlier changes: a change that set the number, or a grant that told of
	// more permits than the log explains.
	Since lockagent.StoreTime `json:"since,omitempty"`

	// Unsure is up to when it may be lower, if no grant has told since: by a change that the store has not answered, or
	// because somebody has set the store's clock, and nobody knows which change came first.
	Unsure lockagent.StoreTime `json:"unsure,omitempty"`
}

// Changed notes what an agent did to a semaphore.
func (a follower) Changed(key fold.LockKey, r *events.Record) {
	if !key.HasPermits() {
		return
	}
	lock, c := a.lock(key), permitChange{r.StoreTime, r.Op, r.Permits, r.Permit}
	if c.At == 0 {
		a.unanswered(lock, &c, r.Stored)
		return
	}
	lock.Changes = append(lock.Changes, c)
	switch c.Op {
	case lockagent.DeletePermits:
		lock.Breaks = append(lock.Breaks, lockBreak{At: c.At, Deleted: true})
	case lockagent.TrySetPermits: // it was gone
		lock.Breaks = append(lock.Breaks, lockBreak{At: c.At, Since: c.At, Perhaps: true})
	}
}

// changing bounds the time from a change of a semaphore to its record: an agent makes the call again for half a minute.
const changing = 30*time.Second + delay

// unanswered notes a change of which nobody knows whether it was made.
func (a *Audit) unanswered(lock *lockLog, c *permitChange, stored time.Time) {
	l := a.current
	from, to := max(0, l.Told.Add(-changing)), later(l.Told, aliveLag)
	if len(l.Open) > 0 || !stored.IsZero() { // its signs of life may be missing, or late
		to = a.home(l).at(stored)
	}
	if c.Op == lockagent.DeletePermits {
		lock.Breaks = append(lock.Breaks, lockBreak{At: to, Since: from, Perhaps: true})
	}
	if c.lowers() || c.Op == lockagent.SetPermits || c.Op == lockagent.TrySetPermits {
		lock.Number.Unsure = max(lock.Number.Unsure, to)
	}
}

// perhapsGone reports whether a tenure may have been deleted when others were granted permits. It was not if the store
// has confirmed it since, or has taken it back.
func (l *lockLog) perhapsGone(x, s *span) bool {
	return slices.ContainsFunc(l.Breaks, func(b lockBreak) bool {
		return b.Perhaps && x.Start < b.At && b.Since <= s.Start && x.Confirmed < b.At && (!x.Over || x.Denied)
	})
}

// mostWaiting bounds the grants of a semaphore that wait for the ends of other holds.
const mostWaiting = 1000

// judgePermits judges what began on a semaphore before a time. All that agents did up to there is known. It returns up
// to when all is judged: what one grant found in use may not be known yet.
func (a *Audit) judgePermits(store *storeLog, lock *lockLog, until lockagent.StoreTime) lockagent.StoreTime {
	a.numberPermits(lock, until)
	if !slices.ContainsFunc(lock.Spans, func(s *span) bool { return !s.Counted }) {
		return until
	}
	type ending struct {
		at      lockagent.StoreTime
		permits int
	}
	var ends []ending
	for _, s := range lock.Spans {
		if at := a.inUseUntil(s); at > s.Start {
			ends = append(ends, ending{at, s.Permits})
		}
	}
	slices.SortFunc(ends, func(x, y ending) int { return cmp.Compare(x.at, y.at) })
	judged, waiting, most := until, 0, 0 // the most permits that may be in use
	for i, s := range lock.Spans {
		if s.Start >= until {
			break
		}
		if s.Start == 0 {
			continue // said of that one
		}
		for len(ends) > 0 && ends[0].at <= s.Start {
			most -= ends[0].permits
			ends = ends[1:]
		}
		if !s.Counted {
			s.Counted = most+s.Permits <= s.Limit ||
				a.countPermits(store, lock, lock.Spans[:i], s, until, waiting == mostWaiting)
		}
		if !s.Counted {
			judged = min(judged, s.Start)
			waiting++
		}
		if a.inUseUntil(s) > s.Start {
			most += s.Permits
		}
	}
	return judged
}

// inUseUntil is a time from which the permits of a tenure are not in use for certain.
func (a *Audit) inUseUntil(s *span) lockagent.StoreTime {
	if end, over := a.over(s); s.Start == 0 {
		return 0
	} else if over && end != 0 {
		return s.overlaps(end)
	}
	return endOfTime
}

// numberPermits finds out for each grant how many permits there were.
func (a *Audit) numberPermits(lock *lockLog, until lockagent.StoreTime) {
	// A change and a grant may have one time. What makes permits more comes first then, and what makes them
	// fewer last, because a grant must not seem to be one too many.
	slices.SortStableFunc(lock.Changes, func(x, y permitChange) int {
		if c := cmp.Compare(x.At, y.At); c != 0 || x.lowers() == y.lowers() {
			return c
		} else if x.lowers() {
			return 1
		}
		return -1
	})
	next := 0
	apply := func(before lockagent.StoreTime) {
		for ; next < len(lock.Changes); next++ {
			c := &lock.Changes[next]
			if c.At >= until || c.At > before || c.At == before && c.lowers() {
				return
			}
			lock.apply(c, a.late || a.lapsed)
		}
	}
	for _, s := range lock.Spans {
		if s.Start >= until {
			break
		}
		if !s.Numbered && s.Start != 0 {
			apply(s.Start)
			a.numberGrant(lock, s)
		}
	}
	apply(until)
	lock.Changes = slices.Delete(lock.Changes, 0, next)
}

func (c *permitChange) lowers() bool {
	return c.Op == lockagent.DrainPermits || c.Op == lockagent.DeletePermits || c.Op == lockagent.AddPermits && c.N < 0
}

// apply follows one change. If the log tells of it late, the number that is known may have it already. If the beginning
// of the log is missing, the log may not tell how many permits there were before.
func (l *lockLog) apply(c *permitChange, late bool) {
	n := &l.Number
	if c.Op == lockagent.ReleasePermit {
		for _, s := range l.Spans {
			gone := slices.ContainsFunc(s.Back, func(b permitBack) bool { return b.Permit == c.Permit })
			if s.Start <= c.At && s.hasPermit(c.Permit) && !gone {
				s.Back = append(s.Back, permitBack{c.Permit, c.At})
			}
		}
		return
	}
	switch exact := l.Kind == lockagent.Permits; {
	case exact && c.At < n.Seen, c.At < n.Since:
		return
	case late && !n.Known && (c.Op == lockagent.AddPermits || c.Op == lockagent.DrainPermits):
		return
	}
	n.Known = true
	switch c.Op {
	case lockagent.TrySetPermits, lockagent.SetPermits:
		n.N, n.Since = c.N, c.At
	case lockagent.AddPermits:
		n.N += c.N
	case lockagent.DrainPermits:
		n.N -= c.N
	case lockagent.DeletePermits:
		n.N, n.Since = 0, c.At
	}
}

// hasPermit reports whether a permit is one of a tenure.
func (s *span) hasPermit(id lockagent.PermitID) bool {
	tenure := lockagent.Tenure{Agent: s.Agent, Number: s.Tenure}
	for k := range s.Permits {
		if tenure.PermitID(k+1) == id {
			return true
		}
	}
	return false
}

// numberGrant finds out how many permits there were when the store granted some. What the store told counts. The log
// should explain that number. If the store did not tell it, the changes do. Of a [lockagent.Semaphore] the store
// does not know which permits other programs have, so it may tell of fewer than there are.
func (a *Audit) numberGrant(lock *lockLog, s *span) {
	s.Numbered = true
	n := &lock.Number
	if s.Total != 0 && s.Start >= n.Unsure {
		n.Unsure = 0
	}
	switch s.Limit = s.Total; {
	case s.Rough, s.Total != 0 && s.Start < n.Seen:
		return // it is said of that one, or a later one has told
	case s.Total == 0 && n.Known:
		s.Limit = n.N
		if step := a.store(lock.Store).step(n.Since, s.Start); step != nil && n.Since != 0 {
			s.doubt(step.text())
		} else if n.Unsure != 0 {
			s.doubt("the number of permits may have been lowered, and the log does not tell how many there were")
		}
		return
	case s.Total == 0:
		s.Unknown = true
		s.doubt("the log does not tell how many permits there were")
		return
	case !n.Known && a.lapsed:
		s.doubt("too many semaphores have had permits, and the number of these is forgotten")
		n.Since = s.Start
	case !n.Known && !a.late:
		s.doubt(fmt.Sprintf("the log does not tell who set the number of permits, which was %d", s.Total))
		n.Since = s.Start
	case n.Known && s.Total > n.N:
		s.doubt(
			fmt.Sprintf(
				"another program has changed the number of permits: the store told of %d, and the log explains %d", s.Total, n.N,
			),
		)
		n.Since = s.Start
	case n.Known && lock.Kind == lockagent.Semaphore:
		n.Seen = s.Start
		return
	}
	n.Known, n.N, n.Seen = true, s.Total, s.Start
}

// using is what a grant of permits finds in use.
type using struct {
	sure, excused, perhaps int // permits of others that were in use for certain, are explained, or may have been

	holds   []*span // those that are sure
	of      *span   // the first of those that are excused,
	cause   Explanation
	waiting bool       // the log will tell more of those that may have been
	step    *resetSpan // of the clock, between the times of one of them and the grant; or nil
}

// countPermits compares the permits that were in use when the store granted some with the number that there was. It
// reports false if the log, which is known up to a time, may tell more later.
func (a *Audit) countPermits(
	store *storeLog, lock *lockLog, before []*span, s *span, until lockagent.StoreTime, last bool,
) bool {
	last = last || until == endOfTime
	if s.Rough || s.Unknown || a.outside(store, s, a.atMost(s)) {
		return true
	}
	var in using
	for _, x := range before {
		if x.Start != 0 && a.inUseUntil(x) > s.Start {
			a.use(store, lock, &in, x, s)
		}
	}
	switch all := in.sure + in.excused + in.perhaps + s.Permits; {
	case all <= s.Limit:
	case !last && until < s.Start.Add(changing):
		return false // an agent may tell that it had deleted the semaphore
	case in.sure+s.Permits > s.Limit && s.Total != 0:
		first := s
		if n := len(in.holds) - 1; n >= 0 {
			first, in.holds = in.holds[n], in.holds[:n]
		}
		first.Guilty, s.Excess = true, true
		v := a.tooMany(lock, first, s, in.sure)
		for _, x := range in.holds[:min(len(in.holds), likewise)] {
			v.Others = append(v.Others, a.hold(lock.LockKey, x, &x.Last))
		}
		v.MoreOthers = len(in.holds) - len(v.Others)
		a.found.violation(v)
	case in.sure+in.perhaps+s.Permits <= s.Limit:
		e := in.cause
		s.Excess = true
		e.Violation = a.tooMany(lock, in.of, s, in.sure+in.excused)
		a.found.Explained.add(e)
	case in.waiting && !last:
		return false
	default:
		why := fmt.Sprintf("perhaps more permits were in use than there were: up to %d of %d", all, s.Limit)
		if in.step != nil {
			why += ", for " + in.step.text()
		}
		s.doubt(why)
	}
	return true
}

// use counts the permits of a tenure that began before others were granted.
func (a *Audit) use(store *storeLog, lock *lockLog, in *using, x, s *span) {
	n := x.Permits
	for _, back := range x.Back {
		if back.At <= s.Start {
			n--
		}
	}
	excuse := func(e Explanation) {
		if in.excused += n; in.of == nil {
			in.of, in.cause = x, e
		}
	}
	end, step := a.atMost(x), a.stepOver(store, x, s)
	over := end != 0 && end <= s.Start
	switch {
	case n == 0 || over && x.Told <= s.Start:
		return
	case step != nil:
		in.perhaps, in.step = in.perhaps+n, step
		return
	case over:
		excuse(Explanation{Late: true})
		return
	}
	e, explained, graced := a.explain(store, lock, x, s)
	if explained {
		e.excuses(x, s)
		excuse(e)
		return
	}
	certain := a.surely(lock, x)
	if graced {
		certain = certain.Add(-slack) // the clocks of two servers may differ
	}
	switch {
	case s.Start < certain && !lock.perhapsGone(x, s) && !x.Rough && (graced || !a.apart(x, s)):
		in.sure += n
		in.holds = append(in.holds, x)
	default:
		in.perhaps += n
		in.waiting = in.waiting || a.tellsMore(lock, x)
	}
}

// returning bounds the time from the end of a hold to the record of its return, if the store can be reached.
const returning = 3 * delay

// tellsMore reports whether the log will tell more of how long a tenure had its permits.
func (a *Audit) tellsMore(lock *lockLog, x *span) bool {
	if x.Open > 0 {
		return !x.Gone
	}
	l := a.logs[x.Agent]
	return lock.Kind == lockagent.Permits && !x.Over && l.speaks() && l.Settled < x.Until.Add(returning)
}

// surely is a time until which a tenure had all its permits for certain. Whoever has the id of a permit may give it
// back. So only the store can say that: it confirms the tenure, or takes it back.
func (a *Audit) surely(lock *lockLog, x *span) lockagent.StoreTime {
	if lock.Kind == lockagent.Permits && (x.Open > 0 || x.Denied || !x.Over) {
		return min(x.Confirmed, a.atLeast(x))
	}
	return a.atLeast(x)
}

// tooMany tells of permits that were granted while others had too many.
func (a *Audit) tooMany(lock *lockLog, first, s *span, others int) Violation {
	v := a.overlap(lock, first, &first.Last, a.hold(lock.LockKey, s, s.first()))
	v.Kind, v.InUse, v.Total = TooManyPermits, others+s.Permits, s.Limit
	if first == s {
		v.Second = fold.Hold{}
	}
	v.Why = "the store granted permits while too many others were in use by leases that were not over"
	v.Look = "Look whether the store lost data or fails over, whether somebody deleted its keys, and whether its clock " +
		"was set forward."
	return v
}

// recount has the grants of permits since a time counted once more: the log tells late of others that may have been
// in use then.
func (a *Audit) recount(lock *lockLog, since lockagent.StoreTime) {
	if !lock.HasPermits() {
		return
	}
	for _, s := range lock.Spans {
		if s.Start >= since {
			s.Counted = s.Excess
		}
	}
}

// numbered reports whether the number of the permits of a lock that nobody holds is still to be remembered.
func (a *Audit) numbered(lock *lockLog) bool {
	if !lock.Number.Known || lock.Number.N == 0 && !a.late {
		return false
	}
	if !lock.kept {
		if a.kept == maxSemaphores {
			a.lapsed = true
			return false
		}
		lock.kept = true
		a.kept++
	}
	return true
}

// join makes one number of two that are of one semaphore. It is the greater one: too many permits in use must be
// certain.
func (n *permitNumber) join(other permitNumber) {
	n.Known, n.N = n.Known || other.Known, max(n.N, other.N)
	n.Seen, n.Since = max(n.Seen, other.Seen), max(n.Since, other.Since)
	n.Unsure = max(n.Unsure, other.Unsure)
}
