//go:build soak

package lockstate

import "testing"

func TestSoakSmallWorld(t *testing.T) { explore(t, 30_000) }

func TestSoakLongWalksThroughTheSmallWorld(t *testing.T) { walk(t, 300) }

func TestSoakSmallWorldOfALatch(t *testing.T) { exploreLatch(t, 30_000) }

func TestSoakLongWalksThroughTheSmallWorldOfALatch(t *testing.T) { walkLatch(t, 300) }
