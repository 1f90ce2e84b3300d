package sizing

import (
	"context"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/memstore"
)

var _ lockagent.Store = (*link)(nil)

// link is the store of one agent: a memory that it shares with the others. It
// gathers renewals as redisstore does, by the same code, and counts the commands
// that redisstore would send. A command takes no time.
type link struct {
	*memstore.Store
	meter    *meter
	away     *atomic.Bool // the memory cannot be reached, by anybody
	dead     atomic.Bool  // this host is gone
	sent     atomic.Int64 // commands
	gatherer renewals.Gatherer
	onReset  func(lockagent.Reset)
}

func newLink(memory *memstore.Store, m *meter, away *atomic.Bool) *link {
	l := &link{Store: memory.Share(), meter: m, away: away}
	l.gatherer.Send = l.renew
	return l
}

// reach counts a command, and reports whether it arrives.
func (l *link) reach(k kind, name lockagent.Name) bool {
	if l.dead.Load() || l.away.Load() {
		return false
	}
	l.sent.Add(1)
	l.meter.count(name, k)
	return true
}

func (l *link) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	if !l.reach(acquire, req.Name) {
		done(lockagent.AcquireReply{}, lockagent.ErrStoreUnavailable)
		return
	}
	l.Store.Acquire(ctx, req, done)
}

func (l *link) Renew(_ context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	l.gatherer.Add(renewals.Call{Req: req, Done: done})
}

// renew is one command.
func (l *link) renew(batch []renewals.Call) {
	reached := l.reach(renewCommand, batch[0].Req.Name)
	for _, c := range batch {
		if !reached {
			c.Done(lockagent.RenewReply{}, lockagent.ErrStoreUnavailable)
			continue
		}
		l.meter.count(c.Req.Name, renewal)
		l.Store.Renew(context.Background(), c.Req, c.Done)
	}
}

func (l *link) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	if !l.reach(release, req.Name) {
		done(lockagent.ReleaseReply{}, lockagent.ErrStoreUnavailable)
		return
	}
	l.Store.Release(ctx, req, done)
}

func (l *link) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
	l.reach(subscribe, name)
	cancel := l.Store.Subscribe(name, kind, func() {
		l.meter.count(name, message)
		wake()
	})
	return func() {
		l.reach(unsubscribe, name)
		cancel()
	}
}

func (l *link) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
	return l.Store.Listen(agent, func(m lockagent.Message) {
		l.meter.count(m.Name, message)
		hear(m)
	})
}

// OnReset is for the one agent of the link.
func (l *link) OnReset(f func(lockagent.Reset)) (cancel func()) {
	l.onReset = f
	return func() {}
}

// die makes the host go as by kill -9: nothing it sends arrives, and nobody sends
// it anything.
func (l *link) die() {
	l.dead.Store(true)
	_ = l.Close() // always nil
}
