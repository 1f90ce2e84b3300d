package events

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
)

// judge looks at the holds of one lock.
type judge struct {
	name    lockagent.Name
	facts   *lockLog
	resets  resets
	report  *Report
	holds   []*hold
	tenures map[tenureKey]*tenure
	ends    map[holdKey][]*ending
}

// An agent never uses the number of a tenure again. So a tenure that is in several epochs
// of an agent is one that goes on in the next process, and its holds with it.
type (
	tenureKey struct {
		agent  lockagent.AgentID
		number uint64
	}
	holdKey struct {
		tenureKey
		token lockagent.Token
	}
)

// tenure is what is known of one tenure. Times are 0 if they are not known.
type tenure struct {
	start     lockagent.StoreTime // the earliest that any of its grants tells
	confirmed lockagent.StoreTime // the latest that any of its grants tells
	begun     int                 // how many grants in the log began it
	returned  *returned           // nil if the log does not tell of it
	latest    *hold               // see exclusion
}

type hold struct {
	*grant
	tenure *tenure
	end    *ending
	until  lockagent.StoreTime // the latest that it can have ended; 0 if not known
	guilty bool                // it is the first hold of a violation
	doubt  string              // why it may have overlapped with a later one
}

// final reports whether nothing that is missing from the log can tell that the
// hold ended earlier: neither the return of its tenure, nor a later hold.
func (h *hold) final() bool {
	if h.end == nil {
		return false
	}
	log := h.end.log
	if _, hole := log.seen.hole(h.end.seq, log.seen.last()); hole {
		return false
	}
	returned := h.tenure.returned
	return returned != nil && h.end.before(returned.fact) || h.end.reason == lockagent.LostDenied || log.stopped == log.seen.last()
}

// bound is the latest time at which the hold is known to have gone on.
func (h *hold) bound() lockagent.StoreTime { return max(h.until, h.tenure.start) }

func newJudge(name lockagent.Name, facts *lockLog, resets resets, report *Report) *judge {
	j := &judge{
		name:    name,
		facts:   facts,
		resets:  resets,
		report:  report,
		tenures: make(map[tenureKey]*tenure),
		ends:    make(map[holdKey][]*ending),
	}
	slices.SortFunc(facts.grants, func(a, b grant) int { return compareFacts(a.fact, b.fact) })
	slices.SortFunc(facts.endings, func(a, b ending) int { return compareFacts(a.fact, b.fact) })
	slices.SortFunc(facts.reentries, func(a, b reentry) int { return compareFacts(a.fact, b.fact) })
	for i := range facts.endings {
		e := &facts.endings[i]
		key := holdKey{e.tenureKey(), e.token}
		j.ends[key] = append(j.ends[key], e)
	}
	for _, g := range facts.grants {
		t := j.tenure(g.fact)
		if g.how == lockagent.ByStore {
			t.begun++
		}
		if t.start == 0 || g.storeTime < t.start {
			t.start = g.storeTime
		}
		t.confirmed = max(t.confirmed, g.storeTime)
	}
	for i := range facts.returns {
		r := &facts.returns[i]
		j.tenure(r.fact).returned = r
	}
	for i := range facts.grants {
		g := &facts.grants[i]
		h := &hold{grant: g, tenure: j.tenure(g.fact)}
		for _, e := range j.ends[holdKey{g.tenureKey(), g.token}] {
			if g.before(e.fact) {
				h.end = e
				break
			}
		}
		if h.end != nil {
			h.until = h.end.until
			// A tenure is returned when its holds are over, so that bounds them too.
			if r := h.tenure.returned; r != nil && r.storeTime != 0 && h.end.before(r.fact) && (h.until == 0 || r.storeTime < h.until) {
				h.until = r.storeTime
			}
		}
		j.holds = append(j.holds, h)
	}
	// An earlier hold ended before a later one. So a bound on the end of the later hold also bounds
	// the earlier hold. Both are in the log of one process, or of one tenure: another process may
	// have resumed that.
	for i := len(j.holds) - 2; i >= 0; i-- {
		h, next := j.holds[i], j.holds[i+1]
		if h.end != nil && (h.end.log == next.log || h.tenure == next.tenure) && h.end.before(next.fact) && next.until != 0 && (h.until == 0 || next.until < h.until) {
			h.until = next.until
		}
	}
	return j
}

