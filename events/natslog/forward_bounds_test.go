package natslog

import (
	"testing"
	"time"
)

// The stream of a hub has a bound if nobody says anything, and what is said.
func TestForwarderBoundsTheHub(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg   ForwardConfig
		bytes int64
		age   time.Duration
	}{
		"ByDefault": {ForwardConfig{}, DefaultMaxBytes, 0},
		"AsSaid":    {ForwardConfig{MaxBytes: 1 << 20, MaxAge: time.Hour}, 1 << 20, time.Hour},
		"Unbounded": {ForwardConfig{MaxBytes: -1}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnds(t)
			streamFor(t, e.source, nil)
			puts(t, e.source, "a", 1, 1)
			test.cfg.Source.Connection, test.cfg.Hub.Connection = e.from, e.to
			forwardWith(t, test.cfg)
			arrived(t, e.hub, 1)
			stream, err := e.hub.Stream(t.Context(), DefaultStream)
			if err != nil {
				t.Fatal(err)
			}
			if cfg := stream.CachedInfo().Config; cfg.MaxBytes != test.bytes || cfg.MaxAge != test.age {
				t.Errorf("the hub has %+v", cfg)
			}
		})
	}
}
