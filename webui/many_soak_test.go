//go:build linux && soak

package webui_test

import (
	"testing"
	"time"
)

// The page looks through ten thousand locks for one screen.
func TestSoakManyLocks(t *testing.T) {
	b := browser(t)
	r := run(t, setup{})
	manyLocks(t, r, r.open(t, b), 10_100)
}

// So many locks take the race detector, the daemon and the browser a while.
func TestSoakSizes(t *testing.T) { sizes(t, 5000) }

// A page of many locks shows a change within 300 ms, which people take for at once. The quickest change says what the
// page needs. On a busy machine that may take many changes.
func TestSoakChangeToRow(t *testing.T) {
	const most, patience = 300 * time.Millisecond, 5 * time.Minute
	change := changes(t, browser(t), 500)
	least := change(0)
	for n, began := 1, time.Now(); least > most && time.Since(began) < patience; n++ {
		least = min(least, change(n))
	}
	if least > most {
		t.Errorf("it takes %v at least, and may take %v", least, most)
	}
}
