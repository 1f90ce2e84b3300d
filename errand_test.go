package lockagent_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent"
)

func TestErrand(t *testing.T) {
	type key struct{}
	type another struct{}
	e := lockagent.NewErrand(context.WithValue(t.Context(), key{}, 7))
	inner := context.WithValue(context.WithoutCancel(e), another{}, 8)
	if inner.Value(key{}) != 7 {
		t.Error("an errand lost the values of its context")
	}
	done := 0
	if !lockagent.LeaveToCaller(inner, func() { done++ }) {
		t.Fatal("nothing could be left")
	}
	if lockagent.LeaveToCaller(inner, func() { t.Error("done, though it was not left") }) {
		t.Error("two things were left")
	}
	if done != 0 {
		t.Error("done before the caller finished")
	}
	e.Finish()
	e.Finish()
	if done != 1 {
		t.Errorf("done %d times", done)
	}
	if lockagent.LeaveToCaller(inner, func() {}) {
		t.Error("something was left after the caller had finished")
	}
}

func TestNobodyRunsErrands(t *testing.T) {
	if lockagent.LeaveToCaller(t.Context(), func() {}) {
		t.Error("something was left to nobody")
	}
	e := lockagent.NewErrand(t.Context())
	e.Finish()
	if lockagent.LeaveToCaller(e, func() {}) {
		t.Error("something was left to somebody who does nothing any more")
	}
}
