package redisstore_test

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// BenchmarkManyPermits is how long a script blocks the server for the most permits that one tenure can have.
func BenchmarkManyPermits(b *testing.B) {
	server := redistest.Start(b)
	store := open(b, server.URL())
	set := lockagent.PermitsRequest{
		Name: "pool", Kind: lockagent.Permits, Op: lockagent.TrySetPermits, N: lockagent.MaxTaken, Change: "set",
	}
	if _, err := storetest.Permits(b, store, set); err != nil {
		b.Fatal(err)
	}
	req := wish("pool", agentA, 1)
	req.Kind, req.Permits = lockagent.Permits, lockagent.MaxTaken
	for b.Loop() {
		if reply, err := storetest.Acquire(b, store, req); err != nil || !reply.Granted {
			b.Fatal(reply, err)
		}
		renewal := lockagent.RenewRequest{
			Name: "pool", Kind: req.Kind, Tenure: req.Tenure, Lease: time.Minute, Urgent: true,
		}
		if reply, err := storetest.Renew(b, store, renewal); err != nil || !reply.Held {
			b.Fatal(reply, err)
		}
		last := end(req)
		last.Kind = req.Kind
		if reply, err := storetest.Release(b, store, last); err != nil || !reply.Released {
			b.Fatal(reply, err)
		}
	}
}
