// Package sizing runs a fleet of agents in virtual time, and counts the calls to its store. It
// compares the numbers with those of docs/performance.md.
package sizing

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
