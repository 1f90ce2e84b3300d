package quorum_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/quorum"
)

// Applications use a quorum of Redis servers like one server. Meanwhile one server after the other
// loses its replies, stops, or is cut off, and one comes back empty.
func TestLocksOnRedis(t *testing.T) {
	t.Parallel()
	all := startServers(t, 3)
	var proxies []*faultproxy.Proxy
	for _, server := range all {
		proxies = append(proxies, faultproxy.Start(t, server.Addr()))
	}
	var agents []*channelapi.Locks
	for range 3 {
		var urls []string
		for _, p := range proxies {
			urls = append(urls, "redis://"+p.Addr())
		}
		store := openNodes(t, quorum.Config{NewNodes: true, NodeTimeout: quorum.DefaultNodeTimeout}, dial(t, urls...))
		locks, err := channelapi.New(channelapi.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		agents = append(agents, locks)
	}

	const visitsEach = 2
	visits, last := 0, lockagent.Token(0) // only the lock guards these
	contend := func(t *testing.T) {
		t.Helper()
		var group sync.WaitGroup
		for _, locks := range agents {
			group.Go(func() {
				for range visitsEach {
					err := locks.Lock(string(orders)).Do(t.Context(), func(_ context.Context, g channelapi.Grant) error {
						visits++
						if g.Token() <= last {
							t.Errorf("token %d after %d", g.Token(), last)
						}
						last = g.Token()
						return nil
					})
					if err != nil && !errors.Is(err, lockagent.ErrUnconfirmed) { // a machine that is busy confirms late
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	for _, p := range proxies {
		p.DropReplies(true)
		contend(t)
		p.DropReplies(false)
		p.Cut()
	}
	contend(t)
	all[0].Pause()
	contend(t)
	all[0].Resume()
	contend(t)
	all[1].Restart() // empty: it has no vote for a minute
	contend(t)
	if want := 7 * visitsEach * len(agents); visits != want {
		t.Errorf("%d visits, want %d: some were at once", visits, want)
	}
	for i, server := range all {
		waittest.Until(t, "everything is given back", func() bool {
			return server.Do("EXISTS", string(orders)).(int64) == 0
		})
		t.Logf("node %d is free", i)
	}
}
