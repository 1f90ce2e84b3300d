package quorum

import (
	"math"
	"slices"
	"time"
)

// tally counts what nodes say of one lock.
type tally struct {
	holders map[string]int // how many nodes each holder has; the free nodes are under ""
	left    []time.Duration
}

// add counts a node that is held by a holder, or free if the holder is empty.
func (t *tally) add(holder string, left time.Duration) {
	if t.holders == nil {
		t.holders = make(map[string]int)
	}
	t.holders[holder]++
	if left < 0 { // the lease has no end
		left = math.MaxInt64
	}
	t.left = append(t.left, left)
}

// first is the holder that has most nodes. If there are several, it is the first by its text, so
// that all programs see the same.
func (t *tally) first() (holder string, holding int) {
	for h, n := range t.holders {
		if h != "" && (n > holding || n == holding && h < holder) {
			holder, holding = h, n
		}
	}
	return holder, holding
}

// free is when a majority of the nodes will be free, or negative if that is not known.
func (t *tally) free(majority int) time.Duration {
	if len(t.left) < majority {
		return -1
	}
	slices.Sort(t.left)
	if left := t.left[majority-1]; left < math.MaxInt64 {
		return left
	}
	return -1
}
