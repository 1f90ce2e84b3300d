package lockagent_test

import (
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// A holder learns over a real Redis that another agent waits, long before its first renewal. So it gives way, and the
// next holder learns of the one behind.
func TestAHolderGivesWayToAnotherAgent(t *testing.T) {
	redis := redistest.Start(t)
	var agents []*channelapi.Locks
	for range 3 {
		agents = append(agents, openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{}))
	}
	for kind, lock := range map[string]func(l *channelapi.Locks) channelapi.AnyLock{
		"plain":  func(l *channelapi.Locks) channelapi.AnyLock { return l.Lock("plain") },
		"fair":   func(l *channelapi.Locks) channelapi.AnyLock { return l.FairLock("fair") },
		"fenced": func(l *channelapi.Locks) channelapi.AnyLock { return l.FencedLock("fenced") },
		"spin":   func(l *channelapi.Locks) channelapi.AnyLock { return l.SpinLock("spin") },
		"write":  func(l *channelapi.Locks) channelapi.AnyLock { return l.WriteLock("write") },
	} {
		g, err := lock(agents[0]).Acquire(t.Context())
		must(t, err)
		wanted := g.Wanted()
		second := lock(agents[1]).AcquireAsync(t.Context())
		waittest.Receive(t, kind+": word of another agent", wanted)
		third := lock(agents[2]).AcquireAsync(t.Context())
		must(t, g.Release(t.Context()))
		select {
		case g = <-second:
			second = third
		case g = <-third:
		}
		must(t, g.Err())
		waittest.Receive(t, kind+": word of the one behind", g.Wanted())
		must(t, g.Release(t.Context()))
		g = receive(t, second)
		must(t, g.Err())
		must(t, g.Release(t.Context()))
	}
}
