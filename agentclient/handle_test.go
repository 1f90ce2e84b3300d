//go:build linux

package agentclient

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A grant that the application has dropped is given back after its first renewals. One whose context, or whose Done, is in use is
// not.
func TestADroppedGrant(t *testing.T) {
	t.Parallel()
	r := runWith(t, socketPath(t), 10*time.Second) // is renewed soon, and long enough for a busy machine
	locks := dial(t, r.path)
	acquire := func(name string, opts ...channelapi.Option) channelapi.Grant {
		g, err := locks.Lock(name, opts...).Acquire(waittest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	ctx := acquire("context").Context(t.Context())
	done := acquire("end").Done()
	if cause := acquire("door").Cause(); cause != nil { // whoever asks for the cause does not wait
		t.Error(cause)
	}
	waittest.Until(t, "the dropped grant is given back", func() bool {
		runtime.GC()
		g, err := locks.Lock("door").TryAcquire(waittest.Context(t))
		if err == nil {
			_ = g.Release(waittest.Context(t))
		}
		return err == nil
	})
	for _, name := range []string{"context", "end"} {
		if _, err := locks.Lock(name).TryAcquire(waittest.Context(t)); !errors.Is(err, channelapi.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("a hold that is in use has ended: %v", context.Cause(ctx))
	}
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
	<-done
	<-ctx.Done()
}
