package lockagent_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
)

// fakeHold is a hold that a test ends.
type fakeHold struct {
	ctx       context.Context
	end       context.CancelCauseFunc
	remaining time.Duration
	released  chan error // what Release returns
	by        context.Context
	extended  time.Duration
	wanted    chan struct{}
	uncertain chan struct{}
}

func newHold(t *testing.T) (*fakeHold, lockagent.Grant) {
	h := &fakeHold{remaining: time.Minute, released: make(chan error, 1)}
	h.ctx, h.end = context.WithCancelCause(context.Background())
	t.Cleanup(func() { h.end(nil) })
	return h, lockagent.NewGrant("orders/42", "alice", 7, 2, h)
}

func (h *fakeHold) Done() <-chan struct{} { return h.ctx.Done() }

func (h *fakeHold) Cause() error { return context.Cause(h.ctx) }

func (h *fakeHold) EndWith(ctx context.Context, cancel context.CancelCauseFunc) {
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	context.AfterFunc(ctx, func() { stop() })
}

func (h *fakeHold) Wanted() <-chan struct{} { return h.wanted }

func (h *fakeHold) Uncertain() <-chan struct{} { return h.uncertain }

func (h *fakeHold) Remaining() time.Duration { return h.remaining }

func (h *fakeHold) ExtendAsync(ctx context.Context, d time.Duration) <-chan error {
	h.by, h.extended = ctx, d
	return h.released
}

func (h *fakeHold) ReleaseAsync(ctx context.Context) <-chan error {
	h.by = ctx
	return h.released
}

func (h *fakeHold) Release(ctx context.Context) error {
	h.by = ctx
	return <-h.released
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A grant that was never held says so in every way it can.
func TestGrantThatIsNotHeld(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		what  string
		grant lockagent.Grant
		err   error
	}{
		{"zero", lockagent.Grant{}, lockagent.ErrNotGranted},
		{"denied", lockagent.Denied("orders/42", "alice", refused), refused},
	} {
		t.Run(c.what, func(t *testing.T) {
			g := c.grant
			if !errors.Is(g.Err(), c.err) || !errors.Is(g.Cause(), c.err) {
				t.Errorf("Err %v, Cause %v, want %v", g.Err(), g.Cause(), c.err)
			}
			if g.Held() || g.Token() != 0 || g.HoldCount() != 0 || g.Remaining() != 0 {
				t.Errorf("held %t, token %d, count %d, %v remain", g.Held(), g.Token(), g.HoldCount(), g.Remaining())
			}
			if !isClosed(g.Done()) {
				t.Error("Lost is open")
			}
			work := g.Context(t.Context())
			if !isClosed(work.Done()) || !errors.Is(context.Cause(work), c.err) {
				t.Errorf("the work may go on; cause %v", context.Cause(work))
			}
			done := g.ReleaseAsync(t.Context())
			if cap(done) != 1 {
				t.Errorf("ReleaseAsync's channel has capacity %d, want 1", cap(done))
			}
			if err := <-done; !errors.Is(err, lockagent.ErrNotHeld) {
				t.Errorf("Release: %v", err)
			}
			if _, ok := <-done; ok {
				t.Error("ReleaseAsync delivers twice")
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := g.Release(ended); !errors.Is(err, lockagent.ErrNotHeld) {
				t.Errorf("Release: %v", err)
			}
		})
	}
	if g := lockagent.Denied("orders/42", "alice", refused); g.Name() != "orders/42" || g.Owner() != "alice" {
		t.Errorf("denied %q to %q", g.Name(), g.Owner())
	}
}

func TestGrantThatIsHeld(t *testing.T) {
	hold, g := newHold(t)
	if g.Err() != nil || g.Cause() != nil || isClosed(g.Done()) || !g.Held() {
		t.Errorf("not held: %v, %v", g.Err(), g.Cause())
	}
	if g.Name() != "orders/42" || g.Owner() != "alice" || g.Token() != 7 || g.HoldCount() != 2 ||
		g.Remaining() != time.Minute {
		t.Errorf("%+v is not what was granted", g)
	}

	hold.remaining = -time.Second // suspended beyond the deadline: nobody could be told yet
	if g.Held() || g.Remaining() != 0 {
		t.Errorf("held with %v left", g.Remaining())
	}
	if g.Err() != nil || isClosed(g.Done()) {
		t.Error("and it was told")
	}

	why := &lockagent.LostError{Name: "orders/42", Owner: "alice", Token: 7, Reason: lockagent.LostDeadline}
	hold.end(why)
	if lost, _ := errors.AsType[*lockagent.LostError](g.Cause()); lost != why || !isClosed(g.Done()) {
		t.Errorf("Cause %v, want %v", g.Cause(), why)
	}
	if g.Err() != nil {
		t.Errorf("Err %v: it speaks of the request, which was granted", g.Err())
	}
}

// watched is a context that counts who watches it.
type watched struct {
	context.Context
	watches atomic.Int64
}

func (*watched) Done() <-chan struct{} { return make(chan struct{}) }

// AfterFunc is what package context calls to watch it.
func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.watches.Add(1)
	return func() bool { w.watches.Add(-1); return true }
}

