package scenarios

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

// world is a store with the locks of one kind.
type world struct {
	*testing.T
	kind kind
	open func() lockagent.Store // makes the store of one more agent

	memory *memstore.Store   // or nil
	redis  *redistest.Server // or nil
}

// name is the lock that most scenarios are about.
const name = "orders/42"

// inMemory runs a scenario in memory, and on virtual time.
func inMemory(t *testing.T, k kind, run func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		run(&world{T: t, kind: k, memory: memory, open: func() lockagent.Store { return memory.Share() }})
	})
}

// sleep lets virtual time pass.
func (w *world) sleep(d time.Duration) {
	w.Helper()
	if w.memory == nil {
		w.Fatal("a test with servers waits for what shall happen")
	}
	time.Sleep(d)
}

func onRedis(t *testing.T, k kind, run func(*world)) {
	t.Parallel()
	redis := redistest.Start(t)
	run(&world{T: t, kind: k, redis: redis, open: func() lockagent.Store { return openRedis(t, redis.URL()) }})
}

func openRedis(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	// Servers answer late on a machine that is busy.
	cfg := redisstore.Config{
		DialTimeout: time.Minute, CallTimeout: time.Minute, SilenceTimeout: time.Minute, GraceFirst: redisstore.NoGraceFirst,
	}
	store, err := cfg.Open(waittest.Context(t), url)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

// agent is one agent with its sessions.
type agent struct {
	*channelapi.Locks
	world    *world
	sessions map[string]*channelapi.Session
}

func (w *world) agent() *agent { return w.agentOver(w.open()) }

func (w *world) agentOver(store lockagent.Store) *agent {
	w.Helper()
	return w.agentWith(channelapi.Config{Store: store})
}

func (w *world) agentWith(cfg channelapi.Config) *agent {
	w.Helper()
	locks, err := channelapi.New(cfg)
	must(w, err)
	w.Cleanup(func() { _ = locks.Close() })
	return &agent{locks, w, make(map[string]*channelapi.Session)}
}

func (w *world) agents(n int) []*agent {
	all := make([]*agent, n)
	for i := range all {
		all[i] = w.agent()
	}
	return all
}

// lock is the lock that the scenario is about, for an owner with a session of its own. Only the goroutine of
// the test may call it.
func (a *agent) lock(owner string, opts ...channelapi.Option) lock {
	return a.named(name, owner, opts...)
}

func (a *agent) named(name, owner string, opts ...channelapi.Option) lock {
	a.world.Helper()
	s := a.sessions[owner]
	if s == nil {
		var err error
		s, err = a.Session(owner)
		must(a.world, err)
		a.sessions[owner] = s
	}
	return a.world.kind.handles(s, name, opts...)
}

// lock is a lock of any kind, as one owner has it.
type lock []handle

func (l lock) acquire(ctx context.Context) (held, error) {
	if len(l) == 1 {
		g, err := l[0].Acquire(ctx)
		return held{g}, err
	}
	return channelapi.All(ctx, l.any()...)
}

func (l lock) any() []channelapi.AnyLock {
	handles := make([]channelapi.AnyLock, len(l))
	for i, h := range l {
		handles[i] = h
	}
	return handles
}

// abandon asks for the lock, and does not receive the grant.
func (l lock) abandon(ctx context.Context) {
	if len(l) == 1 {
		l[0].AcquireAsync(ctx)
	} else {
		channelapi.AllAsync(ctx, l.any()...)
	}
}

// hold acquires the lock, or ends the test. Only the goroutine of the test may call it.
func (l lock) hold(t testing.TB) held {
	t.Helper()
	h, err := l.acquire(waittest.Context(t))
	must(t, err)
	return h
}

// start acquires the lock in a goroutine of its own.
func (l lock) start(ctx context.Context) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		h, err := l.acquire(ctx)
		out <- outcome{h, err}
	}()
	return out
}

type outcome struct {
	held
	err error
}

// guarded runs work under the lock. Any goroutine may call it.
func (l lock) guarded(t testing.TB, work func(held)) {
	t.Helper()
	h, err := l.acquire(t.Context())
	if err != nil {
		t.Errorf("acquire: %v", err)
		return
	}
	work(h)
	if err := h.release(t); err != nil {
		t.Errorf("release: %v", err)
	}
}

// release releases the youngest grants of the session.
func (l lock) release(t testing.TB) error {
	var errs []error
	for _, h := range slices.Backward(l) {
		errs = append(errs, h.Release(t.Context()))
	}
	return errors.Join(errs...)
}

// status is what is said of the lock. All its parts have to say the same.
func (l lock) status(t testing.TB) channelapi.Status {
	t.Helper()
	var first channelapi.Status
	for i, h := range l {
		s, err := h.Status(t.Context())
		must(t, err)
		if i == 0 {
			first = s
		} else if s.Locked != first.Locked || s.Owner != first.Owner || s.HoldCount != first.HoldCount {
			t.Errorf("one part says %+v, and another %+v", first, s)
		}
	}
	return first
}

func (l lock) wantLocked(t testing.TB, want bool) {
	t.Helper()
	if s := l.status(t); s.Locked != want {
		t.Errorf("locked: %t, by %q; want %t", s.Locked, s.Holder, want)
	}
}

// held is what was granted together.
type held []channelapi.Grant

func (h held) valid() bool {
	return !slices.ContainsFunc(h, func(g channelapi.Grant) bool { return !g.Held() })
}

func (h held) release(t testing.TB) error {
	var errs []error
	for _, g := range slices.Backward(h) {
		errs = append(errs, g.Release(t.Context()))
	}
	return errors.Join(errs...)
}

// wantLostBy fails unless every grant was lost for this reason.
func (h held) wantLostBy(t testing.TB, why channelapi.LossReason) {
	t.Helper()
	for _, g := range h {
		wantLost(t, "the cause", g.Cause(), why)
	}
}

// wantAfter fails unless every token is greater than that of the hold before.
func (h held) wantAfter(t testing.TB, before held) {
	t.Helper()
	for i, g := range before {
		if h[i].Token() <= g.Token() {
			t.Errorf("token %d came after %d", h[i].Token(), g.Token())
		}
	}
}

// counting counts the calls to a store.
type counting struct {
	lockagent.Store
	acquires, renewals atomic.Int64
}

// Unwrap is for [lockagent.Layer].
func (c *counting) Unwrap() lockagent.Store { return c.Store }

func (c *counting) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	c.acquires.Add(1)
	c.Store.Acquire(ctx, req, done)
}

func (c *counting) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	c.renewals.Add(1)
	c.Store.Renew(ctx, req, done)
}
