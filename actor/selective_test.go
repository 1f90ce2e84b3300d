package actor

import (
	"context"
	"testing"
	"testing/synctest"
)

// choosy is a recorder that wants events only at times.
type choosy struct {
	witness
	enabled func(context.Context) bool
}

func (c *choosy) Enabled(ctx context.Context) bool { return c.enabled(ctx) }

// What happens to locks is not even told while the recorder does not want it. It is asked with the values of the
// caller.
func TestSelectiveRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		wanted := false
		w := &choosy{enabled: func(ctx context.Context) bool { return wanted || ctx.Value(key{}) != nil }}
		a := start(t, Config{Recorder: w})
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		w.tells(t, "agentstarted")
		released(t, granted(t, a.Acquire(context.WithValue(background, key{}, true), "door", who("bob"))))
		w.tells(t, "agentstarted granted released")
		wanted = true
		released(t, granted(t, a.Acquire(background, "door", who("carl"))))
		w.tells(t, "agentstarted granted released granted released returned")
		closed(t, a)
	})
}

// A recorder that cannot say whether it wants an event gets it.
func TestSelectiveRecorderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &choosy{enabled: func(context.Context) bool { panic("no") }}
		a := start(t, Config{Recorder: w, Logger: quiet})
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		w.tells(t, "agentstarted granted released returned")
		closed(t, a)
	})
}
