//go:build soak

package redisstore_test

import (
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// Here and below the whole contract. make test has the cases that most depend on the servers.
func TestSoakContractInACluster(t *testing.T) {
	t.Parallel()
	t.Run("Sharded", func(t *testing.T) {
		t.Parallel()
		redistest.NeedsSharded(t)
		contractInACluster(t, redisstore.ShardedOn)
	})
	t.Run("Classic", func(t *testing.T) {
		t.Parallel()
		contractInACluster(t, redisstore.ShardedOff)
	})
}

func TestSoakContractWithSentinels(t *testing.T) {
	t.Parallel()
	contractWithSentinels(t)
}
