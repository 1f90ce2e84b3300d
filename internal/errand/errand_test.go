package errand_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/internal/errand"
)

func TestErrand(t *testing.T) {
	type key struct{}
	type another struct{}
	e := errand.New(context.WithValue(t.Context(), key{}, 7))
	inner := context.WithValue(context.WithoutCancel(e), another{}, 8)
	if inner.Value(key{}) != 7 {
		t.Error("an errand lost the values of its context")
	}
	done := 0
	if !errand.Leave(inner, func() { done++ }) {
		t.Fatal("nothing could be left")
	}
	if errand.Leave(inner, func() { t.Error("done, though it was not left") }) {
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
	if errand.Leave(inner, func() {}) {
		t.Error("something was left after the caller had finished")
	}
}

func TestNobodyRunsErrands(t *testing.T) {
	if errand.Leave(t.Context(), func() {}) {
		t.Error("something was left to nobody")
	}
	e := errand.New(t.Context())
	e.Finish()
	if errand.Leave(e, func() {}) {
		t.Error("something was left to somebody who does nothing any more")
	}
}
