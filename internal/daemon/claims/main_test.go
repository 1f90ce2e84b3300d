package claims

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

// open opens a book without bounds over an agent and a store, which the end of the test closes.
func open(t testing.TB) (*Book, *memstore.Store) {
	t.Helper()
	return openWith(t, nil)
}

// openWith is open with bounds.
func openWith(t testing.TB, bounds map[quota.Kind]quota.Bound) (*Book, *memstore.Store) {
	t.Helper()
	store := memstore.New()
	agent, err := actor.New(actor.Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Close()
		_ = store.Close()
	})
	b, err := New(Config{Quotas: quota.New(quota.Config{
		Bound: func(k quota.Kind) quota.Bound { return bounds[k] }, Privileged: func(uint32) bool { return false },
	})})
	if err != nil {
		t.Fatal(err)
	}
	b.Begin(agent)
	return b, store
}

// in runs a test in virtual time.
func in(t *testing.T, test func(t *testing.T, b *Book, s *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, s := open(t)
		test(t, b, s)
	})
}

// ann and bob are users.
var ann, bob = Client{PID: 1, UID: 1001}, Client{PID: 2, UID: 1002}

// ask makes a claim that must not be refused.
func ask(t testing.TB, b *Book, req Request) *Stream {
	t.Helper()
	s, err := b.Acquire(req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads the next event, which must be there soon, and be of the type E.
func read[E Event](t testing.TB, s *Stream) E {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Hour)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatalf("no event: %v", err)
	}
	got, ok := e.(E)
	if !ok {
		t.Fatalf("%T %+v, want a %T", e, e, got)
	}
	return got
}

// pass lets time pass, and all happen that is due by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// silent checks that a stream has nothing to tell.
func silent(t testing.TB, s *Stream) {
	t.Helper()
	synctest.Wait()
	if e, err := s.Take(); e != nil || err != nil {
		t.Fatalf("got %T %+v, %v, want nothing", e, e, err)
	}
}

// over checks that a stream has no more to tell.
func over(t testing.TB, s *Stream) {
	t.Helper()
	if e, err := s.Next(background); !errors.Is(err, io.EOF) {
		t.Fatalf("got %T %+v, %v, want the end", e, e, err)
	}
}

// counts checks how many claims there are.
func counts(t testing.TB, b *Book, held, waiting int) {
	t.Helper()
	synctest.Wait()
	if n := b.Counts(); n != (Counts{held, waiting}) {
		t.Fatalf("%+v, want %d and %d", n, held, waiting)
	}
}

// free checks that a lock is free in the store, and that nothing is left of claims.
func free(t testing.TB, b *Book, name lockagent.Name) {
	t.Helper()
	counts(t, b, 0, 0)
	if r := <-b.agent.Status(name, ""); r.Err != nil || r.Value.Locked {
		t.Fatalf("%+v", r)
	}
	nothing(t, b)
}

// nothing checks that nothing is left of claims.
func nothing(t testing.TB, b *Book) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := fmt.Sprint(b.claims, b.chosen, b.locks); left != "map[] map[] map[]" {
		t.Errorf("left is %s", left)
	}
	for _, kind := range []quota.Kind{quota.Claims, quota.Waiters, quota.Streams, quota.Processes} {
		if n := b.cfg.Quotas.Total(kind); n != 0 {
			t.Errorf("%d of kind %d are counted", n, kind)
		}
	}
}
