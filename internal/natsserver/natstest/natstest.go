// Package natstest starts NATS servers that end with the test that uses them.
package natstest

import (
	"log/slog"
	"testing"

	"github.com/lockagent/lockagent/internal/natsserver"
)

// Start starts a server and stops it when the test ends. The zero cfg is a
// server with a temporary log that only the process can reach. What the server
// logs goes to the log of the test.
func Start(t testing.TB, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Temporary = true
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
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
