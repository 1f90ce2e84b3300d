package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// follower has an audit follow its fold step by step.
type follower struct{ *Audit }

var _ fold.Watcher = follower{}

// judged reports whether locks of a kind are judged.
func judged(key fold.LockKey) bool { return key.Excludes() || key.HasPermits() }

func (a follower) Granted(h *fold.Hold) {
	l := a.current
	if !judged(h.LockKey) {
		a.found.Unjudged++
		l.Kept++ // nobody follows whether it goes back
		return
	}
	a.found.Grants++
	switch h.How {
	case lockagent.ByHandOff:
		a.found.HandOffs++
	case lockagent.ByRest:
		a.found.Rests++
	}
	if !h.Fixed {
		l.Lease = max(l.Lease, h.Lease)
	}
	lock := a.lock(h.LockKey)
	s := lock.live(h.Agent, h.Tenure)
	if s == nil {
		last := lock.lastOf(h.Agent)
		s = a.newSpan(lock, h)
		a.follows(lock, last, s)
		if h.How != lockagent.ByStore && !headless(l) {
			s.doubt("the log does not have the grant that began its tenure")
		}
	} else {
		s.join(a.Audit, lock, h)
	}
	if h.How == lockagent.ByStore {
		if s.Begun++; s.Begun > 1 {
			s.doubt("its tenure began more than once")
		}
	}
	if s.Start == 0 {
		s.doubt("the log does not say when the store began its tenure")
	}
	s.Open++
	a.goesOn(h)
}

// join adds a hold to its tenure.
func (s *span) join(a *Audit, lock *lockLog, h *fold.Hold) {
	if h.Start != 0 && h.Start < s.Start {
		s.Start = h.Start
	}
	if h.Lease != 0 {
		s.Lease = h.Lease
	}
	s.Confirmed = max(s.Confirmed, h.Confirmed)
	s.Modes |= modeOf(h.Mode)
	s.beginAlone(h)
	if s.Modes == exclusive && s.Open == 0 {
		s.After = s.Least
	}
	p := pieceOf(h)
	if h.Token <= s.LastToken {
		a.found.violation(a.tokens(lock, s, &s.Last, s, &p))
	}
	s.LastToken = max(s.LastToken, h.LastToken())
	if s.First == nil {
		first := s.Last
		s.First = &first
	}
	if s.Open == 0 {
		s.Last = p
	}
	if s.Over {
		a.suspect(s, suspect{Kind: Contradiction, Hold: p, Why: "it was granted in a tenure that had been returned"})
	}
}

// lastOf returns the last tenure of an agent, if it is one of the last few of the lock.
func (l *lockLog) lastOf(agent lockagent.AgentID) *span {
	for i := len(l.Spans) - 1; i >= 0 && i >= len(l.Spans)-16; i-- {
		if s := l.Spans[i]; s.Agent == agent {
			return s
		}
	}
	return nil
}

// follows holds a new tenure against the last one of its agent, or nil: the agent tells their order. The times of the
// store tell the same order, or tokens and times contradict the agent.
func (a *Audit) follows(lock *lockLog, last, s *span) {
	if last == nil || lock.HasPermits() || s.FirstToken > last.LastToken || s.Start > last.Start {
		return // an agent may learn of later permits first
	}
	v := a.tokens(lock, last, &last.Last, s, &s.Last)
	if step := a.store(lock.Store).step(s.Start, last.Start); step != nil {
		s.doubt(fmt.Sprintf("its token is not greater than %d, but %s", last.LastToken, step.text()))
		return
	}
	a.found.violation(v)
	last.Guilty = true
}

// headless reports whether a record that came before may be missing.
func headless(l *agentLog) bool { return l.Holes > 0 }

// doubt notes the first reason why a tenure proves nothing.
func (s *span) doubt(why string) {
	if s.Doubt == "" {
		s.Doubt = why
	}
}

// doubtBeside notes that a tenure was beside a time of which the log does not have all.
func (s *span) doubtBy(w *hole) {
	if s.Doubt == "" {
		s.doubt(w.text())
	}
}

func (a *Audit) suspect(s *span, what suspect) {
	what.At = max(what.At, s.Until, s.Least, s.Start)
	what.Unsure = a.logs[s.Agent].Holes != s.HolesBefore
	if len(s.Found) < 4 {
		s.Found = append(s.Found, what)
	}
}

