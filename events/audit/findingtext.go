package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// what is wrong, and for how long it was at most.
func (v *Violation) what() string {
	text := string(v.Kind)
	switch v.Kind {
	case Overlap:
		text = "two holds overlapped"
	case TokenRepeated:
		text = "two holds have the same token"
	case TokenFell:
		text = "the later of two holds has the smaller token"
	case Outlived:
		text = "a hold outlived its lease"
	case TooManyPermits:
		text = fmt.Sprintf("%s in use, and there were %d,", show.Plural(v.InUse, "permit was", "permits were"), v.Total)
	case StrayReentry:
		text = "a re-entry without a hold"
	}
	if v.Overlapped != 0 && v.Until > v.Overlapped {
		text += " for up to " + show.Duration(v.Until.Sub(v.Overlapped))
	}
	return text
}

// String names the lock, says what is wrong, and tells of both holds.
func (v Violation) String() string { return v.text() + v.alikeText() }

// alikeText tells for how many more it stands.
func (v *Violation) alikeText() string {
	switch {
	case v.More == 0:
		return ""
	case v.Kind != Overlap:
		return "\n    more:   likewise with " + show.Plural(v.More, "later hold", "later holds")
	}
	text := "\n    more:   the first overlapped likewise with " + show.Plural(v.More, "later hold", "later holds")
	if v.Last != 0 {
		text += ", up to " + show.Store(v.Last)
	}
	return text
}

func (v *Violation) text() string {
	var b strings.Builder
	switch {
	case v.First.Lock == "": // a record of no lock
		fmt.Fprintf(
			&b, "agent %s: %s\n    record: %s", fold.AgentText(v.First.Agent, v.First.Process), v.what(), v.First.Record(),
		)
	case v.Second == (fold.Hold{}):
		fmt.Fprintf(&b, "%q: %s", v.First.Lock, v.what())
		fmt.Fprintf(&b, "\n    hold:   %s\n            %s", v.First.Holder(), v.First.Record())
	default:
		fmt.Fprintf(&b, "%q: %s", v.First.Lock, v.what())
		fmt.Fprintf(&b, "\n    first:  %s\n            %s", v.First.Holder(), v.First.Record())
		fmt.Fprintf(&b, "\n    second: %s\n            %s", v.Second.Holder(), v.Second.Record())
	}
	for i := range v.Others {
		fmt.Fprintf(&b, "\n    also:   %s\n            %s", v.Others[i].Holder(), v.Others[i].Record())
	}
	if v.MoreOthers > 0 {
		fmt.Fprintf(&b, "\n            and %d more", v.MoreOthers)
	}
	when := "both:  "
	if v.Second == (fold.Hold{}) {
		when = "time:  "
	}
	switch {
	case v.Overlapped != 0 && v.Until > v.Overlapped:
		fmt.Fprintf(
			&b, "\n    %s %s on the clock of the store", when, show.Range(show.StoreWall(v.Overlapped), show.StoreWall(v.Until)),
		)
	case v.Overlapped != 0:
		fmt.Fprintf(&b, "\n    %s from %s on the clock of the store", when, show.Store(v.Overlapped))
	}
	fmt.Fprintf(&b, "\n    why:    %s\n    look:   %s", v.Why, v.Look)
	return b.String()
}

func (e Explanation) String() string {
	return fmt.Sprintf("%s\n    cause:  %s%s", e.text(), e.Cause(), e.alikeText())
}

// Cause is what explains it, for people.
func (e Explanation) Cause() string {
	by := ""
	if e.Operator != "" {
		by = " (" + show.Plain(e.Operator) + ")"
	}
	switch {
	case e.Reset != nil:
		return e.Reset.String()
	case e.BrokenAt != 0:
		if e.Deleted {
			return "an agent deleted the semaphore at " + show.Store(e.BrokenAt)
		}
		return fmt.Sprintf("an operator%s broke the lock at %s", by, show.Store(e.BrokenAt))
	case e.Broken:
		return fmt.Sprintf("an operator%s broke the lock", by)
	}
	return "the first was over by its lease; its process did not run, and learned of it late"
}

