package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A writer of Redisson's has had the lock while one of ours read: somebody deleted the hash, or it ended early behind a reader of
// Redisson's that died. The reader learns that it has lost the lock, when another agent looks or when it releases the lock. Until then
// our own writers are kept out.
func TestReadersLearnThatAWriterOfAPeerWasThere(t *testing.T) {
	t.Parallel()
	const name, writer = "pages", "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42:write"
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	open := func(t *testing.T, url string) *channelapi.Locks {
		locks, err := channelapi.New(channelapi.Config{Store: open(t, url), Lease: time.Hour}) // no renewal is due
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = locks.Close() })
		return locks
	}
	for title, c := range map[string]struct {
		url  string
		node *redistest.Server
	}{"one server": {server.URL(), server}, "a Cluster": {cluster.URL(), cluster.NodeOf(name)}} {
		for how, ends := range map[string]func(){
			"it was deleted": func() { c.node.Do("DEL", name) },
			"it ended early": func() {
				c.node.Do("PEXPIRE", name, "1") // as a watchdog does that has a short timeout
				waittest.Until(t, "the end of the hash", func() bool { return c.node.Do("EXISTS", name) == any(int64(0)) })
			},
		} {
			for of, opts := range map[string][]channelapi.Option{"a kept lease": nil, "a fixed lease": {channelapi.Lease(5 * time.Minute)}} {
				t.Run(title+"/"+how+"/"+of, func(t *testing.T) {
					reader, other := open(t, c.url), open(t, c.url)
					read := reader.ReadLock(name, opts...)
					overlapped := func() channelapi.Grant {
						t.Helper()
						g, err := read.Acquire(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						ends()
						c.node.Do("HSET", name, "mode", "write", writer, "1")
						c.node.Do("DEL", name)
						return g
					}
					lost := func(err error) {
						t.Helper()
						if e, _ := errors.AsType[*lockagent.LostError](err); e == nil || e.Reason != lockagent.LostDenied {
							t.Errorf("the loss is %v", err)
						}
					}

					g := overlapped()
					_, err := other.WriteLock(name).TryAcquire(t.Context())
					if held, _ := errors.AsType[*lockagent.HeldError](err); held == nil || !strings.HasPrefix(held.Holder, string(reader.ID())) {
						t.Errorf("our writer was told %v", err)
					}
					await(t, g.Done())
					lost(g.Cause())
					w, err := other.WriteLock(name).Acquire(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := w.Release(t.Context()); err != nil {
						t.Error(err)
					}

					g = overlapped()
					lost(g.Release(t.Context()))
				})
			}
		}
	}
}
