package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// compare looks whether two tenures of a lock overlapped.
func (a *Audit) compare(store *storeLog, lock *lockLog, x, y *span) {
	first, second := x, y
	if cmp.Or(cmp.Compare(y.Start, x.Start), cmp.Compare(y.FirstToken, x.FirstToken)) < 0 {
		first, second = y, x
	}
	if a.aside(store, first, second) {
		return
	}
	silent := first.Guilty || first.Start < store.From // no report tells its doubts
	doubt := func(why string) {
		if first.doubt(why); silent {
			second.doubt(why)
		}
	}
	end, step := a.atMost(first), a.stepOver(store, first, second)
	over := end != 0 && end <= second.Start
	switch {
	case first.Modes == shared && second.Modes == shared:
		return
	case second.Modes == shared && first.sharedBy() != 0 && first.sharedBy() <= second.Start:
		if step := store.step(min(first.AloneLeast, second.Start), second.Start); step != nil {
			first.doubt(step.text())
			second.doubt(step.text())
		}
		return
	case first.Start == 0 || second.Start == 0:
		return // said of that one
	case over && first.Told <= second.Start:
		return
	case over && step == nil:
		late := a.overlap(lock, first, &first.Last, a.hold(lock.LockKey, second, second.first()))
		a.found.Explained.add(Explanation{Violation: late, Late: true})
		return
	case first.Agent == second.Agent && first.Last.Epoch == second.first().Epoch &&
		second.Start >= a.atLeast(first).Add(-rounding(lock.Store)):
		return // an agent's own records tell their order
	}
	if first.Rough || second.Rough {
		if first.Open > 0 || silent {
			second.doubt(
				fmt.Sprintf("it began when the hold with token %d went on, of which the log does not tell all", first.LastToken),
			)
		}
		return // said of that one
	}
	if step != nil {
		first.doubt(step.text())
		second.doubt(step.text())
		return
	}
	cause, explained, graced := a.explain(store, lock, first, second)
	switch {
	case explained && !a.mayHaveEnded(first, second, cause):
		cause.excuses(first, second)
		cause.Violation = a.overlap(lock, first, &first.Last, a.hold(lock.LockKey, second, second.first()))
		a.found.Explained.add(cause)
	case (first.Modes|second.Modes)&strange != 0:
		// said of that one
	case !graced && !explained && a.apart(first, second):
		doubt(
			fmt.Sprintf(
				"token %d was granted by another incarnation of the store, and no record tells of a reset", second.FirstToken,
			),
		)
	case second.Modes == shared && first.Modes&shared != 0 && second.Start >= first.AloneLeast:
		doubt(fmt.Sprintf("it became shared between %s and %s, and token %d was granted at %s",
			show.Store(first.AloneLeast), untilText(first.sharedBy()), second.FirstToken, show.Store(second.Start)))
	case graced && second.Start < a.atLeast(first) && second.Start.Add(slack) >= a.atLeast(first):
		doubt(fmt.Sprintf("by the clock of the store before a reset it went on until %s at least, and by the clock since "+
			"token %d was granted at %s: the clocks of two servers may differ",
			show.Store(a.atLeast(first)), second.FirstToken, show.Store(second.Start)))
	case graced && second.Start < a.atLeast(first):
		first.Guilty = true
		v := a.overlap(lock, first, &first.Last, a.hold(lock.LockKey, second, second.first()))
		a.found.violation(v.despiteGrace())
	case second.Start < a.atLeast(first):
		first.Guilty = true
		a.found.violation(a.overlap(lock, first, &first.Last, a.hold(lock.LockKey, second, second.first())))
	case first.Open > 0:
		doubt(fmt.Sprintf("the log does not have its end, and token %d was granted at %s, before its lease was over",
			second.FirstToken, show.Store(second.Start)))
	default:
		doubt(fmt.Sprintf("it ended between %s and %s, and token %d was granted at %s",
			show.Store(a.atLeast(first)), untilText(end), second.FirstToken, show.Store(second.Start)))
	}
}

// mayHaveEnded reports whether the owner of the first itself may have ended it before the second began. Then a reset
// need not have done so.
func (a *Audit) mayHaveEnded(first, second *span, cause Explanation) bool {
	byOwner := first.Last.Kind == lockagent.EventReleased || first.Last.Kind == lockagent.EventExpired
	return cause.Reset != nil && byOwner && first.Open == 0 && !first.NoEnd && second.Start >= a.atLeast(first)
}

func untilText(t lockagent.StoreTime) string {
	if t == 0 || t == endOfTime {
		return "a time that the log does not tell"
	}
	return show.Store(t)
}

// orderTokens looks whether the tokens of tenures that go on side by side grew: each is compared with the one that
// began before it. They end in another order, so later they could only be compared with those that are left.
func (a *Audit) orderTokens(store *storeLog, lock *lockLog, until lockagent.StoreTime) {
	before := lock.Last
	for _, s := range lock.Spans {
		if s.Start >= until {
			break
		}
		if s.Start == 0 {
			continue
		}
		if (s.Modes == shared || lock.HasPermits()) && !s.Ordered {
			s.Ordered = true
			a.compareTokens(store, lock, before, s)
		}
		if before == nil || s.Start >= before.Start {
			before = s
		}
	}
}

