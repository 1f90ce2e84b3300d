package demo

import (
	"errors"
	"testing"

	"github.com/lockagent/lockagent"
)

const counter lockagent.Name = "counter"

// step is an operation and what it should come to.
type step struct {
	write bool
	token lockagent.Token
	value int64 // to write, or that should be read
	stale bool
}

func perform(t *testing.T, r counters, steps []step) {
	t.Helper()
	for i, s := range steps {
		var err error
		value := s.value
		if s.write {
			err = r.write(counter, s.token, s.value)
		} else {
			value, err = r.read(counter, s.token)
		}
		if errors.Is(err, errStale) != s.stale || !s.stale && err != nil {
			t.Fatalf("step %d, %+v: error %v", i, s, err)
		}
		if err == nil && value != s.value {
			t.Fatalf("step %d, %+v: read %d", i, s, value)
		}
	}
}

// A holder that was lost and comes back must not undo what its successor did, nor
// read while its successor writes.
var fencedSteps = []step{
	{token: 5},
	{token: 9}, // the successor reads; from now on 5 is too old
	{token: 5, write: true, value: 1, stale: true},
	{token: 5, stale: true},
	{token: 9, write: true, value: 1},
	{token: 10, value: 1},
	{token: 9, write: true, value: 2, stale: true},
}

func TestResourceRefusesOldTokens(t *testing.T) {
	r := newResource([]lockagent.Name{counter}, true)
	perform(t, r, fencedSteps)
	if got, want := r.state()[counter], (Counter{Value: 1, Writes: 1, Refused: 3, seen: 10}); got != want {
		t.Errorf("state is %+v, want %+v", got, want)
	}
}

func TestResourceWithoutTokensLosesUpdates(t *testing.T) {
	r := newResource([]lockagent.Name{counter}, false)
	perform(t, r, []step{
		{},
		{}, // two workers read 0
		{write: true, value: 1},
		{write: true, value: 1}, // and one update is lost
	})
	c := r.state()[counter]
	if c.Lost() != 1 || c.Writes != 2 {
		t.Errorf("%d of %d updates lost, want 1 of 2", c.Lost(), c.Writes)
	}
}