func (a follower) Replaced(h *fold.Hold, by *events.Record) {
	if !judged(h.LockKey) {
		return
	}
	lock, l := a.lock(h.LockKey), a.current
	s := lock.live(h.Agent, h.Tenure)
	if s == nil || s.Gone && by.Tenure != h.Tenure {
		return // a crash ended it, and its lease bounds that
	}
	s.Open--
	p := pieceOf(h)
	switch {
	case !a.hasAll(s):
		s.NoEnd, s.EndMissing, s.Cut = true, true, &p
		s.doubt("the log does not have its end, which may be among the missing records")
	case by.Kind == lockagent.EventReturned:
		a.suspect(s, suspect{Kind: Contradiction, Hold: p, Why: "the agent returned its tenure while it was held"})
	default:
		second := a.heldBy(l, by)
		second.Start, second.Incarnation = by.StoreTime, by.Incarnation
		a.found.violation(a.overlap(lock, s, &p, second))
		s.Guilty = true
	}
}

func (a follower) Reentered(key fold.LockKey, h *fold.Hold, r *events.Record) {
	l := a.current
	var s *span
	if h != nil {
		s = a.goesOn(h)
		s.reconfirmed(r)
		a.upgraded(h, r)
	}
	switch {
	case !judged(key):
	case h != nil && (h.Grants == 0 || r.Count == h.Grants+1 || !a.hasAll(s)):
	case h != nil:
		a.counted(key, h, r)
	case headless(l):
		a.ungranted(l, r, "the log has a re-entry, but not the grant, which may be among the missing records")
	case r.Epoch > 1 && a.lock(key).live(r.Agent, r.Tenure) == nil:
		a.ungranted(l, r, "the log has a re-entry, but not the grant, which may be of an earlier epoch")
	default:
		a.found.violation(Violation{
			Kind: StrayReentry, First: a.heldBy(l, r), Why: "an owner was granted again what it did not hold",
			Look: "Look at the records of this agent and lock around that number.",
		})
	}
}

// reconfirmed takes from a record when the store had confirmed a tenure with holds that go on, and for how long.
func (s *span) reconfirmed(r *events.Record) {
	if s == nil || s.Open == 0 {
		return
	}
	s.Confirmed, s.Least = max(s.Confirmed, r.StoreTime), max(s.Least, r.StoreTime)
	s.Lasted = max(s.Lasted, r.StoreTime)
	if r.Lease != 0 {
		s.Lease = r.Lease
	}
}

func (a follower) Renewed(key fold.LockKey, r *events.Record) {
	if judged(key) {
		a.lock(key).live(r.Agent, r.Tenure).reconfirmed(r)
	}
}

// upgraded finds that a record calls a hold exclusive that is shared. No hold becomes exclusive later.
func (a *Audit) upgraded(h *fold.Hold, r *events.Record) {
	if modeOf(h.Mode) != shared || modeOf(r.Mode) != exclusive {
		return
	}
	if s := a.spanOf(h); s != nil {
		a.suspect(s, suspect{Kind: Contradiction, Hold: pieceOf(h), Why: fmt.Sprintf(
			"it is shared, and the record that it was %s says that it is %s", r.Kind, r.Mode)})
	}
}

// counted finds that the number of grants of a hold is wrong.
func (a *Audit) counted(key fold.LockKey, h *fold.Hold, r *events.Record) {
	if s := a.lock(key).live(h.Agent, h.Tenure); s != nil {
		p := pieceOf(h)
		a.suspect(s, suspect{Kind: Contradiction, Hold: p, Why: fmt.Sprintf(
			"the owner had %d grants, and after %q it has %d", h.Grants, r.Kind, r.Count)})
	}
}

func (a follower) Partly(key fold.LockKey, h *fold.Hold, r *events.Record) {
	l := a.current
	var s *span
	if h != nil {
		s = a.goesOn(h)
		a.upgraded(h, r)
		s.lastsUntil(h, r)
	}
	switch {
	case !judged(key):
	case h == nil:
		a.ungranted(l, r, "the log has the end of one of its grants, but not its grant")
	case h.Grants != 0 && r.Count != h.Grants-1 && a.hasAll(s):
		a.counted(key, h, r)
	case h.Downgrades(r):
		s.Modes |= shared
		least := max(h.Start.Add(r.Held-r.Held/drift), r.Confirmed)
		if r.Until != 0 {
			least = s.paced(r.Until, least, max(r.Confirmed, h.Start.Add(slowed(r.Held))), h.Store)
		}
		s.endAlone(h, least, r.Until)
	}
}