// remembersToken compares the token of a tenure that is over with the greatest before, unless that was done, and
// remembers it if it is greater.
func (a *Audit) remembersToken(store *storeLog, lock *lockLog, s *span) {
	last := lock.Last
	switch {
	case last != nil && s.Agent == last.Agent && s.Tenure == last.Tenure:
		last.LastToken = max(last.LastToken, s.LastToken) // it went on when it had been judged
		return
	case !s.Ordered:
		a.compareTokens(store, lock, last, s)
	}
	if last == nil || s.LastToken > last.LastToken {
		kept := *s
		lock.Last = &kept
	}
}

// compareTokens looks whether the tokens of a lock grew from a tenure to another one.
func (a *Audit) compareTokens(store *storeLog, lock *lockLog, last, s *span) {
	if a.beganLater(store, s) && (last == nil || s.Start >= last.Start) {
		return
	}
	if a.endedBefore(store, s, a.atMost(s)) && (last == nil || a.endedBefore(store, last, a.atMost(last))) {
		return
	}
	early := s.Begun > 0 && lockagent.StoreTime(s.FirstToken) < s.Start.Add(-slack)
	const mayBeGreater = "its token is older than its beginning, so an earlier one may be greater"
	if last == nil {
		if early {
			s.doubt(mayBeGreater)
		}
		return
	}
	greatest := last.LastToken
	if s.Modes == shared && last.Modes&shared != 0 {
		greatest = max(last.FirstToken, last.AloneToken) // the tokens of tenures that go on side by side grow side by side
	}
	first, second := last, s
	fell := s.FirstToken <= greatest && (s.Start >= last.Start || s.LastToken >= last.LastToken)
	if s.FirstToken > greatest && s.Start < last.Start && s.Start != 0 {
		first, second, fell = s, last, true
	}
	if early && !fell {
		s.doubt(mayBeGreater) // than one that is forgotten
	}
	if fell {
		v := a.tokens(lock, first, &first.Last, second, second.first())
		step := store.step(min(s.Start, last.Start), max(s.Start, last.Start))
		switch {
		case step != nil:
			s.doubt(fmt.Sprintf("its token is not greater than %d, but %s", greatest, step.text()))
		case s.Begun == 0 || last.Begun == 0: // it is not known when the tenure began
			s.doubt(
				fmt.Sprintf("its token is not greater than %d, and the log does not have the grants that would tell why", greatest),
			)
		default:
			a.found.violation(v)
		}
	}
}

// tokens tells of a hold that does not have a greater token than an earlier one.
func (a *Audit) tokens(lock *lockLog, first *span, p *piece, second *span, q *piece) Violation {
	v := Violation{
		Kind: TokenFell, First: a.hold(lock.LockKey, first, p), Second: a.hold(lock.LockKey, second, q),
		Why:  "a resource that checks tokens refuses the later holder, or lets both in",
		Look: "Look whether the store lost its data and its clock is behind, and whether other programs write its keys.",
	}
	if p.Token == q.Token {
		v.Kind = TokenRepeated
	}
	return v
}

// overlap tells of two holds that overlapped.
func (a *Audit) overlap(lock *lockLog, s *span, p *piece, second fold.Hold) Violation {
	v := Violation{Kind: Overlap, First: a.hold(lock.LockKey, s, p), Second: second, Overlapped: second.Start}
	end := a.atMost(s)
	if s.Told != 0 {
		end = s.Told
	}
	v.Until = earlier(end, second.End)
	switch {
	case s.Agent == second.Agent && p.Epoch == second.Epoch:
		v.Why = "the agent granted the lock to the second owner while the first still had it"
		v.Look = "This is a defect of the agent, or its records were changed. Look at its records around these numbers."
	case s.Told != 0:
		v.Why = "the process of the first did not run when its lease ran out, so its owner learned of that late"
		v.Look = "Look what stopped that process: a suspended machine, a long pause, too little CPU. Only a resource that " +
			"checks tokens is safe from it."
	default:
		v.Why = "the store granted the lock to the second while the first had a lease that was not over"
		v.Look = "Look whether the store lost data or fails over, whether somebody deleted its keys, and whether its clock " +
			"was set forward."
	}
	return v
}

// accuse reports what a hold says that cannot be.
func (a *Audit) accuse(store *storeLog, lock *lockLog, s *span, what suspect) {
	if what.Kind == Outlived && a.outside(store, s, a.atMost(s)) {
		return
	}
	h := a.hold(lock.LockKey, s, &what.Hold)
	v := Violation{Kind: what.Kind, First: h, Why: what.Why, Overlapped: s.Confirmed, Until: what.At}
	switch what.Kind {
	case Outlived:
		v.Overlapped = s.confirmedEnd()
		v.Look = "Look whether the process of the holder was stopped just then. Otherwise this is a defect of the agent."
	default:
		v.Look = "This is a defect of the agent, or its records were changed. Look at its records around this number."
	}
	if step := store.step(s.Start, what.At); step != nil && what.By > 0 {
		s.doubt(what.Why + ", but " + step.text())
		return
	}
	if what.By > 0 && what.Unsure {
		s.doubt(what.Why + ", and records are missing that may tell that the clock was set")
		return
	}
	s.Guilty = true
	a.found.violation(v)
}

