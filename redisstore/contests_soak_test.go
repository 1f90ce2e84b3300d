//go:build soak

package redisstore_test

import "testing"

func TestSoakAgentsThatContendWhileSlotsMove(t *testing.T) {
	t.Parallel()
	contendWhileSlotsMove(t, 6, 20)
}

func TestSoakAgentsThatUsePermitsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	usePermitsWhileASlotMoves(t, 20, 50)
}

func TestSoakConnectionsThatAreCutAllTheTime(t *testing.T) {
	t.Parallel()
	cutAllTheTime(t, 10_000)
}
