package main

import "testing"

// Who passes a lock on more rarely than others does so all the time that they do.
func TestTurnsAreSpread(t *testing.T) {
	const turns = 120
	for _, n := range []int{0, 1, 25, 60, 119, 120} {
		taken := 0
		for turn := range turns {
			if takesPart(n, turn, turns) {
				taken++
			}
			if even := float64(n) * float64(turn+1) / turns; float64(taken) > even || float64(taken) <= even-1 {
				t.Errorf("of %d, %d took place in the first %d turns", n, taken, turn+1)
			}
		}
	}
}
