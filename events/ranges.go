package events

import (
	"cmp"
	"slices"
)

// ranges is a set of sequence numbers, as ranges in ascending order that do not
// touch.
type ranges []Range

// Range is the sequence numbers from First to Last.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// add reports whether seq is new.
func (r *ranges) add(seq uint64) bool {
	// The first range that ends at seq-1 or later is the one to extend, or stands
	// behind the place for a new one.
	i, _ := slices.BinarySearchFunc(*r, seq-1, func(x Range, seq uint64) int { return cmp.Compare(x.Last, seq) })
	if i == len(*r) || (*r)[i].First > seq+1 {
		*r = slices.Insert(*r, i, Range{seq, seq})
		return true
	}
	x := &(*r)[i]
	switch {
	case x.First <= seq && seq <= x.Last:
		return false
	case seq == x.First-1:
		x.First = seq
	default: // seq == x.Last+1
		x.Last = seq
		if i+1 < len(*r) && (*r)[i+1].First == seq+1 {
			x.Last = (*r)[i+1].Last
			*r = slices.Delete(*r, i+1, i+2)
		}
	}
	return true
}

// last returns the greatest number of the set, which must not be empty.
func (r ranges) last() uint64 { return r[len(r)-1].Last }

// holes returns the numbers from 1 to the last that are not in the set.
func (r ranges) holes() []Range {
	var holes []Range
	next := uint64(1)
	for _, x := range r {
		if x.First > next {
			holes = append(holes, Range{next, x.First - 1})
		}
		next = x.Last + 1
	}
	return holes
}

// hole returns the first range of numbers between after and before that are not
// in the set, and false if all are. before must not be greater than the last
// number of the set.
func (r ranges) hole(after, before uint64) (Range, bool) {
	first := after + 1
	i, _ := slices.BinarySearchFunc(r, first, func(x Range, first uint64) int { return cmp.Compare(x.Last, first) })
	if i < len(r) && r[i].First <= first {
		first = r[i].Last + 1
		i++
	}
	if first >= before {
		return Range{}, false
	}
	return Range{first, min(r[i].First, before) - 1}, true
}