func (j *judge) tenure(f fact) *tenure {
	key := f.tenureKey()
	t := j.tenures[key]
	if t == nil {
		t = &tenure{}
		j.tenures[key] = t
	}
	return t
}

func (j *judge) judge() {
	j.agents()
	j.reentries()
	j.strays()
	slices.SortStableFunc(j.holds, func(a, b *hold) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.tenure.start, b.tenure.start))
	})
	j.tokens()
	j.exclusion()
	j.proof()
}

// agents checks each agent against its own order of events. The holds are in the
// order of agents, epochs and sequences.
func (j *judge) agents() {
	var before, greatest, latest *hold // the last hold; that with the greatest token; that which ended last
	for _, h := range j.holds {
		if before == nil || before.log != h.log {
			if before == nil || before.log.agent != h.log.agent {
				greatest = nil
			}
			if before == nil || before.tenure != h.tenure {
				before, latest = nil, nil
			}
		}
		if greatest != nil && h.token < greatest.token {
			j.violation(TokenFell, greatest, h)
		}
		switch {
		case latest != nil && h.before(latest.end.fact):
			j.violation(Overlap, latest, h)
		case before != nil && before.end == nil:
			if !gap(before.fact, h.fact) {
				j.violation(Overlap, before, h)
			}
		}
		before = h
		if greatest == nil || h.token > greatest.token {
			greatest = h
		}
		if h.end != nil && (latest == nil || latest.end.before(h.end.fact)) {
			latest = h
		}
	}
}

// reentries checks that each happened within a hold of the same token.
func (j *judge) reentries() {
	within := make(map[holdKey][]*hold)
	for _, h := range j.holds {
		key := holdKey{h.tenureKey(), h.token}
		within[key] = append(within[key], h)
	}
	for _, r := range j.facts.reentries {
		key := holdKey{r.tenureKey(), r.token}
		ok := slices.ContainsFunc(within[key], func(h *hold) bool {
			return h.before(r.fact) && (h.end == nil || r.before(h.end.fact))
		})
		_, hole := r.log.seen.hole(0, r.seq)
		switch {
		case ok || hole:
		case r.log.epoch > 1 && len(within[key]) == 0:
			j.unproven(reportFact(r.fact, r.token), "the log has a re-entry, but not its grant, which may be of an earlier epoch")
		default:
			j.report.Violations = append(j.report.Violations, Violation{Kind: StrayReentry, Lock: j.name, Second: reportFact(r.fact, r.token)})
		}
	}
}

// strays finds the ends of holds that the log does not have.
func (j *judge) strays() {
	granted := make(map[holdKey]fact) // the first
	for _, h := range slices.Backward(j.holds) {
		granted[holdKey{h.tenureKey(), h.token}] = h.fact
	}
	for _, e := range j.facts.endings {
		if first, ok := granted[holdKey{e.tenureKey(), e.token}]; ok && first.before(e.fact) {
			continue
		}
		// If events before it are missing, so may be its grant, and the gap is
		// reported.
		if _, hole := e.log.seen.hole(0, e.seq); !hole {
			h := reportFact(e.fact, e.token)
			h.Ended = e.text()
			j.unproven(h, "the log has its end, but not its grant")
		}
	}
}

// tokens checks that no two are equal. The holds are in the order of tokens.
func (j *judge) tokens() {
	for i := 1; i < len(j.holds); i++ {
		if j.holds[i-1].token == j.holds[i].token {
			j.violation(TokenRepeated, j.holds[i-1], j.holds[i])
		}
	}
}

// exclusion checks the holds of different agents against the clock of the store.
// The holds are in the order of tokens.
func (j *judge) exclusion() {
	// Of each tenure the hold that went on longest, in the order of their ends:
	// only those that ended after a hold began need to be compared with it.
	var ends []*hold
	place := func(h *hold) int {
		i, _ := slices.BinarySearchFunc(ends, h.bound(), func(x *hold, t lockagent.StoreTime) int { return cmp.Compare(x.bound(), t) })
		return i
	}
	for _, h := range j.holds {
		if h.tenure.start != 0 {
			j.compare(ends, h)
		}
		if latest := h.tenure.latest; latest != nil {
			if h.bound() <= latest.bound() {
				continue
			}
			i := place(latest)
			for ends[i] != latest {
				i++
			}
			ends = slices.Delete(ends, i, i+1)
		}
		h.tenure.latest = h
		ends = slices.Insert(ends, place(h), h)
	}
}

