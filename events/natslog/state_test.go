package natslog

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// A stream is shared if a position in it may be that of something else.
func TestStateOfAStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg    jetstream.StreamConfig
		shared bool
	}{
		"OfEvents": {jetstream.StreamConfig{Subjects: []string{events.AllSubjects}}, false},
		"OfSomeAgents": {
			jetstream.StreamConfig{Subjects: []string{events.DefaultPrefix + ".a.>", events.DefaultPrefix + ".b.>"}}, false,
		},
		"OfOthersToo": {jetstream.StreamConfig{Subjects: []string{events.AllSubjects, "orders.>"}}, true},
		"OfAll":       {jetstream.StreamConfig{Subjects: []string{"lockagent.>"}}, true},
		"Gathered": {
			jetstream.StreamConfig{Subjects: []string{events.AllSubjects}, Sources: []*jetstream.StreamSource{{Name: "other"}}},
			true,
		},
		"Mirror": {jetstream.StreamConfig{Mirror: &jetstream.StreamSource{Name: "other"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := natstest.Start(t, natsserver.Config{})
			js := client(t, Connection{InProcess: server})
			test.cfg.Name = DefaultStream
			if _, err := js.CreateStream(t.Context(), test.cfg); err != nil {
				t.Fatal(err)
			}
			r, err := OpenReader(ReaderConfig{Connection: Connection{InProcess: server}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			s, err := r.State(t.Context())
			if err != nil || s.Shared != test.shared {
				t.Errorf("%+v, %v", s, err)
			}
			// The server is on this machine.
			if d := time.Since(s.Now); d < -time.Hour || d > time.Hour {
				t.Errorf("it is %v", s.Now)
			}
		})
	}
}