// ungranted names a hold of which the log has neither the grant nor the end, once. Its end may still come.
func (a *Audit) ungranted(l *agentLog, r *events.Record, why string) {
	h := a.heldBy(l, r)
	if !slices.ContainsFunc(a.found.Unproven.First, func(u Unproven) bool { return u.of(&h) }) {
		a.found.Unproven.add(Unproven{Hold: h, Why: why})
	}
	s := a.store(h.Store)
	s.Unproven = max(s.Unproven, told(r), r.Until)
}

// of reports whether it is this hold that is not proven.
func (u *Unproven) of(h *fold.Hold) bool {
	return u.Hold.Agent == h.Agent && u.Hold.Tenure == h.Tenure && u.Hold.Token == h.Token && u.Hold.LockKey == h.LockKey
}

func (a follower) Ended(h *fold.Hold, r *events.Record, ungranted bool) {
	if !judged(h.LockKey) {
		return
	}
	l := a.current
	if r.Kind != lockagent.EventReleased && r.Kind != lockagent.EventHeld {
		a.found.Losses[lossOf(r.Kind, r.Reason)]++
	}
	lock := a.lock(h.LockKey)
	s := lock.live(h.Agent, h.Tenure)
	if ungranted {
		l.Shown++
		if s = a.endOnly(lock, l, s, h, r); s == nil {
			return
		}
	}
	if s == nil {
		s = a.goesOn(h)
	}
	a.upgraded(h, r)
	a.outlasts(h, s)
	s.Open--
	if r.Kind == lockagent.EventHeld && r.Count > 0 || r.Kind != lockagent.EventHeld && h.Grants > 1 && a.hasAll(s) {
		a.counted(h.LockKey, h, r)
	}
	if !r.Fixed {
		l.Lease = max(l.Lease, r.Lease)
	}
	s.end(a.Audit, h, r, ungranted)
	if s.Over && s.Open == 0 {
		lock.over(s)
	}
}

// endOnly takes the end of a hold that the log has no grant of.
func (a *Audit) endOnly(lock *lockLog, l *agentLog, s *span, h *fold.Hold, r *events.Record) *span {
	switch {
	case s != nil && s.Cut != nil && s.Cut.Token == h.Token:
		// The next hold began before this end.
		next := a.hold(lock.LockKey, s, &s.Last)
		a.found.violation(a.overlap(lock, s, s.Cut, next))
		s.Guilty = true
		return nil
	case s != nil && (s.Guilty || len(s.Found) > 0) && s.FirstToken <= h.Token && h.Token <= s.LastToken:
		return nil // it was ended by what is wrong already
	}
	if r.Held > 0 && r.Until != 0 {
		h.Start = r.Until.Add(-r.Held - r.Held/drift)
	}
	if s == nil {
		s = a.newSpan(lock, h)
		s.EndMissing, s.Least = true, 0 // its end may have been earlier than Until, so it may have begun before Start
	} else if h.Start != 0 {
		s.Start = min(s.Start, h.Start)
	}
	s.Open++
	s.Rough = true
	s.doubt("the log has its end, but not its grant")
	return s
}

// drift is how much the rates of two clocks may differ: by one part in this many. Clocks that
// are kept right by NTP differ by half of it at most.
const drift = 1000

// slowed is how far a clock moves in a time by another one, if both are corrected as fast as chrony does it unless it
// is told otherwise: the first is slowed down by a twelfth, and the second hurried by as much.
func slowed(d time.Duration) time.Duration { return d * 11 / 13 }

