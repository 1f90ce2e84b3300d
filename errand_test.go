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
	caller := e.Context
	if !lockagent.LeaveToCaller(inner, func(ctx context.Context) {
		done++
		if ctx != caller {
			t.Error("what was left does not know the context of the caller")
		}
	}) {
		t.Fatal("nothing could be left")
	}
	if lockagent.LeaveToCaller(inner, func(context.Context) { t.Error("done, though it was not left") }) {
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
	if lockagent.LeaveToCaller(inner, func(context.Context) {}) {
		t.Error("something was left after the caller had finished")
	}
}

func TestNobodyRunsErrands(t *testing.T) {
	if lockagent.LeaveToCaller(t.Context(), func(context.Context) {}) {
		t.Error("something was left to nobody")
	}
	e := lockagent.NewErrand(t.Context())
	e.Finish()
	if lockagent.LeaveToCaller(e, func(context.Context) {}) {
		t.Error("something was left to somebody who does nothing any more")
	}
}
