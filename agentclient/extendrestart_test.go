//go:build linux

package agentclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A daemon is killed, told to end, or stopped again and again while holds are extended. Every extension has its answer,
// and it is that the lease is longer. No hold is lost, and no token changes.
func TestTheDaemonGoesAwayDuringExtend(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { daemonGoesAwayDuringExtend(t, redis, 1) })
}

// daemonGoesAwayDuringExtend has the daemon go away so many times in each way.
func daemonGoesAwayDuringExtend(t *testing.T, redis string, times int) {
	t.Parallel()
	// Each hold is extended often enough. But the next daemon has to be there before the lease has run out, on a
	// machine that does much else.
	const holds, lease = 8, time.Minute
	path := socketPath(t)
	settings := []string{"AGENTCLIENT_TEST_STATE=" + t.TempDir(), "AGENTCLIENT_TEST_REDIS=" + redis}
	daemon := start(t, "daemon", path, settings...)
	daemon.says("ready")
	locks := dial(t, path)
	var extended atomic.Int64
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background()) // no extension has a deadline
	defer cancel()
	for i := range holds {
		g, err := locks.Lock(fmt.Sprint("door", i), channelapi.Lease(lease)).Acquire(waittest.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := g.Extend(context.Background(), lease); err != nil {
					t.Errorf("%s: %v", g.Name(), err)
					return
				}
				extended.Add(1)
			}
			if left := g.Remaining(); !g.Held() || left > lease {
				t.Errorf("%s: held is %v, and %v remain: %v", g.Name(), g.Held(), left, g.Cause())
			}
			if err := g.Release(waittest.Context(t)); err != nil {
				t.Errorf("%s: %v", g.Name(), err)
			}
		})
	}
	var ways []int
	for range 3 * times {
		if len(ways) == 0 {
			ways = rand.Perm(3)
		}
		way := ways[0]
		ways = ways[1:]
		before := extended.Load()
		waittest.Until(t, "extensions go on", func() bool { return extended.Load() > before+holds })
		switch way {
		case 0:
			daemon.kill()
		case 1:
			daemon.signal(syscall.SIGTERM)
			if err := daemon.cmd.Wait(); err != nil {
				t.Fatalf("the daemon: %v", err)
			}
		case 2:
			daemon.signal(syscall.SIGSTOP)
			<-time.After(rand.N(50 * time.Millisecond))
			daemon.signal(syscall.SIGCONT)
			continue
		}
		if rand.IntN(2) == 0 {
			<-time.After(rand.N(50 * time.Millisecond)) // without a daemon
		}
		daemon = start(t, "daemon", path, settings...)
		daemon.says("ready")
	}
	cancel()
	workers.Wait()
	t.Logf("%d extensions", extended.Load())
}
