//go:build linux

package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// stuckStore does not return from the calls about one lock, until it is closed.
type stuckStore struct {
	*memstore.Store
	lock   lockagent.Name
	closed chan struct{}
}

// Acquire implements [lockagent.Store].
func (s *stuckStore) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	if req.Name == s.lock {
		<-s.closed
	}
	s.Store.Acquire(ctx, req, done)
}

// alive asks for a minute.
func alive(d *Daemon) bool {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	return d.Alive(ctx)
}

// A daemon is alive also while its store is away, says nothing, or is closed. It is not while the claims or the actors
// are stuck.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &stuckStore{lock: aliveLatch, closed: make(chan struct{})}
		b := besiege(t, func(cfg *Config) {
			stuck.Store = cfg.Store.(*memstore.Store)
			cfg.Store = stuck
		})
		if alive(b.d) {
			t.Error("a daemon whose actors are stuck is alive")
		}
		close(stuck.closed)
		synctest.Wait()
		if !alive(b.d) {
			t.Error("a daemon is not alive")
		}
		b.store.SetOutage(lockagent.ErrStoreUnavailable)
		if !alive(b.d) {
			t.Error("a daemon whose store is away is not alive")
		}
		b.store.SetOutage(nil)
		goOn := b.store.Hang()
		if !alive(b.d) {
			t.Error("a daemon whose store says nothing is not alive")
		}
		goOn()
		synctest.Wait()
		b.others()
		b.shut()
		if !alive(b.d) {
			t.Error("a daemon that has ended has no answer")
		}
	})
}
