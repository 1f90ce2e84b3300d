package inperson_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/internal/inperson"
)

func TestContext(t *testing.T) {
	type key struct{}
	type another struct{}
	outer, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
	own := inperson.Context(outer)
	inner := context.WithValue(own, another{}, 8)
	other := inperson.Not(inner)
	for _, c := range []struct {
		what string
		ctx  context.Context
		is   bool
	}{
		{"a context", outer, false},
		{"that of the caller", own, true},
		{"one that was made from it", inner, true},
		{"one for another", other, false},
		{"another of another", inperson.Not(outer), false},
	} {
		if is := inperson.Is(c.ctx); is != c.is {
			t.Errorf("%s: the call may wait: %v", c.what, is)
		}
		if c.ctx.Value(key{}) != 7 {
			t.Errorf("%s has lost the values", c.what)
		}
	}
	cancel()
	if inner.Err() == nil {
		t.Error("the context of a call that waits does not end")
	}
	if other.Err() != nil {
		t.Error("the context of a call that must not wait ends")
	}
}