func TestGrantContext(t *testing.T) {
	type key struct{}
	t.Run("carries the values of its parent", func(t *testing.T) {
		_, g := newHold(t)
		work := g.Context(context.WithValue(t.Context(), key{}, "v"))
		if work.Value(key{}) != "v" || work.Err() != nil {
			t.Errorf("value %v, error %v", work.Value(key{}), work.Err())
		}
	})
	t.Run("ends with the hold", func(t *testing.T) {
		hold, g := newHold(t)
		work := g.Context(t.Context())
		hold.end(lockagent.ErrReleased)
		<-work.Done()
		if cause := context.Cause(work); !errors.Is(cause, lockagent.ErrReleased) {
			t.Errorf("cause %v", cause)
		}
		if t.Context().Err() != nil {
			t.Error("the parent ended too")
		}
		late := g.Context(t.Context())
		<-late.Done()
		if cause := context.Cause(late); !errors.Is(cause, lockagent.ErrReleased) {
			t.Errorf("cause %v of one that was made later", cause)
		}
	})
	t.Run("ends with its parent", func(t *testing.T) {
		_, g := newHold(t)
		parent, cancel := context.WithCancelCause(t.Context())
		work := g.Context(parent)
		quit := errors.New("quit")
		cancel(quit)
		<-work.Done()
		if cause := context.Cause(work); !errors.Is(cause, quit) {
			t.Errorf("cause %v", cause)
		}
		if !g.Held() {
			t.Error("the hold ended too")
		}
	})
	t.Run("leaves no watch on its parent when the hold is over", func(t *testing.T) {
		hold, g := newHold(t)
		parent := &watched{Context: t.Context()}
		work := g.Context(parent)
		hold.end(lockagent.ErrReleased)
		<-work.Done()
		waittest.Until(t, "the watches to end", func() bool { return parent.watches.Load() == 0 })
	})
	t.Run("costs no goroutine", func(t *testing.T) {
		_, g := newHold(t)
		before := runtime.NumGoroutine()
		for range 100 {
			g.Context(t.Context())
		}
		if after := runtime.NumGoroutine(); after >= before+100 {
			t.Errorf("%d goroutines, and %d before", after, before)
		}
	})
}

// Neither a hold nor a parent that lives on keeps the contexts that are over.
func TestGrantContextIsLetGo(t *testing.T) {
	type key struct{}
	for _, c := range []struct {
		what string
		end  func(*fakeHold, context.CancelFunc)
	}{
		{"when the hold is over", func(h *fakeHold, _ context.CancelFunc) { h.end(lockagent.ErrReleased) }},
		{"when its own parent ended", func(_ *fakeHold, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(c.what, func(t *testing.T) {
			hold, g := newHold(t)
			living, stop := context.WithCancel(t.Context())
			defer stop()
			value := new([1 << 10]byte)
			kept := weak.Make(value)
			parent, cancel := context.WithCancel(living)
			work := g.Context(context.WithValue(parent, key{}, value))
			c.end(hold, cancel)
			<-work.Done()

			work, parent, value = nil, nil, nil //nolint:ineffassign,wastedassign // lets them be collected
			waittest.Until(t, "the context is collected", func() bool { runtime.GC(); return kept.Value() == nil })
			cancel()
			runtime.KeepAlive(hold)
			runtime.KeepAlive(living)
		})
	}
}

func TestGrantExtend(t *testing.T) {
	hold, g := newHold(t)
	hold.released <- lockagent.ErrNotHeld
	if err := g.Extend(t.Context(), time.Hour); !errors.Is(err, lockagent.ErrNotHeld) || hold.extended != time.Hour {
		t.Errorf("Extend: %v, by %v", err, hold.extended)
	}
	hold.released = nil // no answer
	quit := errors.New("quit")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(quit)
	if err := g.Extend(ended, 2*time.Hour); !errors.Is(err, quit) || hold.extended != 2*time.Hour {
		t.Errorf("Extend: %v, by %v", err, hold.extended)
	}
	for _, never := range []lockagent.Grant{{}, lockagent.Denied("orders/42", "alice", quit)} {
		if err := never.Extend(ended, time.Hour); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("Extend of what was never held: %v", err)
		}
	}
}

func TestGrantReleaseAsync(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	hold, g := newHold(t)
	hold.released <- lockagent.ErrUnconfirmed
	if err := <-g.ReleaseAsync(ctx); !errors.Is(err, lockagent.ErrUnconfirmed) {
		t.Errorf("Release: %v", err)
	}
	if hold.by.Value(key{}) != "v" {
		t.Error("the release does not carry the values of its context")
	}
}

func TestGrantReleaseWaits(t *testing.T) {
	hold, g := newHold(t)
	hold.released <- lockagent.ErrUnconfirmed
	if err := g.Release(t.Context()); !errors.Is(err, lockagent.ErrUnconfirmed) || hold.by != t.Context() {
		t.Errorf("Release: %v", err)
	}
	if err := (lockagent.Grant{}).Release(t.Context()); !errors.Is(err, lockagent.ErrNotHeld) {
		t.Errorf("Release of nothing: %v", err)
	}
}
