package script

import (
	"os"
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.M{M: m}.Run()) }
