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
	r := runWith(t, socketPath(t), time.Minute) // the test waits for a third of it
	locks := dial(t, r.path)
	limit := waittest.Context(t)
	acquire := func(name string, opts ...channelapi.Option) channelapi.Grant {
		g, err := locks.Lock(name, opts...).Acquire(limit)
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
		g, err := locks.Lock("door").TryAcquire(limit)
		if err == nil {
			_ = g.Release(limit)
		}
		return err == nil
	})
	for _, name := range []string{"context", "end"} {
		if _, err := locks.Lock(name).TryAcquire(limit); !errors.Is(err, channelapi.ErrHeld) {
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
