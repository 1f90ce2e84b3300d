// Package natstest starts NATS servers that end with the test that uses them.
package natstest

import (
	"bytes"
	"log/slog"
	"testing"

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
