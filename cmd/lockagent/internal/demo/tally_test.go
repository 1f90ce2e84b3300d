package demo

import (
	"bytes"
	"encoding/gob"
	"reflect"
	"testing"
	"time"
)

func TestStatsAddUp(t *testing.T) {
	one, two := newTally(), newTally()
	one.add(func(s *Stats) {
		s.HandOffs, s.Acquires, s.Renewals, s.Releases, s.Unconfirmed, s.Unfinished, s.Resets = 1, 2, 3, 4, 5, 6, 2
		s.Losses["denied"] = 1
	})
	two.add(func(s *Stats) {
		s.HandOffs, s.Acquires, s.Renewals, s.Releases, s.Unconfirmed, s.Unfinished, s.Resets = 10, 20, 30, 40, 50, 60, 1
		s.Losses["denied"], s.Losses["deadline"] = 2, 1
	})
	for range 99 {
		one.granted(time.Millisecond)
	}
	two.granted(2 * maxWait)

	// The statistics of a process come over a wire.
	var wire bytes.Buffer
	var far Stats
	if err := gob.NewEncoder(&wire).Encode(two.read()); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(&wire).Decode(&far); err != nil {
		t.Fatal(err)
	}
	sum := Stats{}.add(one.read()).add(far)
	waits := sum.waits()
	sum.Waits = nil
	want := Stats{
		Grants: 100, HandOffs: 11, Acquires: 22, Renewals: 33, Releases: 44, Unconfirmed: 55, Unfinished: 66,
		Resets: 2, // they are the same ones
		Losses: map[string]uint64{"denied": 3, "deadline": 1},
	}
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("the sum is %+v, want %+v", sum, want)
	}
	if sum.lost() != 4 || sum.calls() != 99 {
		t.Errorf("%d lost and %d calls, want 4 and 99", sum.lost(), sum.calls())
	}
	if n := waits.TotalCount(); n != 100 {
		t.Errorf("%d waits, want 100", n)
	}
	for percent, want := range map[float64]int64{50: 1000, 99: 1000, 100: maxWait.Microseconds()} {
		if got := waits.ValueAtQuantile(percent); got < want || got > want+want/64 {
			t.Errorf("%v %% of the waits were up to %d us, want about %d", percent, got, want)
		}
	}
	if one.read().Losses["denied"] != 1 {
		t.Error("adding has changed what was added")
	}
}
