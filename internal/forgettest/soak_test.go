//go:build soak

package forgettest

import (
	"testing"
	"time"
)

// soon is how long a hot lock is granted to nobody at most, if all agents live. If one of them is frozen, the bound is
// the lease of that agent, and hears: what a waiter needs to hear that the lease is over.
const soon, hears = 1500 * time.Millisecond, 200 * time.Millisecond

func TestSoakStoreForgets(t *testing.T) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var all Figures
			for range Runs(t) {
				t.Run("", func(t *testing.T) { // its servers are gone when it ends
					all.Add(c.Run(t, "lockagent", Kinds))
				})
			}
			t.Logf("\n%s\n%s\n%s", Header, all.Row(c.Name), all.Details())
			if all.Fallen > 0 || all.Unanswered > 0 {
				t.Errorf("%d tokens fell, and %d requests were not answered", all.Fallen, all.Unanswered)
			}
			if all.Overlaps > 0 || all.LostHolds() > 0 {
				t.Errorf("%d overlaps, and %d holds were lost", all.Overlaps, all.LostHolds())
			}
			most := soon
			if c.Frozen {
				most = Lease + hears
			}
			if all.Ungranted > most {
				t.Errorf("for %v nobody was granted a hot lock, want at most %v", all.Ungranted, most)
			}
		})
	}
}
