//go:build linux && soak

package daemon

import (
	"testing"
	"time"
)

func TestSoakTenThousandWait(t *testing.T) { manyWait(t, 10_000) }

func TestSoakClientsThatDoNotRead(t *testing.T) { clientsDoNotRead(t, 100, 12_000, 64<<20) }

func TestSoakEventLogAndJournal(t *testing.T) { eventLogAndJournal(t, 5, 50) }

// Ten times as many claims: the next daemon does not need much more than ten times as much of the processor.
func TestSoakRestartWithManyClaims(t *testing.T) {
	const many, times = 2_000, 10
	few, more := restartWithMany(t, many), restartWithMany(t, times*many)
	t.Logf("%v of CPU time for %d claims, %v for %d", few, many, more, times*many)
	if few = max(few, 10*time.Millisecond); more > 3*times*few {
		t.Errorf("%v of CPU time for %d claims, and %v for %d times as many", few, many, more, times)
	}
}
