package events

import "hash/maphash"

const (
	internSlots = 4096 // a power of 2
	internBytes = 256  // texts that are longer seldom repeat
)

// interner returns the same string for texts that repeat, such as the names of agents,
// locks and owners. So reading a log allocates little. Each slot has the last text that
// fell into it. So the size of the interner is bounded.
type interner struct {
	seed  maphash.Seed
	slots [internSlots]string
}

func newInterner() *interner { return &interner{seed: maphash.MakeSeed()} }

func (in *interner) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internBytes {
		return string(b)
	}
	slot := &in.slots[maphash.Bytes(in.seed, b)%internSlots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}
