package events

import (
	"fmt"
	"slices"
	"strings"
)

// Disagrees reports whether an opinion and a report on the same log exclude each other: one says that it is
// proven, and the other one that it is violated.
func (o *Opinion) Disagrees(r *Report) bool {
	if o.Verdict == Violated {
		return r.Verdict == Proven
	}
	about := func(v Violation) bool { return !slices.Contains(o.NotJudged, v.First.LockKey) }
	return o.Verdict == Proven && r.Verdict == Violated && slices.ContainsFunc(r.Violations.First, about)
}

// String is the opinion for people.
func (o *Opinion) String() string {
	var b strings.Builder
	switch o.Verdict {
	case Proven:
		fmt.Fprintf(&b, "second opinion: proven: no two of %s overlapped\n", number(o.Holds, "hold", "holds"))
	case Violated:
		fmt.Fprintf(&b, "second opinion: violated: %s\n", number(len(o.Pairs), "pair of holds", "pairs of holds"))
	default:
		fmt.Fprintf(&b, "second opinion: no verdict: %s\n", o.Why)
	}
	for i, p := range o.Pairs {
		if i == most {
			fmt.Fprintf(&b, "    and %d more\n", len(o.Pairs)-most)
			break
		}
		fmt.Fprintf(&b, "    %q: %s and %s: %s\n", p.Lock, p.First, p.Second, p.What)
	}
	for i, key := range o.NotJudged {
		if i == most {
			fmt.Fprintf(&b, "    and %d more locks are not judged\n", len(o.NotJudged)-most)
			break
		}
		fmt.Fprintf(&b, "    not judged: %q, of kind %q\n", key.Lock, key.Kind)
	}
	return b.String()
}
