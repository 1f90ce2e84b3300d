package natslog

import (
	"errors"
	"testing"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Who follows a stream learns that another one is in its place, also if that is shorter: then nothing comes where the
// reader is.
func TestTailOfAStreamThatWasReplaced(t *testing.T) {
	t.Parallel()
	c := Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	js := client(t, c)
	for name, from := range map[string]From{"FromTheBeginning": {}, "FromItsEnd": FromPosition(4), "FromNow": FromNow()} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, Config{Connection: c})
			for i := range 3 {
				p.Record(t.Context(), apart(i))
			}
			flushed(t, p)
			r := newReader(t, c)
			seen, ended := make(chan uint64, 10), make(chan error, 1)
			go func() {
				ended <- r.Tail(waittest.Context(t), from, events.Filter{}, func(r *events.Record, err error) error {
					seen <- r.Position
					return err
				})
			}()
			switch name {
			case "FromTheBeginning":
				for range 3 {
					waittest.Receive(t, "a record", seen)
				}
			default:
				waittest.Until(t, "somebody to read", func() bool { return consumers(t, r) > 0 })
			}
			info, err := js.Stream(t.Context(), DefaultStream)
			if err != nil {
				t.Fatal(err)
			}
			cfg := info.CachedInfo().Config
			if err := js.DeleteStream(t.Context(), DefaultStream); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if err := waittest.Receive(t, "the end of the reading", ended); !errors.Is(err, ErrRewound) {
				t.Errorf("it ends with %v", err)
			}
			_ = js.DeleteStream(t.Context(), DefaultStream) // for the next one
		})
	}
}
