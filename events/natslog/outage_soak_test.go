//go:build soak

package natslog

import "testing"

func TestSoakCluster(t *testing.T) {
	t.Parallel()
	clusterKilled(t, 5, 4000)
}

func TestSoakReplayFromTimeOfALateMember(t *testing.T) {
	t.Parallel()
	replayFromTimeOfALateMember(t, 20_000)
}

func TestSoakServerKilled(t *testing.T) {
	t.Parallel()
	serverKilled(t, 6, 20_000)
}

func TestSoakForwardKilled(t *testing.T) {
	t.Parallel()
	forwardKilled(t, 30)
}

func TestSoakForwardKilledWithLosses(t *testing.T) {
	t.Parallel()
	forwardKilledWithLosses(t, 30)
}
