package events

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// timeText is how people read a time.
const timeText = "2006-01-02T15:04:05.000Z07:00"

func wallText(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(timeText)
}

// storeText is a time on the clock of a store, which counts from 1970.
func storeText(t lockagent.StoreTime) string { return time.UnixMicro(int64(t)).UTC().Format(timeText) }

// durationText is as exact as helps.
func durationText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// String tells who held what from when to when, in one line.
func (h Hold) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "owner %q", h.Owner)
	if h.Process != (Process{}) {
		fmt.Fprintf(&b, " on %s (%s, pid %d)", h.Process.Host, h.Process.Program, h.Process.PID)
	}
	fmt.Fprintf(&b, ", token %d", h.Token)
	switch {
	case !h.From.IsZero():
		fmt.Fprintf(&b, ", from %s", wallText(h.From))
	case h.Start != 0:
		fmt.Fprintf(&b, ", from %s (clock of the store)", storeText(h.Start))
	}
	switch {
	case h.Ended == 0 && h.Gone:
		b.WriteString(", its end is not in the log")
	case h.Ended == 0:
	case !h.Until.IsZero():
		fmt.Fprintf(&b, " to %s", wallText(h.Until))
	case h.End != 0:
		fmt.Fprintf(&b, " to %s (clock of the store)", storeText(h.End))
	}
	if h.Held > 0 {
		fmt.Fprintf(&b, " (%s)", durationText(h.Held))
	}
	if h.Ended != 0 {
		fmt.Fprintf(&b, ", %s", h.Ended)
		if h.Reason != 0 {
			fmt.Fprintf(&b, " (%s)", h.Reason)
		}
	}
	if h.Operator != "" {
		fmt.Fprintf(&b, " by %s", h.Operator)
	}
	fmt.Fprintf(&b, " [%s:%d:%d]", h.Agent, h.Epoch, h.Seq)
	return b.String()
}

// String names the lock of a hold first.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: ", v.First.Lock)
	switch v.Kind {
	case Overlap:
		b.WriteString("two holds overlapped")
	case TokenRepeated:
		b.WriteString("two holds have the same token")
	case TokenFell:
		b.WriteString("the later of two holds has the smaller token")
	case Outlived:
		b.WriteString("a hold outlived its lease")
	case StrayReentry:
		b.WriteString("a re-entry without a hold")
	default:
		b.WriteString(string(v.Kind))
	}
	if v.Overlapped != 0 {
		fmt.Fprintf(&b, ", from %s", storeText(v.Overlapped))
		if v.Until > v.Overlapped {
			fmt.Fprintf(&b, " to %s, for up to %s", storeText(v.Until), durationText(v.Until.Sub(v.Overlapped)))
		}
		b.WriteString(" (clock of the store)")
	}
	if v.Second == (Hold{}) {
		fmt.Fprintf(&b, "\n    hold:   %v", v.First)
	} else {
		fmt.Fprintf(&b, "\n    first:  %v\n    second: %v", v.First, v.Second)
	}
	fmt.Fprintf(&b, "\n    why:    %s\n    look:   %s", v.Why, v.Look)
	return b.String()
}

func (e Explanation) String() string {
	return fmt.Sprintf("%v\n    cause:  %s", e.Violation, e.Cause())
}

// Cause is what explains it, for people.
func (e Explanation) Cause() string {
	by := ""
	if e.Operator != "" {
		by = " (" + e.Operator + ")"
	}
	switch {
	case e.Reset != nil:
		return e.Reset.String()
	case e.BrokenAt != 0:
		return fmt.Sprintf("an operator%s broke the lock at %s", by, storeText(e.BrokenAt))
	case e.Broken:
		return fmt.Sprintf("an operator%s broke the lock", by)
	}
	return "the first was over by its lease; its process did not run, and learned of it late"
}

func (r StoreReset) String() string {
	if r.From == r.To {
		return fmt.Sprintf("somebody set the clock of the store: it showed %s, and then %s", storeText(r.After), storeText(r.Before))
	}
	return fmt.Sprintf("the store was reset (%s), after %s on the clock before, and before %s on the clock since", r.Reason, storeText(r.After), storeText(r.Before))
}

func (u Unproven) String() string { return fmt.Sprintf("%q: %v: %s", u.Hold.Lock, u.Hold, u.Why) }

func (g Gap) String() string {
	if g.Lives > 0 {
		return fmt.Sprintf("all records of agent %s, epochs %d to %d", g.Agent, g.Epoch, g.Epoch+g.Lives-1)
	}
	return fmt.Sprintf("records %d to %d of agent %s, epoch %d", g.First, g.Last, g.Agent, g.Epoch)
}

func (r LateRecord) String() string {
	return fmt.Sprintf("record %d of agent %s, epoch %d: %s %s", r.Seq, r.Agent, r.Epoch, r.Kind, r.Lock)
}

func (t Tail) String() string {
	text := fmt.Sprintf("agent %s", t.Agent)
	if t.Process != (Process{}) {
		text += fmt.Sprintf(" on %s (%s, pid %d)", t.Process.Host, t.Process.Program, t.Process.PID)
	}
	text += fmt.Sprintf(" did not stop; its last record is %d of epoch %d", t.Last, t.Epoch)
	if t.From > 0 {
		text += fmt.Sprintf("; what it did from %s to %s may be missing", storeText(t.From), untilText(t.To))
	}
	if t.Assumed {
		return text + fmt.Sprintf("; it is taken to have lived until %s at the latest", untilText(t.To))
	}
	return text + "; the next process of this agent had begun by then"
}

