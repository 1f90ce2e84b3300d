package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/inperson"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// connect has a store make the connection for a lone call. While other calls are under way, a call joins them. So
// connect calls until a caller makes the exchange.
func connect(t *testing.T, store *redisstore.Store) {
	t.Helper()
	for alone, number := false, uint64(1); !alone; number++ {
		answered := make(chan error, 1)
		store.Acquire(inperson.Context(t.Context()), wish("warm", agentA, number), func(_ lockagent.AcquireReply, err error) {
			alone = bytes.Contains(debug.Stack(), []byte("testing.tRunner")) // it is no goroutine of the store
			answered <- err
		})
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
}

// A caller who makes an exchange itself does not keep a store from being closed, and is
// let go when it is.
func TestCloseDuringTheExchangeOfACaller(t *testing.T) {
	for !closedDuringTheExchange(t) {
	}
}

// closedDuringTheExchange reports false if the caller did not make the exchange, but joined a call of the store.
func closedDuringTheExchange(t *testing.T) bool {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := openConfig(
		t, redisstore.Config{CallTimeout: time.Hour, SilenceTimeout: time.Hour}, "redis://"+proxy.Addr(),
	)
	other := open(t, server.URL())
	answers, finished := make(chan error, 4), make(chan struct{})
	answer := func(_ lockagent.AcquireReply, err error) { answers <- err }
	connect(t, store)
	proxy.DelayReplies(time.Hour)

	req := wish("orders", agentA, 1)
	go func() {
		defer close(finished)
		store.Acquire(inperson.Context(t.Context()), req, answer)
	}()
	joined := false
	waittest.Until(t, "the exchange to be under way", func() bool {
		select {
		case <-finished:
			joined = true
			return true
		default:
		}
		seen, err := storetest.Inspect(t, other, "orders")
		return err == nil && seen.Holder == req.Tenure.String()
	})
	if joined {
		return false
	}
	store.Acquire(t.Context(), wish("waiting", agentA, 1), answer)

	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	if err := await(t, closed); err != nil {
		t.Errorf("Close: %v", err)
	}
	await(t, finished)
	for range 2 {
		if err := await(t, answers); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("a call under way ended with %v, want ErrClosed", err)
		}
	}
	if len(answers) > 0 {
		t.Error("a call was answered twice")
	}
	return true
}

// The end of a caller's context ends the exchange that the caller makes. The lock goes back, and later calls have
// another connection.
func TestACallerLeavesAnExchange(t *testing.T) {
	for !leftAnExchange(t) {
	}
}

// leftAnExchange reports false if the caller did not make the exchange, but joined a call of the store.
func leftAnExchange(t *testing.T) bool {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	config := redisstore.Config{CallTimeout: time.Hour, SilenceTimeout: time.Hour}
	store := openConfig(t, config, "redis://"+proxy.Addr())
	joins := joining{store, make(chan struct{})}
	agent, err := actor.New(actor.Config{Store: joins, NoRest: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Close() }()
	lock := func(ctx context.Context, name lockagent.Name) (g lockagent.Grant) {
		if g = agent.Lock(ctx, name, actor.Request{Owner: "ann"}); g.Held() {
			if err := g.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		return g
	}
	connect(t, store)

	other := open(t, server.URL())
	held := func() bool {
		seen, err := storetest.Inspect(t, other, "orders")
		if err != nil {
			t.Fatal(err)
		}
		return seen.Held
	}
	proxy.DelayReplies(time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() { outcome <- lock(ctx, "orders").Err() }()
	joined := false
	waittest.Until(t, "the exchange to be under way", func() bool {
		select {
		case <-joins.joined:
			joined = true
			return true
		default:
			return held()
		}
	})
	leave()
	if joined {
		proxy.DelayReplies(0)
		proxy.Cut() // or the agent does not close before the reply comes, in an hour
		_ = await(t, outcome)
		return false
	}
	err = await(t, outcome)
	wait, ok := errors.AsType[*lockagent.WaitError](err)
	if !ok || !errors.Is(wait, context.Canceled) || wait.Store != nil {
		t.Errorf("the caller heard %v", err)
	}
	proxy.DelayReplies(0)
	proxy.Cut() // a call of the store may have been under way, too, and its reply comes in an hour
	waittest.Until(t, "the lock to go back", func() bool { return !held() })
	if err := lock(t.Context(), "later").Err(); err != nil {
		t.Error(err)
	}
	return true
}

// joining is a store that tells when an acquire of "orders" returns before it was answered.
type joining struct {
	*redisstore.Store
	joined chan struct{}
}

func (j joining) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	var answered atomic.Bool
	j.Store.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) {
		answered.Store(true)
		done(r, err)
	})
	if req.Name == "orders" && !answered.Load() {
		close(j.joined)
	}
}
