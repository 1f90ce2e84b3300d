package audit

import (
	"errors"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// What is known of a hold that goes on is in the checkpoint.
func TestCheckpointOfAHoldThatGoesOn(t *testing.T) {
	log := agent("A").held(1, 100, 200).missing(1).granted(2, 1000).reentered(2, 1100).released(2, 1200).
		edit(func(r *events.Record) { r.Count = 0 }).stop().records
	a := newAudit()
	for _, r := range log[:4] {
		a.Add(r)
	}
	a = resumed(t, a)
	for _, r := range log[4:] {
		a.Add(r)
	}
	if r := a.Report(); r.Violations.Count != 1 || r.Violations.First[0].Kind != Contradiction ||
		r.RecordHoles.Count != 1 {
		t.Errorf("%v", r)
	}
}

// So is a hold on a lock of which all is judged that the log tells.
func TestCheckpointOfAHoldThatIsNotJudged(t *testing.T) {
	a := newAudit()
	for _, r := range agent("A").granted(1, 1000).edit(func(r *events.Record) { r.LockKind = "barrier" }).records {
		a.Add(r)
	}
	a = resumed(t, a)
	if n := len(a.fold.Holds("A")); n != 1 {
		t.Errorf("%d holds", n)
	}
}

func TestCheckpointOfAnotherStream(t *testing.T) {
	a := newAudit()
	if err := a.Identify("LOCKAGENT of Monday"); err != nil {
		t.Fatal(err)
	}
	a = a.resumed(t)
	if err := a.Identify("LOCKAGENT of Monday"); err != nil {
		t.Error(err)
	}
	if err := a.Identify("LOCKAGENT of Tuesday"); !errors.Is(err, ErrOtherStream) {
		t.Errorf("another stream: %v", err)
	}
}

func TestNoCheckpoint(t *testing.T) {
	a := newAudit()
	for _, r := range agent("A").held(1, 100, 200).missing(1).granted(2, 1000).alive(20_000).records {
		a.Add(r)
	}
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	wrong := []string{"", "{", "[]", `{"version":1}`, `{"version":2,"snapshot":{}}`}
	for i := range text {
		wrong = append(wrong, string(text[:i]))
		if text[i] != '0' {
			wrong = append(wrong, string(text[:i])+"0"+string(text[i+1:]))
		}
	}
	for _, text := range wrong {
		if _, err := Resume([]byte(text)); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// Another agent tells of a reset when what it explains has been judged. The explanation stays as it is,
// whether there was a checkpoint in between or not.
func TestCheckpointOfAnExplanation(t *testing.T) {
	a, b, c := agent("A").on("x"), agent("B").on("y"), agent("C")
	reset := lockagent.Reset{From: "x", To: "y", Reason: "emptied", After: clock(1100), Before: clock(1400)}
	s := new(tape).add(0, a, b, c).
		add(2000, a.granted(1, 1000).reset(reset).lost(lockagent.LostDenied, 1, 1900), b.reset(reset).held(1, 1500, 1700))
	whole := s.live(10_000, 60_000, a, b, c).read(newAudit())
	parts := resumed(t, whole)
	if whole.found.Explained.Count != 1 {
		t.Fatalf("%v", whole.Report())
	}
	reset.After = clock(900)
	s.records = nil
	s.add(61_000, a.stop(), b.stop(), c.reset(reset).stop())
	for _, auditor := range []*testAudit{whole, parts} {
		r := s.read(auditor).Report()
		if cause := r.Explained.First[0].Reset; cause.After != clock(1100) || r.Resets.First[0].After != clock(900) {
			t.Errorf("%v", r)
		}
	}
}

// What a report names of many findings depends on the order in which locks are judged. So that must not depend on how
// they are kept: a checkpoint changes that.
func TestOrderInWhichLocksAreJudged(t *testing.T) {
	a, s := newAudit(), agent("A")
	for n, lock := range []lockagent.Name{"c", "a", "d", "b"} {
		s.of(lock).granted(uint64(n+1), 1000-n)
	}
	for _, r := range s.records {
		a.Add(r)
	}
	var order []lockagent.Name
	for _, l := range a.due(a.store("s"), endOfTime) {
		order = append(order, l.Lock)
	}
	if !slices.Equal(order, []lockagent.Name{"a", "b", "c", "d"}) {
		t.Errorf("%v", order)
	}
}
