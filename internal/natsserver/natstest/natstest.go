// Package natstest starts NATS servers that end with the test that uses them.
package natstest

import (
	"bytes"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/natsserver"
)

// Start starts a server and stops it when the test ends. The zero cfg is a
// server with a temporary log that only the process can reach. All that the server
// says goes to the log of the test, if the test fails.
func Start(t testing.TB, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Temporary = true
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 8 << 30 // and not a part of the free space: a stream of the default size would not fit on a full disk
	}
	if cfg.Logger == nil {
		var said bytes.Buffer // each handler has a mutex of its own around its writes
		cfg.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
		t.Cleanup(func() { // after the stop
			if t.Failed() {
				t.Logf("the log of the NATS server:\n%s", &said)
			}
		})
	}
	s, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return s
}

// LeftBehind has goleak overlook the goroutine that a NATS server may leave behind for half a minute when it stops. A
// stream has asked its source for a consumer, and the goroutine waits for the answer. The stream of the urgent copies
// has a source.
func LeftBehind() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3")
}
