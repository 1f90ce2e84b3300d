package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
	"github.com/lockagent/lockagent/internal/faultproxy"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// A caller who makes an exchange itself does not keep a store from being closed, and is
// let go when it is.
func TestCloseDuringTheExchangeOfACaller(t *testing.T) {
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	store := openConfig(t, redisstore.Config{CallTimeout: time.Hour, SilenceTimeout: time.Hour}, "redis://"+proxy.Addr())
	other := open(t, server.URL())
	acquire(t, store, wish("warm", agentA, 1)) // the connection is there now
	proxy.DelayReplies(time.Hour)

	req := wish("orders", agentA, 1)
	answers, finished := make(chan error, 4), make(chan struct{})
	answer := func(_ lockagent.AcquireReply, err error) { answers <- err }
	go func() {
		defer close(finished)
		e := errand.New(context.Background())
		store.Acquire(e, req, answer)
		e.Finish()
	}()
	waittest.Until(t, "the exchange to be under way", func() bool {
		seen, err := storetest.Inspect(t, other, "orders")
		return err == nil && seen.Holder == req.Tenure.String()
	})
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
}