// compare finds the holds with smaller tokens that ended after h began.
func (j *judge) compare(ends []*hold, h *hold) {
	var explained *Explained
	for _, before := range slices.Backward(ends) {
		if before.bound() <= h.tenure.start {
			break
		}
		if before.log == h.log || before.tenure == h.tenure {
			continue // see agents
		}
		kind, first, second := Overlap, before, h
		if h.tenure.start < before.tenure.start && h.until <= before.tenure.start {
			// The one with the smaller token began when the other one was over.
			kind, first, second = TokenFell, h, before
		}
		cause, ok := j.explain(before, h)
		if kind == TokenFell { // tokens grow over resets and breaks
			ok = false
		}
		switch {
		case ok && explained == nil:
			cause.Violation = Violation{kind, j.name, first.report(), second.report()}
			explained = &cause
		case ok:
		case apart(before, h):
			before.doubt = fmt.Sprintf("token %d was granted when the store was another incarnation, but no event tells of the reset", h.token)
		case h.tenure.start < before.tenure.start || before.final():
			j.violation(kind, first, second)
			return
		case before.doubt == "":
			before.doubt = fmt.Sprintf("token %d was granted at %d us, and what could tell that it had ended by then may be missing", h.token, h.tenure.start)
		}
	}
	if explained != nil {
		j.report.Explained = append(j.report.Explained, *explained)
	}
}

// proof finds what cannot be judged. The holds are in the order of tokens.
func (j *judge) proof() {
	for i, h := range j.holds {
		last := i == len(j.holds)-1
		_, hole := h.log.seen.hole(0, h.seq)
		switch {
		case h.tenure.start == 0 && len(j.holds) > 1:
			j.unproven(h.report(), "the log does not say when the store began its tenure")
		case h.tenure.begun == 0 && !hole:
			j.unproven(h.report(), "the log does not have the grant that began its tenure")
		case h.tenure.begun > 1:
			j.unproven(h.report(), "its tenure began more than once")
		case h.end == nil && last:
			j.report.OpenHolds = append(j.report.OpenHolds, OpenHold{j.name, h.report()})
		case last || h.guilty:
			// Nothing came after it, or it is named as a violation.
		case h.end == nil:
			why := "the log does not have its end"
			if hole, ok := h.log.seen.hole(h.seq, h.log.seen.last()); ok {
				why += fmt.Sprintf("; it may be among the missing events from %d on", hole.First)
			}
			j.unproven(h.report(), why)
		case h.doubt != "":
			j.unproven(h.report(), h.doubt)
		case h.until == 0:
			j.unproven(h.report(), "its end has no bound on the clock of the store")
		case h.until < h.tenure.start:
			j.unproven(h.report(), "its end is said to be before its start")
		}
	}
}

func (j *judge) violation(kind ViolationKind, first, second *hold) {
	first.guilty = true
	j.report.Violations = append(j.report.Violations, Violation{kind, j.name, first.report(), second.report()})
}

func (j *judge) unproven(h auditedHold, why string) {
	j.report.Unproven = append(j.report.Unproven, Unproven{j.name, h, why})
}

func (h *hold) report() auditedHold {
	r := reportFact(h.fact, h.token)
	r.Start, r.End, r.Incarnation = h.tenure.start, h.until, h.incarnation
	if h.end != nil {
		r.Ended = h.end.text()
	}
	return r
}

func reportFact(f fact, token lockagent.Token) auditedHold {
	return auditedHold{Agent: f.log.agent, Epoch: f.log.epoch, Seq: f.seq, Tenure: f.tenure, Token: token}
}

func (e *ending) text() string {
	if e.reason == 0 {
		return e.kind.String()
	}
	return e.kind.String() + " (" + e.reason.String() + ")"
}
