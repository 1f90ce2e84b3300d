package channelapi_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// name is the lock that most tests are about.
const name = "orders/42"

// open starts an agent over a memory of its own.
func open(t testing.TB) *channelapi.Locks {
	t.Helper()
	return openOver(t, memstore.New())
}

// openOver starts an agent over the memory of a store, and closes it at the end of
// the test. Several of them contend for the same locks.
func openOver(t testing.TB, store *memstore.Store) *channelapi.Locks {
	t.Helper()
	return openWith(t, channelapi.Config{Store: store.Share()})
}

func openWith(t testing.TB, cfg channelapi.Config) *channelapi.Locks {
	t.Helper()
	locks, err := channelapi.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return locks
}

func openSession(t testing.TB, locks *channelapi.Locks, owner string) *channelapi.Session {
	t.Helper()
	s, err := locks.Session(owner)
	if err != nil {
		t.Fatalf("Session(%q): %v", owner, err)
	}
	return s
}

// hold acquires a lock, or fails the test. Only the goroutine of the test may call it.
func hold(t testing.TB, l channelapi.AnyLock) channelapi.Grant {
	t.Helper()
	g, err := l.Acquire(waittest.Context(t))
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return g
}

func unlock(t testing.TB, g channelapi.Grant) {
	t.Helper()
	if err := g.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// inspectable is a handle of either kind.
type inspectable interface {
	Status(ctx context.Context) (channelapi.Status, error)
}

func inspect(t testing.TB, l inspectable) channelapi.Status {
	t.Helper()
	s, err := l.Status(t.Context())
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return s
}

// wantFree fails unless nobody has the lock.
func wantFree(t testing.TB, l inspectable) {
	t.Helper()
	if s := inspect(t, l); s.Locked {
		t.Errorf("the lock is held by %q, want it free", s.Holder)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantLost fails unless err is a loss of the grant for this reason.
func wantLost(t testing.TB, err error, g lockagent.Grant, why lockagent.LossReason) {
	t.Helper()
	want := lockagent.LostError{Name: g.Name(), Owner: g.Owner(), Token: g.Token(), Reason: why}
	if lost, ok := errors.AsType[*lockagent.LostError](err); !ok || *lost != want {
		t.Errorf("%v, want %v", err, &want)
	}
}

// wantClosed fails unless the channel is closed and empty.
func wantClosed[T any](t testing.TB, c <-chan T) {
	t.Helper()
	waittest.Until(t, "the channel to be closed", func() bool {
		select {
		case v, ok := <-c:
			if ok {
				t.Errorf("the channel delivered a second value: %v", v)
			}
			return true
		default:
			return false
		}
	})
}

// pending fails if something is in the channel already.
func pending[T any](t testing.TB, c <-chan T) {
	t.Helper()
	select {
	case v := <-c:
		t.Fatalf("%v came, want nothing yet", v)
	default:
	}
}

var errChangedMind = errors.New("changed my mind")

// changing returns a context and the function that ends it with errChangedMind.
func changing(t testing.TB) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, func() { cancel(errChangedMind) }
}
