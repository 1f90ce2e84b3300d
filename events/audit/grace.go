package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/show"
)

// Grace is a [lockagent.GracePeriod] as reports write it.
type Grace struct {
	Store       string              `json:"store,omitempty"`
	Incarnation string              `json:"incarnation,omitempty"` // that began with it
	Reason      string              `json:"reason,omitempty"`
	Began       lockagent.StoreTime `json:"began_us,omitempty"`
	Ended       lockagent.StoreTime `json:"ended_us,omitempty"` // 0 if the log does not have its end

	// Missing are agents that did not come back, and More is how many the log does not name.
	Missing []lockagent.AgentID `json:"missing,omitempty"`
	More    int                 `json:"more_missing,omitempty"`
}

// String tells how long it took, and who did not come back.
func (g Grace) String() string {
	text := fmt.Sprintf("the store (%s) waited for the holders of before", show.Plain(g.Reason))
	if g.Ended == 0 {
		return text + fmt.Sprintf(" from %s on; the log does not have the end", show.Store(g.Began))
	}
	text += fmt.Sprintf(" for %s, from %s on", show.Duration(g.Ended.Sub(g.Began)), show.Store(g.Began))
	if len(g.Missing)+g.More == 0 {
		return text + "; all came back"
	}
	return text + "; " + g.MissingText() + " did not come back"
}

// MissingText names the first few agents that did not come back, or is empty if there are none.
func (g Grace) MissingText() string {
	var names []string
	for _, agent := range g.Missing[:min(len(g.Missing), likewise)] {
		names = append(names, show.Plain(string(agent)))
	}
	if more := len(g.Missing) - len(names) + g.More; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	last := max(len(names)-1, 0)
	if last == 0 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func (g Grace) compare(other Grace) int {
	return cmp.Or(cmp.Compare(g.Began, other.Began), cmp.Compare(g.Store, other.Store),
		cmp.Compare(g.Incarnation, other.Incarnation))
}

func (Grace) cause() string { return "" }

// graceSpan is what all agents together tell of one grace period.
type graceSpan struct {
	Grace

	// Keepers are agents that keep to the period, as far as the log tells: they have told of it, or it waited for them.
	// They are in the order of their names. The list is never changed: a longer one takes its place.
	Keepers []lockagent.AgentID `json:"keepers,omitempty"`
}

// grace notes what an agent tells of a grace period.
func (a *Audit) grace(l *agentLog, r *events.Record) {
	if r.Grace == nil {
		return
	}
	l.Graces = true
	n := graceSpan{Grace: Grace{Incarnation: r.Grace.Incarnation, Reason: r.Grace.Reason, Began: r.Grace.Began}}
	n.Keepers = together([]lockagent.AgentID{l.ID}, r.Grace.Roll)
	if r.Kind == lockagent.EventGraceEnded {
		n.Ended, n.Missing, n.More = r.Grace.Ended, together(r.Grace.Roll), r.Grace.More
	}
	a.store(l.Store).noteGrace(n)
}

// noteGrace adds a grace period to those that are known. Each agent tells of it once or twice, in any order.
func (s *storeLog) noteGrace(n graceSpan) {
	x := s.graceOf(n.Incarnation)
	if x == nil {
		s.Graces = append(s.Graces, n)
		slices.SortFunc(s.Graces, func(x, y graceSpan) int { return cmp.Compare(x.Incarnation, y.Incarnation) })
		return
	}
	if n.Reason != "" && (x.Reason == "" || n.Reason < x.Reason) {
		x.Reason = n.Reason
	}
	x.Began, x.Ended = earlier(x.Began, n.Began), max(x.Ended, n.Ended)
	x.Missing, x.More = together(x.Missing, n.Missing), max(x.More, n.More)
	x.Keepers = together(x.Keepers, n.Keepers)
}

// together is a new list of all agents of some lists, each once, or nil if there are none.
func together(lists ...[]lockagent.AgentID) []lockagent.AgentID {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Clip(slices.Compact(all))
}

// graceOf is the grace period with which an incarnation began, or nil.
func (s *storeLog) graceOf(incarnation string) *graceSpan {
	for i := range s.Graces {
		if g := &s.Graces[i]; g.Incarnation == incarnation {
			return g
		}
	}
	return nil
}

// keeps reports whether the agent of a tenure keeps to a grace period, as far as the log tells. One that has told of
// another period in this life does.
func (a *Audit) keeps(g *graceSpan, s *span) bool {
	_, keeps := slices.BinarySearch(g.Keepers, s.Agent)
	l := a.logs[s.Agent]
	return keeps || l != nil && l.Graces
}

// covers reports whether a reset excuses no overlap of two tenures: the store granted nothing new until the agent of
// the first could have come back. That must be known of both. An agent of an earlier version, or one that does not want
// to wait, does not come back, and is granted locks meanwhile. The second may be of such an agent if the period was
// over. If the clock went back with the reset, holds may only seem to overlap.
func (a *Audit) covers(store *storeLog, r *resetSpan, first, second *span) bool {
	g := store.graceOf(r.To)
	return g != nil && !r.Behind && a.keeps(g, first) && (a.keeps(g, second) || g.Ended != 0 && second.Start >= g.Ended)
}

// despiteGrace is why two holds overlapped across a reset which excuses nothing.
const despiteGrace = "the store was reset, and granted the lock to the second " +
	"although the first could still come back in a grace period"

// despiteGrace tells of such an overlap.
func (v Violation) despiteGrace() Violation {
	v.Why = despiteGrace
	v.Look = "Look whether the server of before went on confirming leases: MinReplicas, or min-replicas-to-write " +
		"of the servers, keeps it from that. Otherwise this is a defect of the store or of the agent of the first."
	return v
}

// excuses notes that a reset explains an overlap of two tenures: so the store may end each of them.
func (e *Explanation) excuses(first, second *span) {
	if e.Reset != nil {
		first.Excused, second.Excused = true, true
	}
}

// lostDespiteGrace reports whether the store ended a hold of before a reset, though its agent keeps to the grace period
// that followed.
func (a *Audit) lostDespiteGrace(store *storeLog, r *resetSpan, s *span) bool {
	g := store.graceOf(r.To)
	held := s.Last.Kind == lockagent.EventLost && s.Last.Reason == lockagent.LostDenied
	return g != nil && held && s.Start < g.Began && !s.Excused && a.keeps(g, s)
}

// forgetGraces forgets the grace periods that were over before all that is still to be judged.
func (a *Audit) forgetGraces(s *storeLog, past func(lockagent.StoreTime) bool) {
	s.Graces = slices.DeleteFunc(s.Graces, func(g graceSpan) bool {
		over := past(max(g.Began, g.Ended))
		if over {
			a.found.Graces.add(g.of(s))
		}
		return over
	})
}

// of is the period in a report.
func (g graceSpan) of(s *storeLog) Grace {
	told := g.Grace
	told.Store = s.ID
	return told
}
