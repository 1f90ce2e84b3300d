package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/tracing"
)

// asProcess in the environment makes the test binary a process of a demonstration.
const asProcess = "LOCKAGENT_TEST_JOIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		if err := Join(context.Background(), os.Stdin, slog.Default(), tracing.Config{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(75)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind())
}

// joiner makes the command that runs Join in a process.
func joiner(t *testing.T) func() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func() *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), asProcess+"=1")
		cmd.Stderr = t.Output()
		return cmd
	}
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
