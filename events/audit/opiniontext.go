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

// NoVerdict is the verdict of an [Opinion] on a log that [Independent] does not judge.
const NoVerdict Verdict = "none"

// Opinion is what an [Independent] says of a log.
type Opinion struct {
	Verdict Verdict       `json:"verdict"`         // Proven, Violated or NoVerdict
	Why     string        `json:"why,omitempty"`   // there is no verdict
	Holds   int           `json:"holds"`           // that were compared
	Pairs   []OpinionPair `json:"pairs,omitempty"` // of tenures that overlapped, or whose tokens did not grow

	odd bool // there is no verdict because the log contradicts itself
}

// OpinionPair are two tenures of a lock that exclude each other.
type OpinionPair struct {
	Lock   lockagent.Name `json:"lock"`
	First  string         `json:"first"` // the record of its grant: agent, epoch and number
	Second string         `json:"second"`
	What   string         `json:"what"`
}

// placeText is the identity of a record.
func placeText(r *events.Record) string { return fmt.Sprintf("%s:%d:%d", r.Agent, r.Epoch, r.Seq) }

// opinion says what was found of so many holds.
func (x *Independent) opinion(holds int) Opinion {
	slices.SortFunc(x.pairs, func(a, b OpinionPair) int {
		return cmp.Or(cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	})
	switch {
	case x.why != "":
		return Opinion{Verdict: NoVerdict, Why: x.why}
	case len(x.pairs) > 0:
		return Opinion{Verdict: Violated, Holds: holds, Pairs: x.pairs}
	case x.doubt != "":
		return Opinion{Verdict: NoVerdict, Why: x.doubt, Holds: holds, odd: x.odd}
	}
	return Opinion{Verdict: Proven, Holds: holds}
}

// Disagrees reports whether an opinion and a report on the same log exclude each other. Then one of them says that the
// log is proven. By the other one the log is violated, or contradicts itself.
func (o *Opinion) Disagrees(r *Report) bool {
	if len(r.Acknowledged) > 0 {
		return false // the report is about a part of the log
	}
	return r.Verdict == Proven && (o.Verdict == Violated || o.odd) || r.Verdict == Violated && o.Verdict == Proven
}

// String is the opinion for people.
func (o *Opinion) String() string {
	var b strings.Builder
	switch o.Verdict {
	case Proven:
		fmt.Fprintf(&b, "second opinion: proven: no two of %s overlapped\n", show.Plural(o.Holds, "hold", "holds"))
	case Violated:
		fmt.Fprintf(&b, "second opinion: violated: %s\n", show.Plural(len(o.Pairs), "pair of tenures", "pairs of tenures"))
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
	return b.String()
}
