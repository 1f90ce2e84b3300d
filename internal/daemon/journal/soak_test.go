//go:build soak

package journal

import "testing"

func TestSoakKilled(t *testing.T) { killed(t, 100) }

func TestSoakKilledWithRedis(t *testing.T) { killedWithRedis(t, 100) }
