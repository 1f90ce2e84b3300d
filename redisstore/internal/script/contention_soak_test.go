//go:build soak

package script

import (
	"testing"
	"time"
)

// Each side has at least a third of a fair share, were all as fast, and nobody waits for long.
func TestSoakSlowOutsidersGetTheirShare(t *testing.T) {
	everyCrowd(t, func(t *testing.T, agents, outsiders int) {
		c := contend(t, agents, outsiders)
		c.run(func() bool { return c.grants >= 1000 })
		most := time.Duration(0)
		sides := [2]int{}
		for side, all := range [][]*contender{c.agents, c.outsiders} {
			for _, who := range all {
				sides[side] += who.grants
				most = max(most, who.longest)
			}
		}
		t.Logf("%d grants in %v: agents %d, outsiders %d; longest wait %v", c.grants, c.now, sides[0], sides[1], most)
		for side, members := range []int{agents, outsiders} {
			if fair := c.grants * members / (agents + outsiders); sides[side] < fair/3 {
				t.Errorf("side %d had %d grants of %d; a fair share is %d", side, sides[side], c.grants, fair)
			}
		}
		if most > time.Second {
			t.Errorf("somebody waited for %v", most)
		}
	})
}
