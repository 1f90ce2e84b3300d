package forgets

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/forgettest"
)

// libraries are those that are asked.
var libraries = map[string]forgettest.Open{
	"lockagent":   forgettest.OpenLockagent,
	"rueidislock": openRueidislock,
	"Redisson":    openRedisson,
}

func TestMain(m *testing.M) {
	forgettest.Child(libraries)
	goleak.VerifyTestMain(m)
}
