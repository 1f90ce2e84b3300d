package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockagent/lockagent/events/internal/show"
)

// String is the report for people, in lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, r.Summary())
	if !r.Within.IsZero() {
		fmt.Fprintf(&b, "The verdict is about what was held %s. All that was read counts:\n", r.Within)
	}
	locks := show.Plural(r.Locks, "lock", "locks")
	if r.MoreLocks {
		locks = fmt.Sprintf("%d or more locks", r.Locks)
	}
	fmt.Fprintf(&b, "%s (%d repeated) of %s on %s: %s, %d of them handed off, %d by rest\n",
		show.Plural(r.Events, "record", "records"), r.Duplicates+r.Unchecked, show.Plural(r.Agents, "agent", "agents"),
		locks, show.Plural(r.Grants, "hold", "holds"), r.HandOffs, r.Rests)
	paragraphs := list(nil, "", List[Judged]{len(r.Stores), r.Stores[:min(len(r.Stores), most)]})
	for _, reason := range slices.Sorted(maps.Keys(r.Losses)) {
		paragraphs = append(paragraphs, fmt.Sprintf("lost (%s): %d", reason, r.Losses[reason]))
	}
	paragraphs = append(paragraphs, r.Findings()...)
	paragraphs = list(paragraphs, "reset: ", r.Resets)
	paragraphs = list(paragraphs, "grace: ", r.Graces)
	paragraphs = list(paragraphs, "acknowledged: ", List[Acknowledged]{len(r.Acknowledged), r.Acknowledged})
	paragraphs = list(paragraphs, "still held: ", r.OpenHolds)
	paragraphs = list(paragraphs, "not judged: ", r.NotJudged)
	if len(r.Kept) > 0 {
		var kept []string
		for _, kind := range slices.Sorted(maps.Keys(r.Kept)) {
			kept = append(kept, fmt.Sprintf("%d %s", r.Kept[kind], kind))
		}
		paragraphs = append(paragraphs, "kept from before the beginning of the log: "+strings.Join(kept, ", "))
	}
	for _, count := range []struct {
		n         int
		one, many string
	}{
		{r.Dropped, "event found no room and was dropped", "events found no room and were dropped"},
		{
			r.Unchecked, "repetition came too late to be compared with the first",
			"repetitions came too late to be compared with the first",
		},
		{
			r.Unknown, "record is of a kind or version that this version does not know",
			"records are of kinds or versions that this version does not know",
		},
		{
			r.Unjudged, "hold is of a kind of lock that this version does not judge",
			"holds are of kinds of locks that this version does not judge",
		},
	} {
		if count.n > 0 {
			paragraphs = append(paragraphs, show.Plural(count.n, count.one, count.many))
		}
	}
	for _, p := range paragraphs {
		b.WriteString(p + "\n")
	}
	return b.String()
}

// Findings are what keeps a log from being proven, and what explains overlaps, for people: each is
// a text of one or more lines. They name the first of each kind, and count the rest.
func (r Report) Findings() (all []string) {
	for i := range findingKinds {
		k := &findingKinds[i]
		all = k.of(&r).lines(all, k.title)
	}
	return all
}

// Summary says in a line what the verdict means.
func (r Report) Summary() string {
	switch r.Verdict {
	case Violated:
		return show.Plural(r.Violations.Count, "violation", "violations")
	case Empty:
		return r.nothing()
	case Incomplete:
		return "no violation was found, but " + r.lacks()
	case Explained:
		return fmt.Sprintf(
			"nothing overlapped that must not, apart from %s of which the log names the cause",
			show.Plural(r.Explained.Count, "overlap", "overlaps"),
		) + r.assumption()
	}
	return "nothing overlapped that must not" + r.assumption()
}

// nothing is the summary of a report that is empty. The log may have older records than the report is about.
func (r Report) nothing() string {
	switch none := r.Events == 0; {
	case !none && !r.Within.IsZero():
		return "the log has no holds " + r.Within.String() + r.assumption()
	case none && r.Since.IsZero():
		return "there are no records"
	case none:
		return "there are no records since " + show.Wall(r.Since)
	case r.Since.IsZero():
		return "there are no holds"
	}
	return "no hold began since " + show.Wall(r.Since)
}

// assumption is what the verdict takes for granted of agents that crashed.
func (r Report) assumption() string {
	if r.Assumed == 0 {
		return ""
	}
	return fmt.Sprintf(
		", if %s that did not stop lived no longer than it says below", show.Plural(r.Assumed, "agent", "agents"),
	)
}

// lacks says why nothing is proven.
func (r Report) lacks() string {
	var lacks []string
	for i := range findingKinds {
		k := &findingKinds[i]
		if n := k.of(&r).count(); n > 0 && k.verdict == Incomplete {
			lacks = append(lacks, show.Plural(n, k.one, k.many))
		}
	}
	if len(lacks) == 0 {
		return "no hold could be judged so far"
	}
	return strings.Join(lacks, ", ")
}

// likewise is how many holds are named of those that are unproven for one reason.
const likewise = 3

// unproven adds the holds that are not proven, together for each reason. The reason of most of them is
// first.
func unproven(all []string, title string, l UnprovenList) []string {
	reasons := make(map[string]int)
	for _, r := range l.Reasons {
		reasons[r.Why] += r.Count
	}
	order := slices.SortedFunc(maps.Keys(reasons), func(x, y string) int {
		return cmp.Or(cmp.Compare(reasons[y], reasons[x]), cmp.Compare(x, y))
	})
	told := 0
	for _, why := range order[:min(len(order), most)] {
		n := reasons[why]
		told += n
		var first []Unproven
		for _, u := range l.First {
			if u.Why == why && len(first) < likewise {
				first = append(first, u)
			}
		}
		if n == 1 && len(first) == 1 {
			all = append(all, title+first[0].String())
			continue
		}
		text := fmt.Sprintf("%s%s: %s", title, show.Plural(n, "hold", "holds"), why)
		for _, u := range first {
			text += fmt.Sprintf("\n    %q: %s, %s", u.Hold.Lock, u.Hold.Holder(), u.Hold.Lasted())
		}
		if more := n - len(first); more > 0 && len(first) > 0 {
			text += fmt.Sprintf("\n    and %d more", more)
		}
		all = append(all, text)
	}
	if more := l.Count - told; more > 0 {
		all = append(all, fmt.Sprintf("%s%s for other reasons", title, show.Plural(more, "hold", "holds")))
	}
	return all
}

func (j Judged) compare(Judged) int { return 0 }

// list adds what there is of one kind.
func list[T Listed[T]](all []string, what string, l List[T]) []string {
	for _, x := range l.First {
		all = append(all, what+x.String())
	}
	return andMore(all, what, l)
}

func andMore[T Listed[T]](all []string, what string, l List[T]) []string {
	if more := l.Count - l.named(); more > 0 {
		all = append(all, fmt.Sprintf("%sand %d more", what, more))
	}
	return all
}
