package servecmd

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natstest.LeftBehind()) }
