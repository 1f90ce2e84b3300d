package events

import (
	"errors"
	"testing"
)

// What is known of a hold that goes on is in the checkpoint.
func TestCheckpointOfAHoldThatGoesOn(t *testing.T) {
	log := agent("A").held(1, 100, 200).missing(1).granted(2, 1000).reentered(2, 1100).released(2, 1200).edit(func(r *Record) { r.Count = 0 }).stop().records
	a := NewAudit()
	for _, r := range log[:4] {
		a.Add(r)
	}
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ResumeAudit(text); err != nil {
		t.Fatal(err)
	}
	for _, r := range log[4:] {
		a.Add(r)
	}
	if r := a.Report(); r.Violations.Count != 1 || r.Violations.First[0].Kind != Contradiction || r.Gaps.Count != 1 {
		t.Errorf("%v", r)
	}
}

func TestCheckpointOfAnotherStream(t *testing.T) {
	a := NewAudit()
	if err := a.Identify("LOCKAGENT of Monday"); err != nil {
		t.Fatal(err)
	}
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = ResumeAudit(text); err != nil {
		t.Fatal(err)
	}
	if err := a.Identify("LOCKAGENT of Monday"); err != nil {
		t.Error(err)
	}
	if err := a.Identify("LOCKAGENT of Tuesday"); !errors.Is(err, ErrOtherStream) {
		t.Errorf("another stream: %v", err)
	}
}

func TestNoCheckpoint(t *testing.T) {
	a := NewAudit()
	for _, r := range agent("A").held(1, 100, 200).missing(1).granted(2, 1000).alive(20_000).records {
		a.Add(r)
	}
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	wrong := []string{"", "{", "[]", `{"version":2}`, `{"version":1,"audit":{}}`}
	for i := range text {
		wrong = append(wrong, string(text[:i]))
		if text[i] != '0' {
			wrong = append(wrong, string(text[:i])+"0"+string(text[i+1:]))
		}
	}
	for _, text := range wrong {
		if _, err := ResumeAudit([]byte(text)); !errors.Is(err, ErrCheckpoint) {
			t.Fatalf("%q: %v", text, err)
		}
	}
}
