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

// A grant that the application has dropped is given back after its first renewals, also if somebody waits at its
// channel. One whose context is in use is not.
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
	waittest.Until(t, "whoever waits for the end of a dropped grant learns of it", func() bool {
		runtime.GC()
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if _, err := locks.Lock("context").TryAcquire(limit); !errors.Is(err, channelapi.ErrHeld) {
		t.Errorf("the lock whose context is in use: %v", err)
	}
	if ctx.Err() != nil {
		t.Errorf("a hold that is in use has ended: %v", context.Cause(ctx))
	}
	if err := locks.Close(); err != nil {
		t.Error(err)
	}
	<-ctx.Done()
}
