package lockagent_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// A hold that is to outlive its process does, if the process is killed as soon as it has the lock, which it had for
// itself before.
func TestHoldOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	if addr := os.Getenv(agentAddr); addr != "" {
		locks := openAgent(t, redisstore.Config{}, addr, channelapi.Config{})
		for range 100 { // so that the lock may rest
			must(t, holdOf(t, locks, theLock).Release(t.Context()))
		}
		g, err := locks.Lock(theLock, channelapi.Lease(time.Hour), channelapi.Outlive()).Acquire(t.Context())
		must(t, err)
		fmt.Println(g.Token())
		<-g.Done()
		return
	}
	redis := redistest.Start(t)
	other := startAgentProcess(t, redis.Addr())
	other.hear()
	must(t, other.cmd.Process.Kill())
	locks := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	s, err := locks.Lock(theLock).Status(t.Context())
	must(t, err)
	if !s.Locked || s.Remaining < 55*time.Minute {
		t.Errorf("after the process was killed the lock is %+v", s)
	}
}
