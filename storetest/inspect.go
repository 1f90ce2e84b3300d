package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

var inspectClauses = []clause{
	{
		name: "of a free lock there is nothing to tell",
		says: "Inspect tells what the store knows of a lock.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			free := func() {
				t.Helper()
				if seen := two.inspect(theLock); seen != (lockagent.Inspection{}) {
					t.Errorf("Inspect of a free lock = %+v", seen)
				}
			}
			free()
			one.acquire(theLock, 1)
			one.release(theLock, 1, true)
			free()
		},
	},
	{
		name: "it tells the holder of a held lock",
		says: "as the holder wrote it: always 1 for a Tenure",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.acquire(theLock, 3)
			for _, p := range []*party{one, two} {
				seen := p.sees(theLock, one.tenure(3).String())
				if seen.HoldCount != 1 || seen.Remaining <= 0 || seen.Remaining > minute {
					t.Errorf("Inspect = %+v; want hold count 1, and what is left of %v", seen, minute)
				}
			}
		},
	},
}
