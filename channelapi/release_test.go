package channelapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestRelease(t *testing.T) {
	const alice = "alice"
	t.Run("gives up the youngest grant", func(t *testing.T) {
		l := openSession(t, open(t), alice).Lock(name)
		first, second := hold(t, l), hold(t, l)
		done := l.ReleaseAsync(t.Context())
		if cap(done) != 1 {
			t.Errorf("the channel has capacity %d, want 1", cap(done))
		}
		wantErr(t, "Release", <-done, nil)
		wantClosed(t, done)
		wantErr(t, "Cause of the younger", second.Cause(), lockagent.ErrReleased)
		if !first.Held() {
			t.Errorf("the older is over: %v", first.Cause())
		}
		wantErr(t, "Release", l.Release(t.Context()), nil)
		wantErr(t, "Cause of the older", first.Cause(), lockagent.ErrReleased)
		wantFree(t, l)
		wantErr(t, "third Release", l.Release(t.Context()), lockagent.ErrNotHeld)
	})
	t.Run("of what the store has taken away", func(t *testing.T) {
		store := memstore.New()
		l := openSession(t, openOver(t, store), alice).Lock(name)
		hold(t, l)
		store.PlantHolder(name, "another program", 1, time.Minute)
		err := l.Release(t.Context())
		if lost, ok := errors.AsType[*lockagent.LostError](err); !ok || lost.Reason != lockagent.LostDenied {
			t.Errorf("Release: %v, want that the store denied it", err)
		}
	})
	t.Run("of what was lost before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openSession(t, open(t), alice).Lock(name, channelapi.Lease(time.Second))
			g := hold(t, l)
			<-g.Done()
			synctest.Wait()
			wantErr(t, "Release", l.Release(t.Context()), lockagent.ErrNotHeld)
			wantLost(t, g.Release(t.Context()), g, lockagent.LostExpired) // the grant knows better
		})
	})
	t.Run("goes on when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openSession(t, openWith(t, channelapi.Config{Store: newFarStore()}), alice).Lock(name)
			g := hold(t, l)
			ctx, change := changing(t)
			change()
			wantErr(t, "Release", l.Release(ctx), errChangedMind)
			<-g.Done()
			wantErr(t, "Cause", g.Cause(), lockagent.ErrReleased)
			time.Sleep(roundTrip)
			wantFree(t, l)
		})
	})
	t.Run("while the store is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			l := openSession(t, openWith(t, channelapi.Config{Store: store}), alice).Lock(name)
			hold(t, l)
			store.cut.Store(true)
			wantErr(t, "Release", l.Release(t.Context()), lockagent.ErrUnconfirmed)
			store.cut.Store(false)
			time.Sleep(5 * time.Second) // less than the lease
			wantFree(t, l)
		})
	})
}

func wantBroken(t *testing.T, err error, operator string) {
	t.Helper()
	lost, ok := errors.AsType[*lockagent.LostError](err)
	if !ok || lost.Reason != lockagent.LostBroken || lost.Operator != operator ||
		!strings.HasSuffix(err.Error(), fmt.Sprintf("an operator broke it: %q", operator)) {
		t.Errorf("%v, want that %q broke the lock", err, operator)
	}
}

func TestBreak(t *testing.T) {
	t.Run("a holder of this agent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			g := hold(t, locks.Lock(name))
			done := locks.Lock(name).BreakAsync(t.Context(), "olga")
			if cap(done) != 1 {
				t.Errorf("the channel has capacity %d, want 1", cap(done))
			}
			if r := <-done; !r.Value || r.Err != nil {
				t.Errorf("%t, %v, want true", r.Value, r.Err)
			}
			wantClosed(t, done)
			if g.Held() {
				t.Error("the holder was not told")
			}
			wantBroken(t, g.Cause(), "olga")
			wantBroken(t, g.Release(t.Context()), "olga")
			wantFree(t, locks.Lock(name))
		})
	})
	t.Run("a holder of another agent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			g := hold(t, locks.Lock(name))
			if held, err := other.Lock(name).Break(t.Context(), ""); !held || err != nil {
				t.Errorf("%t, %v, want true", held, err)
			}
			next := hold(t, other.Lock(name))
			if next.Token() <= g.Token() {
				t.Errorf("token %d came after %d", next.Token(), g.Token())
			}
			wantBroken(t, g.Cause(), string(other.ID()))
			if !next.Held() {
				t.Errorf("the next hold is over too: %v", next.Cause())
			}
		})
	})
	t.Run("not when its context has ended before", func(t *testing.T) {
		l := open(t).Lock(name)
		g := hold(t, l)
		ctx, change := changing(t)
		change()
		_, err := l.Break(ctx, "")
		wantErr(t, "Break", err, errChangedMind)
		if !g.Held() {
			t.Errorf("it was broken: %v", g.Cause())
		}
		unlock(t, g)
	})
	t.Run("another program", func(t *testing.T) {
		store := memstore.New()
		store.PlantHolder(name, "somebody:1", 2, 0)
		l := openOver(t, store).Lock(name)
		if held, err := l.Break(t.Context(), ""); !held || err != nil {
			t.Errorf("%t, %v, want true", held, err)
		}
		wantFree(t, l)
	})
	t.Run("goes on when its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			store.PlantHolder(name, "somebody:1", 1, 0)
			l := openWith(t, channelapi.Config{Store: store}).Lock(name)
			ctx, change := changing(t)
			time.AfterFunc(roundTrip/4, change)
			_, err := l.Break(ctx, "")
			wantErr(t, "Break", err, errChangedMind)
			time.Sleep(roundTrip)
			wantFree(t, l)
		})
	})
}

// traced is a store that remembers the trace of each release.
type traced struct {
	*memstore.Store
	seen []any
}

type traceKey struct{}

func (s *traced) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.seen = append(s.seen, ctx.Value(traceKey{}))
	s.Store.Release(ctx, req, done)
}

// The context of a release or of a Close carries its values to the store.
func TestReleaseCarriesTheTrace(t *testing.T) {
	store := &traced{Store: memstore.New()}
	locks := openWith(t, channelapi.Config{Store: store})
	s := openSession(t, locks, "alice")
	trace := func(what string) context.Context { return context.WithValue(t.Context(), traceKey{}, what) }
	for _, l := range []*channelapi.SessionLock{s.Lock("a"), s.Lock("b"), s.Lock("c")} {
		hold(t, l)
	}
	wantErr(t, "Release", s.Lock("a").Release(trace("Release")), nil)
	wantErr(t, "ReleaseAsync", <-s.Lock("b").ReleaseAsync(trace("ReleaseAsync")), nil)
	wantErr(t, "Close", s.Close(trace("Close")), nil)
	if want := []any{"Release", "ReleaseAsync", "Close"}; !slices.Equal(store.seen, want) {
		t.Errorf("the store sees %v, want %v", store.seen, want)
	}
}
