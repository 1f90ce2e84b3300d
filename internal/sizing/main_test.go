// Package sizing runs a fleet of agents in virtual time and counts what its store
// is asked for, beside what docs/performance.md says that it should be.
package sizing

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
