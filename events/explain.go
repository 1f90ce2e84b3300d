package events

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// explain reports whether a reset of the store or an operator came between two
// holds, and what is known of that. The second has the greater token.
func (j *judge) explain(first, second *hold) (Explained, bool) {
	earlier := min(first.tenure.start, second.tenure.start)
	later := max(first.tenure.start, second.tenure.start)
	if earlier == 0 { // not known
		earlier = later
	}
	for _, from := range first.incarnations(later) {
		for _, to := range second.incarnations(later) {
			if r := j.resets.between(from, to, earlier, later); r != nil {
				return Explained{Reset: r}, true
			}
		}
	}
	for _, at := range j.facts.breaks {
		if at >= earlier && at <= later {
			return Explained{BrokenAt: at}, true
		}
	}
	return Explained{}, false
}

// incarnations returns the incarnations that may have confirmed the hold before a
// time. The first is the one that the grant names. Then come those to which its agent
// switched: it may not have noticed at once that the next one served it. If a later
// grant of the tenure shows that the next one confirmed it, those before do not count.
func (h *hold) incarnations(until lockagent.StoreTime) []string {
	all := []string{h.incarnation}
	for _, r := range h.log.resets {
		if r.From != all[len(all)-1] || r.After >= until || r.Before < h.tenure.start {
			continue
		}
		if h.tenure.confirmed > r.Before {
			all = nil
		}
		all = append(all, r.To)
	}
	return all
}

// apart reports whether no incarnation can have confirmed both holds. It is false if
// the log does not name them.
func apart(first, second *hold) bool {
	later := max(first.tenure.start, second.tenure.start)
	a, b := first.incarnations(later), second.incarnations(later)
	return a[0] != "" && b[0] != "" && !slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}