func (r StoreReset) String() string {
	switch {
	case r.From == r.To && r.Step > 0:
		return fmt.Sprintf(
			"somebody set the clock of the store forward by %s, between %s and %s", show.Duration(time.Duration(r.Step)),
			show.Store(r.After), show.Store(r.Before),
		)
	case r.From == r.To && r.Step < 0:
		return fmt.Sprintf(
			"somebody set the clock of the store back by %s, between %s and %s", show.Duration(time.Duration(-r.Step)),
			show.Store(r.After), show.Store(r.Before),
		)
	case r.From == r.To:
		return fmt.Sprintf(
			"somebody set the clock of the store: it showed %s, and then %s", show.Store(r.After), show.Store(r.Before),
		)
	case r.After <= r.Before:
		return fmt.Sprintf(
			"the store was reset (%s) at some time %s", show.Plain(r.Reason),
			show.Range(show.StoreWall(r.After), show.StoreWall(r.Before)),
		)
	}
	return fmt.Sprintf(
		"the store was reset (%s), after %s on its clock before, and before %s on its clock since", show.Plain(r.Reason),
		show.Store(r.After), show.Store(r.Before),
	)
}

func (u Unproven) String() string { return fmt.Sprintf("%q: %v: %s", u.Hold.Lock, u.Hold, u.Why) }

func (g RecordHole) String() string {
	if g.Lives > 0 {
		return fmt.Sprintf("all records of agent %s, epochs %d to %d", g.Agent, g.Epoch, g.Epoch+g.Lives-1)
	}
	return fmt.Sprintf("records %d to %d of agent %s, epoch %d", g.First, g.Last, g.Agent, g.Epoch)
}

func (r LateRecord) String() string {
	text := fmt.Sprintf("record %d of agent %s, epoch %d: %s", r.Seq, r.Agent, r.Epoch, r.Kind)
	if r.Lock != "" {
		text += " " + show.Plain(string(r.Lock))
	}
	if r.Dead {
		text += "; the log of the agent was taken to be over until this record came"
	}
	for _, in := range r.In {
		text += fmt.Sprintf("; holds %v were judged without it, and are not proven", in)
	}
	return text
}

func (t Tail) String() string {
	text := fmt.Sprintf("agent %s; its last record is %d of epoch %d", fold.AgentText(t.Agent, t.Process), t.Last, t.Epoch)
	if t.From > 0 && t.To != endOfTime {
		text += fmt.Sprintf("; what it did %s may be missing", show.Range(show.StoreWall(t.From), show.StoreWall(t.To)))
	} else if t.From > 0 {
		text += fmt.Sprintf("; what it did from %s on may be missing", show.Store(t.From))
	}
	if t.Assumed {
		return text + fmt.Sprintf("; it is taken to have lived until %s at the latest", untilText(t.To))
	}
	return text + "; the next process of this agent had begun by then"
}

func (h MessageHole) String() string {
	text := fmt.Sprintf("messages %d to %d of the stream", h.First, h.Last)
	if h.Origin != "" {
		text = fmt.Sprintf(
			"messages %d to %d of origin %s, which has agent %s: they were lost before they were forwarded", h.First, h.Last,
			show.Plain(h.Origin), h.Agent,
		)
	}
	for _, in := range h.In {
		text += fmt.Sprintf("; holds %v are not proven", in)
	}
	return text
}

func (s Stretch) String() string {
	text := "until " + untilText(s.To)
	if s.From != 0 {
		text = fmt.Sprintf("from %s to %s", show.Store(s.From), untilText(s.To))
	}
	if s.Store != "" {
		text += " of store " + show.Plain(s.Store)
	}
	return text
}

func (b JudgedEarly) String() string {
	return fmt.Sprintf("holds %v were judged before the log told that %s", b.Stretch, b.Why)
}

// String tells from when to when a store was judged.
func (j Judged) String() string {
	text := "judged: " + show.Plural(j.Holds, "tenure", "tenures")
	if j.Store != "" {
		text += " of store " + show.Plain(j.Store)
	}
	switch {
	case j.From != 0 && j.To > j.From:
		text += ", " + show.Range(show.StoreWall(j.From), show.StoreWall(j.To))
	case j.From != 0:
		text += ", from " + show.Store(j.From)
	case j.To != 0:
		text += ", up to " + show.Store(j.To)
	}
	if j.Pending > 0 {
		text += fmt.Sprintf("; %s not judged yet", show.Plural(j.Pending, "later one is", "later ones are"))
	}
	if j.Unproven != 0 && j.laterProven {
		text += "; all after " + show.Store(j.Unproven) + " are proven"
	}
	return text
}

// sameHold reports whether both are one hold.
func sameHold(h, other *fold.Hold) bool {
	return h.LockKey == other.LockKey && h.Agent == other.Agent && h.Epoch == other.Epoch && h.Seq == other.Seq
}
