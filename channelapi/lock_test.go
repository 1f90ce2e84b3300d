package channelapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestLockName(t *testing.T) {
	locks := open(t)
	s := openSession(t, locks, "alice")
	for _, l := range []channelapi.AnyLock{locks.Lock(name), s.Lock(name)} {
		if l.Name() != name {
			t.Errorf("Name() = %q, want %q", l.Name(), name)
		}
	}
}

func TestAcquire(t *testing.T) {
	l := open(t).Lock(name)
	grant := l.AcquireAsync(t.Context())
	if cap(grant) != 1 {
		t.Errorf("the channel has capacity %d, want 1", cap(grant))
	}
	g := <-grant
	switch {
	case g.Err() != nil:
		t.Fatalf("Err: %v", g.Err())
	case g.Name() != name, g.Owner() == "", g.Token() == 0, g.HoldCount() != 1, !g.Held(), g.Remaining() <= 0,
		g.Cause() != nil:
		t.Errorf("not what was asked for: %+v", g)
	}
	again := <-grant
	wantErr(t, "receiving again", again.Err(), lockagent.ErrNotGranted)
	if again.Held() || again.Token() != 0 {
		t.Error("receiving again yields a held grant")
	}
	wantClosed(t, grant)
	unlock(t, g)
	wantErr(t, "Cause", g.Cause(), lockagent.ErrReleased)
	wantErr(t, "second Release", g.Release(t.Context()), lockagent.ErrNotHeld)
}

func TestAcquireReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := openWith(t, channelapi.Config{Store: newFarStore()})
		start := time.Now()
		grant := locks.Lock(name).AcquireAsync(t.Context())
		if time.Since(start) != 0 {
			t.Error("AcquireAsync waited for the store")
		}
		g := <-grant
		start = time.Now()
		done := g.ReleaseAsync(t.Context())
		if time.Since(start) != 0 {
			t.Error("ReleaseAsync waited for the store")
		}
		wantErr(t, "Release", <-done, nil)
	})
}

// A caller need not receive: neither grants, nor outcomes, nor answers. The bubble and TestMain
// find a goroutine that hangs.
func TestChannelsNeedNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		s := openSession(t, locks, "alice")
		l := s.Lock(name)
		ctx, change := changing(t)
		l.AcquireAsync(ctx)
		s.Lock(name, channelapi.Lease(0)).AcquireAsync(ctx)
		l.StatusAsync(ctx)
		l.ReleaseAsync(ctx)
		l.ReleaseAsync(ctx)
		l.BreakAsync(ctx, "")
		l.Turns(ctx)
		l.DoAsync(ctx, func(context.Context, channelapi.Grant) error { return nil })
		channelapi.DoAllAsync(ctx, func(context.Context, []channelapi.Grant) error { return nil }, l)
		channelapi.FirstAsync(ctx, l)
		channelapi.AllAsync(ctx, l)
		locks.Lock(name, channelapi.Try()).AcquireAsync(ctx)
		synctest.Wait()
		change()
		synctest.Wait()
		wantFree(t, l)
	})
}

func TestContextEndsBeforeTheRequest(t *testing.T) {
	l := open(t).Lock(name)
	ctx, change := changing(t)
	change()
	_, err := l.Acquire(ctx)
	wantErr(t, "Acquire", err, errChangedMind)
	wantFree(t, l)
}

// The context ends at about the same time as the lock is granted. Either the caller has the
// lock, or the caller learns why not and nobody has it.
func TestEndOfContextMeetsGrant(t *testing.T) {
	locks := open(t)
	for i := range 2000 {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(errChangedMind)
		if i%2 == 0 { // a hand-off sometimes
			locks.Lock(name).AcquireAsync(ctx)
		}
		g, err := locks.Lock(name).Acquire(ctx)
		switch {
		case err == nil:
			unlock(t, g)
		case !errors.Is(err, errChangedMind):
			t.Fatalf("Acquire: %v, want %v", err, errChangedMind)
		}
		cancel(nil)
	}
	unlock(t, hold(t, locks.Lock(name)))
}

func TestWithoutSessionARequestWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t).Lock(name)
		first := hold(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := l.Acquire(ctx)
		wantErr(t, "second Acquire", err, context.DeadlineExceeded)
		unlock(t, first)
		second := hold(t, l)
		if first.Owner() == second.Owner() {
			t.Errorf("both requests were made by %q", first.Owner())
		}
		if first.Token() >= second.Token() {
			t.Errorf("token %d came after %d", second.Token(), first.Token())
		}
		unlock(t, second)
	})
}

func TestTryAcquire(t *testing.T) {
	locks := open(t)
	g, err := locks.Lock(name, channelapi.Lease(time.Hour)).TryAcquire(t.Context())
	if err != nil {
		t.Fatalf("TryAcquire of a free lock: %v", err)
	}
	if g.Remaining() > time.Hour || g.Remaining() < time.Minute {
		t.Errorf("%v remain, want an hour: the option got lost", g.Remaining())
	}
	for what, l := range map[string]*channelapi.Lock{
		"TryAcquire": locks.Lock(name), "TryAcquire with Wait": locks.Lock(name, channelapi.Wait(time.Hour)),
		"TryAcquire with a Wait that has passed": locks.Lock(name, channelapi.Wait(0)),
	} {
		_, err = l.TryAcquire(t.Context())
		if _, ok := errors.AsType[*lockagent.HeldError](err); !ok {
			t.Errorf("%s of a held lock: %v, want a HeldError", what, err)
		}
	}
	unlock(t, g)
}

func TestStatus(t *testing.T) {
	t.Run("held by a session of this agent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			l := openSession(t, locks, "alice").Lock(name)
			g := hold(t, l)
			hold(t, l)
			for range 3 {
				locks.Lock(name).AcquireAsync(t.Context())
			}
			synctest.Wait()
			time.Sleep(time.Second)

			got := inspect(t, locks.Lock(name))
			if !strings.HasPrefix(got.Holder, string(locks.ID())+":") {
				t.Errorf("Holder = %q, want a tenure of %s", got.Holder, locks.ID())
			}
			want := lockagent.Status{
				Name: name, Locked: true, Holder: got.Holder, Remaining: 29 * time.Second,
				Owner: "alice", Token: g.Token(), HoldCount: 2, Waiters: 3,
			}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if !got.HeldBy("alice") || got.HeldBy("bob") || got.HeldBy("") {
				t.Error("HeldBy is not right")
			}

			want.Owner, want.Token, want.HoldCount, want.Waiters = "", 0, 1, 0 // what the store knows
			got = inspect(t, other.Lock(name))
			if got != want {
				t.Errorf("another agent: %+v, want %+v", got, want)
			}
			if got.HeldBy("alice") {
				t.Error("another agent knows of alice")
			}
		})
	})
	t.Run("while the store is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			store.cut.Store(true)
			_, err := openWith(t, channelapi.Config{Store: store}).Lock(name).Status(t.Context())
			wantErr(t, "Status", err, lockagent.ErrStoreUnavailable)
		})
	})
	t.Run("until the context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, change := changing(t)
			change()
			_, err := openWith(t, channelapi.Config{Store: newFarStore()}).Lock(name).Status(ctx)
			wantErr(t, "Status", err, errChangedMind)
		})
	})
	t.Run("through a channel", func(t *testing.T) {
		answer := open(t).Lock(name).StatusAsync(t.Context())
		if cap(answer) != 1 {
			t.Errorf("the channel has capacity %d, want 1", cap(answer))
		}
		if r := <-answer; r.Err != nil || r.Value.Name != name {
			t.Errorf("%+v", r)
		}
		wantClosed(t, answer)
	})
}
