package forgettest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Child(map[string]Open{"lockagent": OpenLockagent})
	goleak.VerifyTestMain(m)
}
