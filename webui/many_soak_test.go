//go:build linux && soak

package webui_test

import "testing"

// The page looks through ten thousand locks for one screen.
func TestSoakManyLocks(t *testing.T) {
	b := browser(t)
	r := run(t, setup{})
	manyLocks(t, r, r.open(t, b), 10_100)
}

// So many locks take the race detector, the daemon and the browser a while.
func TestSoakSizes(t *testing.T) { sizes(t, 5000) }