func (h Hole) String() string {
	text := fmt.Sprintf("messages %d to %d of the stream", h.First, h.Last)
	for _, in := range h.In {
		text += fmt.Sprintf("; holds %v are not proven", in)
	}
	return text
}

func (s Stretch) String() string {
	text := "until " + untilText(s.To)
	if s.From != 0 {
		text = fmt.Sprintf("from %s to %s", storeText(s.From), untilText(s.To))
	}
	if s.Store != "" {
		text += " of store " + s.Store
	}
	return text
}

func (b Belated) String() string {
	return fmt.Sprintf("holds %v were judged before the log told that %s", b.Stretch, b.Why)
}

// String tells from when to when a store was judged.
func (j Judged) String() string {
	text := fmt.Sprintf("judged: %d tenures", j.Holds)
	if j.Store != "" {
		text += " of store " + j.Store
	}
	if j.From != 0 {
		text += ", from " + storeText(j.From)
	}
	if j.To != 0 {
		text += " to " + storeText(j.To)
	}
	if j.Pending > 0 {
		text += fmt.Sprintf("; %d later ones are not judged yet", j.Pending)
	}
	if j.Unproven != 0 {
		text += "; all after " + storeText(j.Unproven) + " are proven"
	}
	return text
}

// String is the report for people, in lines.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, r.summary())
	more := ""
	if r.MoreLocks {
		more = " or more"
	}
	fmt.Fprintf(&b, "%d records (%d repeated) of %d agents on %d%s locks: %d holds, %d of them handed off\n",
		r.Events, r.Duplicates+r.Unchecked, r.Agents, r.Locks, more, r.Grants, r.HandOffs)
	lines(&b, "", List[Judged]{len(r.Stores), r.Stores[:min(len(r.Stores), most)]})
	for _, reason := range slices.Sorted(maps.Keys(r.Losses)) {
		fmt.Fprintf(&b, "lost (%s): %d\n", reason, r.Losses[reason])
	}
	lines(&b, "violation: ", r.Violations)
	lines(&b, "explained: ", r.Explained)
	lines(&b, "unproven: ", r.Unproven)
	lines(&b, "missing: ", r.Gaps)
	lines(&b, "missing: ", r.Holes)
	lines(&b, "unproven: ", r.Belated)
	lines(&b, "late: ", r.Late)
	lines(&b, "unreadable: ", r.Unreadable)
	lines(&b, "unproven: ", r.Joined)
	lines(&b, "not stopped: ", r.Tails)
	lines(&b, "reset: ", r.Resets)
	lines(&b, "acknowledged: ", List[Acknowledged]{len(r.Acknowledged), r.Acknowledged})
	lines(&b, "still held: ", named(r.OpenHolds))
	lines(&b, "not judged: ", named(r.NotJudged))
	for _, count := range []struct {
		n    int
		what string
	}{
		{r.Dropped, "events found no room and were dropped"},
		{r.Unchecked, "repetitions came too late to be compared with the first"},
		{r.Unknown, "records are of kinds that this version does not know"},
		{r.Unjudged, "holds are of kinds of locks that this version does not judge"},
	} {
		if count.n > 0 {
			fmt.Fprintf(&b, "%d %s\n", count.n, count.what)
		}
	}
	return b.String()
}

func (r Report) summary() string {
	switch r.Verdict {
	case Violated:
		return fmt.Sprintf("%d violations of mutual exclusion", r.Violations.Count)
	case Empty:
		return "there are no records"
	case Incomplete:
		return fmt.Sprintf("no violation, but %d holds are not proven, and %d stretches of records are missing",
			r.Unproven.Count, r.Gaps.Count+r.Holes.Count) + r.assumption()
	case Explained:
		return fmt.Sprintf("no two holds overlapped, apart from %d overlaps of which the log names the cause", r.Explained.Count) + r.assumption()
	}
	return "no two holds overlapped" + r.assumption()
}

// assumption is what the verdict takes for granted of agents that crashed.
func (r Report) assumption() string {
	if r.Assumed == 0 {
		return ""
	}
	return fmt.Sprintf(", if %d agents that did not stop lived no longer than it says below", r.Assumed)
}

// namedHold is a hold with the name of its lock.
type namedHold struct{ Hold }

func (h namedHold) compare(other namedHold) int { return h.Hold.compare(other.Hold) }

func (h namedHold) String() string { return fmt.Sprintf("%q: %v", h.Lock, h.Hold) }

func named(l List[Hold]) List[namedHold] {
	all := List[namedHold]{Count: l.Count}
	for _, h := range l.First {
		all.First = append(all.First, namedHold{h})
	}
	return all
}

func (j Judged) compare(Judged) int { return 0 }

func lines[T Listed[T]](w io.Writer, what string, l List[T]) {
	for _, x := range l.First {
		fmt.Fprintf(w, "%s%v\n", what, x)
	}
	if more := l.Count - len(l.First); more > 0 {
		fmt.Fprintf(w, "%sand %d more\n", what, more)
	}
}
