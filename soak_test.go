//go:build soak

package lockagent_test

import "testing"

func TestSoakOutageAndCrashes(t *testing.T) {
	t.Parallel()
	outageAndCrashes(t, 8000, 500)
}

func TestSoakKilledAgain(t *testing.T) {
	t.Parallel()
	killedAgain(t, 60)
}
