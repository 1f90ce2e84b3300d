//go:build linux && soak

package agentclient

import "testing"

func TestSoakTheDaemonIsKilled(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { daemonIsKilled(t, redis, 100) })
}

func TestSoakTheDaemonGoesAwayDuringExtend(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { daemonGoesAwayDuringExtend(t, redis, 35) })
}

func TestSoakContest(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { contest(t, redis, 8, 30) })
}

func TestSoakQueueInAnyOrder(t *testing.T) { anyOrders(t, 1_000) }
