package main

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard")
	open := func() *guard {
		t.Helper()
		g, err := newGuard(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.close(); err != nil {
				t.Error(err)
			}
		})
		return g
	}
	a, b := open(), open() // as if of two processes
	a.hold(func() {})
	b.hold(func() {})
	if err := a.check(2, 0); err != nil {
		t.Errorf("one after the other: %v", err)
	}
	a.hold(func() { b.hold(func() {}) })
	if n := b.overlap.Load(); n != 1 {
		t.Errorf("%d overlaps were seen, want 1", n)
	}
	if err := a.check(4, 0); !errors.Is(err, errOverlap) {
		t.Errorf("the counter does not tell: %v", err)
	}
	if err := a.check(3, 1); !errors.Is(err, errOverlap) {
		t.Errorf("an overlap that was seen is nothing: %v", err)
	}
}