// end notes what the record of an end says.
func (s *span) end(a *Audit, h *fold.Hold, r *events.Record, ungranted bool) {
	until, returned := r.Until, r.Returned
	foundOver := r.Reason != 0 && (r.Kind == lockagent.EventReleased || r.Kind == lockagent.EventHeld)
	if r.Lease != 0 {
		s.Lease = r.Lease
	}
	s.Confirmed = max(s.Confirmed, r.Confirmed)
	p := pieceOf(h)
	p.Until, p.Held, p.Kind, p.Reason, p.Operator = h.Until, r.Held, r.Kind, r.Reason, r.Operator
	if r.Kind == lockagent.EventHeld {
		p.Kind = lockagent.EventReleased
	}
	if ungranted {
		p.Start = 0
	}

	least := r.Confirmed
	if from := max(h.Start, s.After); !ungranted && h.Start != 0 {
		least = max(least, from.Add(r.Held-r.Held/drift))
		slowest := max(r.Confirmed, from.Add(slowed(r.Held)))
		if s.Open == 0 && s.Lasted > max(least, s.Until) {
			least, slowest = s.Lasted, max(slowest, s.Start.Add(slowed(s.Lasted.Sub(s.Start))))
		}
		if at := earlier(until, returned); at != 0 && at >= s.Start {
			least = s.paced(at, least, slowest, h.Store)
		}
	}
	if until != 0 && (until < least.Add(-rounding(h.Store)) || until < s.Start) {
		a.suspect(s, tooEarly("ended", "at the latest", until, least, p))
		until = max(until, least)
	}
	if returned != 0 && returned < least.Add(-rounding(h.Store)) {
		a.suspect(s, tooEarly("been returned", "", returned, least, p))
		returned = least
	}
	if end := s.confirmedEnd(); end != 0 && until > end {
		switch {
		case r.Kind == lockagent.EventExpired || r.Reason == lockagent.LostDeadline:
			s.Told = max(s.Told, until)
			until = end // the agent does not trust a lease beyond its end, whenever its process runs again
		case r.Kind == lockagent.EventLost && r.Reason == lockagent.LostDenied && least <= end:
			until = end // it was before the deadline: the bound is later because the answer was slow
		default:
			a.suspect(s, suspect{Kind: Outlived, Hold: p, By: until.Sub(end), At: until, Why: fmt.Sprintf(
				"the store had confirmed its lease until %s, and its agent says that it was held until %s", show.Store(end),
				show.Store(until))})
		}
		least = min(least, end)
	}
	if returned != 0 && !foundOver {
		until = earlier(until, returned)
	}
	p.End = until
	switch {
	case until == 0:
		s.NoEnd = true
		s.doubt("its end has no bound on the clock of the store")
	case s.Modes == exclusive || s.Until == 0:
		s.Until = until
	default:
		s.Until = max(s.Until, until)
	}
	s.endAlone(h, least, until)
	s.Least = max(s.Least, min(least, max(until, least)))
	s.Last = p
	if r.Reason == lockagent.LostDenied || foundOver {
		s.Denied, s.DeniedAt = true, max(r.Until, returned)
	}
	if returned != 0 {
		a.goesBack(s, r)
		if !foundOver {
			s.Least = max(s.Least, min(returned, s.Until))
		}
	}
}

// paced returns how long a hold lasted at least, by the clock of the store. That is until least if this clock and that
// of the agent ran at rates that nearly agree. If it was over at an earlier time, but not before slowest, they did not.
// Then nothing is proven of it.
func (s *span) paced(at, least, slowest lockagent.StoreTime, store string) lockagent.StoreTime {
	if at >= least.Add(-rounding(store)) || at < slowest.Add(-rounding(store)) {
		return least
	}
	s.doubt(fmt.Sprintf("by the clock of its agent it was held until %s at least, and by that of the store it was over "+
		"at %s: "+
		"the two clocks ran at different rates, as clocks do that somebody corrects", show.Store(least), show.Store(at)))
	return min(at, slowest)
}

// tooEarly is the suspicion that a hold ended, or was returned, before it had been held until least.
func tooEarly(what, how string, at, least lockagent.StoreTime, p piece) suspect {
	return suspect{Kind: Contradiction, Hold: p, By: least.Sub(at), At: least, Why: fmt.Sprintf(
		"it is said to have %s at %s, but was held until %s at least", what, strings.TrimSpace(show.Store(at)+" "+how),
		show.Store(least))}
}

// rounding is by how much two times of a store that are computed from durations may differ. The clocks of the nodes of
// a quorum differ by more than durations do.
func rounding(store string) time.Duration {
	if strings.HasPrefix(store, "quorum-") {
		return slack
	}
	return 10 * time.Millisecond
}

// confirmedEnd is when the lease that the store has confirmed is over, or 0.
func (s *span) confirmedEnd() lockagent.StoreTime {
	if s.Confirmed == 0 || s.Lease == 0 {
		return 0
	}
	return s.Confirmed.Add(s.Lease)
}

