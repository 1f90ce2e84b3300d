//go:build linux

package daemon

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A lock that rests in the daemon is held by nobody: when the daemon ends, others have it.
func TestALockRestsWhenTheDaemonEnds(t *testing.T) {
	t.Parallel()
	r := run(t)
	letRest(t, r.client(t))
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	others, err := channelapi.New(channelapi.Config{Store: r.store.Share()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := others.Lock("door").TryAcquire(background)
	if err != nil {
		t.Fatalf("the lock after the end: %v", err)
	}
	if err := g.Release(background); err != nil {
		t.Error(err)
	}
	if err := others.Close(); err != nil {
		t.Error(err)
	}
}

// letRest has a client use the lock again and again, until the lock rests.
func letRest(t *testing.T, c *testClient) {
	t.Helper()
	waittest.Until(t, "the lock rests", func() bool {
		s := c.acquire(t, door)
		s.granted()
		s.end()
		got, err := c.look.Get(background, &lockagentv1.GetRequest{Name: "door"})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetResting()
	})
}
