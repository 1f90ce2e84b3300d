//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
)

// aliveLatch is a latch that nobody makes. To wait for it takes one reading of the store. It leaves no event and no
// record.
const aliveLatch lockagent.Name = "lockagent/alive"

// aliveTime is for how long the store may take to say that there is no such latch.
const aliveTime = time.Second

// Alive reports whether a request gets through the claims and an actor to its answer, before ctx ends. Any answer will
// do: a store that is away is no reason to start the daemon anew.
func (d *Daemon) Alive(ctx context.Context) bool {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		d.book.Counts()
		asks, cancel := context.WithTimeout(context.Background(), aliveTime)
		defer cancel()
		_ = <-d.agent.Await(asks, aliveLatch, lockagent.Owner(d.agent.ID()), 0) // any answer will do
	}()
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return false
	}
}