func (a follower) Returned(key fold.LockKey, r *events.Record) {
	if !judged(key) {
		return
	}
	lock := a.lock(key)
	s := lock.live(r.Agent, r.Tenure)
	if s == nil {
		return
	}
	a.goesBack(s, r)
	at := r.Returned
	what, least := "been returned", s.Least
	if r.Reason != 0 {
		// When the store found that the tenure was over says nothing of when its holder was told. But the store had it
		// when it confirmed the lease.
		what, least = "been over", s.Confirmed
	} else if at != 0 {
		s.Least = s.paced(at, least, max(s.Confirmed, s.Start.Add(slowed(least.Sub(s.Start)))), key.Store)
		least = s.Least
	}
	if at != 0 && at < least.Add(-rounding(key.Store)) {
		a.suspect(s, tooEarly(what, "", at, least, s.Last))
		at = least
	}
	if len(s.Found) == 0 {
		lock.over(s)
	}
	if r.Reason != 0 {
		if r.Reason == lockagent.LostDenied {
			a.denied(key.Store, s, r)
		}
		return
	}
	if at != 0 && s.Until != 0 {
		if at < s.Until {
			s.Until, s.Last.End = at, at
		}
		if r.Until == 0 { // the store had the tenure until then
			s.Least = max(s.Least, s.Until)
		}
	}
}

// denied notes when the store said that it does not have a tenure. If the holder lost the hold by that, it went on
// until then.
func (a *Audit) denied(store string, s *span, r *events.Record) {
	at, end, near := r.Returned, s.confirmedEnd(), rounding(store)
	if !s.Denied {
		s.Denied, s.DeniedAt = true, max(at, s.Until)
		return
	}
	if at == 0 || s.Last.Reason != lockagent.LostDenied {
		return
	}
	s.DeniedAt, s.Least = at, max(s.Least, min(at, s.Until))
	if slices.ContainsFunc(a.current.Resets, func(r StoreReset) bool { return r.From != r.To && r.Before >= s.Start }) {
		near = slack // the clocks of two servers may differ
	}
	if end != 0 && at > end.Add(near) {
		a.suspect(s, suspect{Kind: Outlived, Hold: s.Last, By: at.Sub(end), At: at, Why: fmt.Sprintf(
			"the store had confirmed its lease until %s, and it was still held when the store denied it at %s",
			show.Store(end), show.Store(at))})
	}
}

// goesBack notes that a tenure is over in the store.
func (a *Audit) goesBack(s *span, r *events.Record) {
	if l := a.current; !s.Over && r.Returned != 0 {
		l.Kept--
		l.Free = max(l.Free, r.Returned, r.Until)
	}
	s.Over = true
}

// agrees compares a sign of life with the other records of its agent, if the log has all of them.
func (a *Audit) agrees(l *agentLog, r *events.Record) {
	if !l.Whole {
		return
	}
	known, sum := a.known(l)
	var why string
	switch {
	case r.Count != known:
		why = fmt.Sprintf(
			"it counts %s, and the log has the grants of %d that go on", show.Plural(r.Count, "hold", "holds"), known,
		)
	case r.Sum != sum:
		why = fmt.Sprintf("it has %s, and not those whose grants the log has", show.Plural(r.Count, "hold", "holds"))
	case l.Kept == 0 && r.Confirmed > l.Free.Add(rounding(l.Store)):
		why = fmt.Sprintf("a lease was renewed at %s, and all tenures were over by then", show.Store(r.Confirmed))
	default:
		return
	}
	l.Whole = false // that is said once
	a.found.violation(Violation{
		Kind: Contradiction, First: a.heldBy(l, r), Why: "a sign of life of the agent contradicts its other records: " + why,
		Look: "This is a defect of the agent, or its records were changed. Look at its records before this number.",
	})
}

func (a follower) Broke(key fold.LockKey, r *events.Record) {
	if judged(key) {
		lock := a.lock(key)
		lock.Breaks = append(lock.Breaks, lockBreak{At: r.StoreTime, Operator: r.Operator})
	}
}

// lossOf is the word under which the end of a hold is counted that was not a release.
func lossOf(kind lockagent.EventKind, reason lockagent.LossReason) string {
	if reason == 0 {
		return kind.String()
	}
	return reason.String()
}

// earlier is the earlier of two times that may not be known.
func earlier(a, b lockagent.StoreTime) lockagent.StoreTime {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