// move brings the tenures of an agent, which has just named its store, to that store.
func (a *Audit) move(l *agentLog, to string) {
	if a.stores[to] == nil && a.nowhere.Holds > 0 {
		a.inherit(to)
	}
	s := a.store(to)
	s.Holds, a.nowhere.Holds = s.Holds+l.Nameless, a.nowhere.Holds-l.Nameless
	l.Nameless, l.Elsewhere = 0, nil
	for _, reset := range l.Resets {
		a.wasReset(s, reset)
	}
	for _, g := range a.nowhere.Graces {
		s.noteGrace(g)
	}
	a.nowhere.Graces = nil
	if l.spans == 0 {
		return
	}
	for key, lock := range a.locks {
		if key.Store != "" || !slices.ContainsFunc(lock.Spans, func(s *span) bool { return s.Agent == l.ID }) {
			continue
		}
		key.Store = to
		other := a.lock(key)
		lock.Spans = slices.DeleteFunc(lock.Spans, func(s *span) bool {
			if s.Agent != l.ID {
				return false
			}
			if lock.live(s.Agent, s.Tenure) == s {
				lock.over(s)
				other.goOn(s)
			}
			s.Late = s.Late || a.toldLate(&fold.Hold{LockKey: key, Agent: s.Agent}, s.Start)
			other.Spans = append(other.Spans, s)
			return true
		})
		a.touch(lock)
		a.recount(other, 0)
	}
}

// inherit begins the log of the first store that an agent names. Holds that do not name their store have been judged.
// They may be of that one, so what the log tells of their time from now on comes late.
func (a *Audit) inherit(to string) {
	s, none := a.store(to), a.nowhere
	s.Floor, s.From, s.Last, s.Cleared = none.Floor, none.From, none.Last, none.Cleared
	s.First, s.Judged, s.Unproven = none.First, none.Judged, none.Unproven
	for i := range none.Ends { // the place of a lock is another one by its new name
		s.ended(i, slices.Max(none.Ends))
	}
	for key, l := range a.locks {
		if key.Store == "" && l.Last != nil {
			key.Store = to
			a.lock(key).Last = l.Last.clone()
		}
	}
}

// Joined makes one store of two.
func (a follower) Joined(to, from string) {
	s, gone := a.store(to), a.store(from)
	delete(a.stores, from)
	for _, l := range a.logs {
		if l.Store == from {
			l.Store = to
			a.place(l)
		}
		if born, known := l.Elsewhere[from]; known {
			l.Elsewhere[to] = earlier(born, l.Elsewhere[to])
		}
	}
	if s.Holds > 0 && gone.Holds > 0 {
		a.found.Joined.add(Note(fmt.Sprintf(
			"the stores %s and %s are one, but holds of each were judged apart, up to %s", to, from,
			show.Store(min(s.Judged, gone.Judged)),
		)))
	}
	s.Floor, s.From = min(s.Floor, gone.Floor), max(s.From, gone.From)
	s.clear(gone.Cleared[0])
	s.clear(gone.Cleared[1])
	for i, t := range gone.Ends {
		s.ended(i, t)
	}
	s.Newest, s.Heard = max(s.Newest, gone.Newest), max(s.Heard, gone.Heard)
	s.Last, s.Began = max(s.Last, gone.Last), earlier(s.Began, gone.Began)
	if !s.Timed || gone.Timed && gone.Ahead > s.Ahead {
		s.Timed, s.Ahead = gone.Timed, gone.Ahead
	}
	s.Holes = append(s.Holes, gone.Holes...)
	s.Stepped = max(s.Stepped, gone.Stepped)
	s.Resets = append(s.Resets, gone.Resets...)
	for _, g := range gone.Graces {
		s.noteGrace(g)
	}
	for _, x := range gone.Steps {
		s.noteStep(x)
	}
	s.Holds, s.Within = s.Holds+gone.Holds, s.Within+gone.Within
	for name := range gone.Names {
		a.count(s, name)
	}
	s.First = earlier(s.First, gone.First)
	s.Judged, s.Unproven = min(s.Judged, gone.Judged), max(s.Unproven, gone.Unproven)
	a.latest, a.near = nil, nil
	for key, l := range a.locks {
		if key.Store != from {
			continue
		}
		delete(a.locks, key)
		key.Store = to
		other := a.lock(key)
		other.Spans = append(other.Spans, l.Spans...)
		other.Breaks = append(other.Breaks, l.Breaks...)
		other.Changes = append(other.Changes, l.Changes...)
		other.Number.join(l.Number)
		other.Mixed = other.Mixed || l.Mixed
		a.recount(other, 0)
		for _, x := range l.Spans {
			if l.live(x.Agent, x.Tenure) == x {
				other.goOn(x)
			}
		}
		if other.Last == nil || l.Last != nil && l.Last.LastToken > other.Last.LastToken {
			other.Last = l.Last
		}
	}
}
