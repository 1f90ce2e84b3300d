package script

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.M{M: m}) }
