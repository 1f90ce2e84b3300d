package agentclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// cancelledWhileAway has a request that the daemon knows cancelled while the daemon is away.
func cancelledWhileAway(t *testing.T, c *clocked) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wait := c.asks(ctx, "ann")
	c.wantTook(t, "acquire 1 for 1")
	_ = c.unlinked(errEnded)
	cancel()
	if err := (<-wait[0]).Err(); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cancelled request: %v", err)
	}
}

// A request that was cancelled while the daemon was away is withdrawn when the daemon is back, even if nobody waits for
// that any more.
func TestACancelledRequestIsWithdrawnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		cancelledWhileAway(t, c)
		time.Sleep(releaseTime + 2*time.Second)
		c.resume()
		c.wantTook(t, "attach 1, release 1")
		c.hear(&lockagentv1.LinkEvent{Ref: 1, What: &lockagentv1.LinkEvent_Released{Released: &lockagentv1.Failure{}}})
		c.wantEmpty(t)
	})
}

// A daemon that does not come back leaves nothing behind in the client.
func TestACancelledRequestIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		cancelledWhileAway(t, c)
		time.Sleep(releaseTime + phantomTime)
		synctest.Wait()
		c.wantEmpty(t)
	})
}

// The end of the client waits for no answer that it does not expect any more.
func TestTheEndDoesNotWaitForCancelledRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		cancelledWhileAway(t, c)
		time.Sleep(releaseTime)
		synctest.Wait()
		idle := c.drain()
		synctest.Wait()
		select {
		case <-idle:
		default:
			t.Error("the end waits for a daemon that is away")
		}
		c.wantEmpty(t)
	})
}
