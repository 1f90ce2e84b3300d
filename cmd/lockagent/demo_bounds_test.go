package main

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
)

// The stream that a demonstration makes has the bounds that the flags say, whoever makes it.
func TestDemoMakesTheStream(t *testing.T) {
	t.Setenv("LOCKAGENT_NATS_MAX_AGE", "48h")
	for name, args := range map[string][]string{
		"Agents":    {"--agents", "1"},
		"Processes": {"--processes", "1", "--redis", redistest.Start(t).URL(), "--lease", patientLease},
	} {
		t.Run(name, func(t *testing.T) {
			url := natstest.Start(t, natsserver.Config{Listen: "127.0.0.1:0"}).URL()
			args := append(
				[]string{"demo", "--nats", url, "--nats-max-bytes", "12345678", "--duration", "1h", "--think", "20ms"}, args...,
			)
			r := start(t, args...)
			r.await(t, "it works", working)
			r.interrupt(t).expect(t, cli.ExitOK, nil, nil)
			if cfg := stream(t, url).CachedInfo().Config; cfg.MaxBytes != 12345678 || cfg.MaxAge != 48*time.Hour ||
				cfg.Replicas != 1 {
				t.Errorf("the stream is %+v", cfg)
			}
		})
	}
}
