//go:build !race

package lockstate

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// The race detector has the pool of events forget some of them, so this is not tested
// with it.
func TestUncontendedCycleAllocatesNothing(t *testing.T) {
	m := newMill(0, false)
	n := testing.AllocsPerRun(1000, func() {
		m.acquire("ann", false)
		m.granted()
		m.step(Release{ID: m.last, Call: 1})
		m.step(ReleaseReplied{Tenure: m.tenure, Reply: lockagent.ReleaseReply{Released: true}})
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
