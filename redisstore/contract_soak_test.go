//go:build soak

package redisstore_test

import "testing"

// Here and below the whole contract. make test has the cases that most depend on the servers.
func TestSoakContractInACluster(t *testing.T) {
	t.Parallel()
	contractInACluster(t)
}

func TestSoakContractWithSentinels(t *testing.T) {
	t.Parallel()
	contractWithSentinels(t)
}
