package channelapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestAwait(t *testing.T) {
	t.Run("the grant", func(t *testing.T) {
		g, err := channelapi.Await(t.Context(), open(t).Lock(name).Acquire(t.Context()))
		wantErr(t, "Await", err, nil)
		unlock(t, g)
	})
	t.Run("the error of the grant", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock(name))
		g, err := channelapi.Await(t.Context(), locks.Lock(name).Acquire(t.Context(), channelapi.Try()))
		wantErr(t, "Await", err, lockagent.ErrHeld)
		wantErr(t, "Err", g.Err(), lockagent.ErrHeld)
	})
	t.Run("until the context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			first := hold(t, locks.Lock(name))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			grant := locks.Lock(name).Acquire(t.Context()) // not that ctx, so the request goes on
			g, err := channelapi.Await(ctx, grant)
			wantErr(t, "Await", err, context.DeadlineExceeded)
			if g.Held() || g.Token() != 0 {
				t.Error("the grant is held")
			}
			unlock(t, first)
			wantErr(t, "the request", (<-grant).Err(), nil)
		})
	})
	t.Run("a grant that is there already", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := open(t).Lock(name)
			ended, change := changing(t)
			change()
			for range 20 { // for select would choose at random
				grant := l.Acquire(t.Context())
				synctest.Wait()
				g, err := channelapi.Await(ended, grant)
				wantErr(t, "Await", err, nil)
				unlock(t, g)
			}
		})
	})
}

func TestValue(t *testing.T) {
	answer := func(v int, err error) <-chan lockagent.Result[int] {
		c := make(chan lockagent.Result[int], 1)
		c <- lockagent.Result[int]{Value: v, Err: err}
		return c
	}
	ended, change := changing(t)
	change()
	for range 20 { // for select would choose at random
		if v, err := channelapi.Value(ended, answer(7, nil)); v != 7 || err != nil {
			t.Fatalf("a result that is there already: %d, %v, want 7", v, err)
		}
	}
	if v, err := channelapi.Value(t.Context(), answer(7, errChangedMind)); v != 7 || !errors.Is(err, errChangedMind) {
		t.Errorf("a result with an error: %d, %v", v, err)
	}
	if v, err := channelapi.Value(ended, make(chan lockagent.Result[int])); v != 0 || !errors.Is(err, errChangedMind) {
		t.Errorf("no result: %d, %v, want %v", v, err, errChangedMind)
	}
}

func TestThen(t *testing.T) {
	t.Run("calls f with the grant", func(t *testing.T) {
		l := open(t).Lock(name)
		result := channelapi.Then(l.Acquire(t.Context()), func(g lockagent.Grant) (lockagent.Name, error) {
			return g.Name(), g.Release(t.Context())
		})
		if cap(result) != 1 {
			t.Errorf("the channel has capacity %d, want 1", cap(result))
		}
		if r := <-result; r.Err != nil || r.Value != name {
			t.Errorf("%+v, want %q", r, name)
		}
		if _, ok := <-result; ok {
			t.Error("the channel delivered a second value")
		}
		wantFree(t, l)
	})
	t.Run("delivers what f returns", func(t *testing.T) {
		result := channelapi.Then(open(t).Lock(name).Acquire(t.Context()), func(lockagent.Grant) (int, error) {
			return 7, errChangedMind
		})
		if r := <-result; r.Value != 7 || !errors.Is(r.Err, errChangedMind) {
			t.Errorf("%+v, want 7 and %v", r, errChangedMind)
		}
	})
	t.Run("does not call f without a grant", func(t *testing.T) {
		result := channelapi.Then(open(t).Lock("").Acquire(t.Context()), func(lockagent.Grant) (int, error) {
			t.Error("f was called")
			return 7, nil
		})
		r := <-result
		wantErr(t, "Then", r.Err, lockagent.ErrBadName)
		if r.Value != 0 {
			t.Errorf("value %d, want none", r.Value)
		}
	})
	t.Run("waits in a goroutine of its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			first := hold(t, locks.Lock(name))
			result := channelapi.Then(locks.Lock(name).Acquire(t.Context()), func(g lockagent.Grant) (int, error) {
				return 7, g.Release(t.Context())
			})
			synctest.Wait()
			pending(t, result)
			unlock(t, first)
			if r := <-result; r.Value != 7 || r.Err != nil {
				t.Errorf("%+v, want 7", r)
			}
		})
	})
}

func TestFirst(t *testing.T) {
	ask := func(locks *channelapi.Locks, names ...lockagent.Name) []channelapi.Request {
		var requests []channelapi.Request
		for _, n := range names {
			requests = append(requests, locks.Lock(n).With())
		}
		return requests
	}
	t.Run("returns the lock that is free, and gives up on the others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			hold(t, locks.Lock("a"))
			hold(t, other.Lock("c"))
			i, g, err := channelapi.First(t.Context(), ask(locks, "a", "b", "c")...)
			if i != 1 || err != nil || g.Name() != "b" || !g.Held() {
				t.Fatalf("%d, %v, want b", i, err)
			}
			synctest.Wait()
			for _, n := range []lockagent.Name{"a", "c"} {
				if s := inspect(t, locks.Lock(n)); s.Waiters != 0 {
					t.Errorf("%d requests still wait for %q", s.Waiters, n)
				}
			}
			time.Sleep(time.Hour)
			if !g.Held() {
				t.Errorf("the hold is over: %v", g.Cause())
			}
			unlock(t, g)
		})
	})
	t.Run("returns the lock that becomes free first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			hold(t, locks.Lock("a"))
			b := hold(t, locks.Lock("b"))
			time.AfterFunc(time.Minute, func() { b.ReleaseAsync(context.Background()) })
			start := time.Now()
			i, g, err := channelapi.First(t.Context(), ask(locks, "a", "b")...)
			if i != 1 || err != nil || g.Name() != "b" {
				t.Fatalf("%d, %v, want b", i, err)
			}
			if waited := time.Since(start); waited != time.Minute {
				t.Errorf("waited %v, want 1m", waited)
			}
		})
	})
	t.Run("gives back what else was granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			names := []lockagent.Name{"a", "b", "c", "d"}
			i, g, err := channelapi.First(t.Context(), ask(locks, names...)...)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for j, n := range names {
				if s := inspect(t, locks.Lock(n)); s.Locked != (i == j) {
					t.Errorf("lock %q is held: %t, and First returned %d", n, s.Locked, i)
				}
			}
			unlock(t, g)
		})
	})
	t.Run("may be asked for one lock twice by a session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openSession(t, open(t), "alice").Lock(name)
			_, g, err := channelapi.First(t.Context(), l.With(), l.With())
			wantErr(t, "First", err, nil)
			synctest.Wait()
			if s := inspect(t, l); s.HoldCount != 1 {
				t.Errorf("alice holds %d grants, want 1", s.HoldCount)
			}
			unlock(t, g)
			wantFree(t, l)
		})
	})
	t.Run("goes on when a request fails", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock("a"))
		i, g, err := channelapi.First(t.Context(), locks.Lock("a").With(channelapi.Try()), locks.Lock("").With(), locks.Lock("b").With())
		if i != 2 || err != nil || g.Name() != "b" {
			t.Errorf("%d, %v, want b", i, err)
		}
	})
	t.Run("returns all errors when all fail", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock("a"))
		i, g, err := channelapi.First(t.Context(), locks.Lock("a").With(channelapi.Try()), locks.Lock("x{").With(), locks.Lock("b").With(channelapi.Wait(0)))
		if i != -1 || g.Held() || len(joined(err)) != 3 {
			t.Errorf("%d, %v, want three errors", i, err)
		}
		for _, want := range []error{lockagent.ErrHeld, lockagent.ErrBadName, lockagent.ErrBadOption} {
			wantErr(t, "First", err, want)
		}
		for _, n := range []string{`"a"`, `"x{"`, `"b"`} {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%q does not name %s", err, n)
			}
		}
	})
	t.Run("until the context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			hold(t, locks.Lock("a"))
			hold(t, locks.Lock("b"))
			ctx, change := changing(t)
			time.AfterFunc(time.Minute, change)
			i, g, err := channelapi.First(ctx, ask(locks, "a", "b")...)
			if i != -1 || g.Held() || len(joined(err)) != 2 {
				t.Errorf("%d, %v, want two errors", i, err)
			}
			for _, e := range joined(err) {
				wantErr(t, "First", e, errChangedMind)
			}
		})
	})
	t.Run("needs a request", func(t *testing.T) {
		i, _, err := channelapi.First(t.Context())
		wantErr(t, "First of none", err, lockagent.ErrBadOption)
		if i != -1 {
			t.Errorf("First of none returned %d, want -1", i)
		}
		l := open(t).Lock(name)
		_, _, err = channelapi.First(t.Context(), l.With(), channelapi.Request{})
		if err == nil || !strings.Contains(err.Error(), "number 1 is of no lock; make it with Lock.With") {
			t.Errorf("First of a zero Request: %v", err)
		}
		wantFree(t, l)
	})
}

func TestAll(t *testing.T) {
	t.Run("returns the grants in the order of the requests", func(t *testing.T) {
		locks := open(t)
		names := []lockagent.Name{"c", "a", "b"}
		grants, err := channelapi.All(patient(t), locks.Lock("c").With(), locks.Lock("a").With(), locks.Lock("b").With())
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range grants {
			if g.Name() != names[i] || !g.Held() {
				t.Errorf("grant %d is of %q, want %q", i, g.Name(), names[i])
			}
			unlock(t, g)
		}
	})
	t.Run("asks in the order of the names", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked askedFor
			locks := openWith(t, channelapi.Config{Store: memstore.New(), Recorder: &asked})
			b := hold(t, locks.Lock("b"))
			ctx, change := changing(t)
			done := make(chan error)
			go func() {
				_, err := channelapi.All(ctx, locks.Lock("c").With(), locks.Lock("b").With(), locks.Lock("a").With())
				done <- err
			}()
			synctest.Wait()
			if got, want := asked.names(), []lockagent.Name{"b", "a", "b"}; !slices.Equal(got, want) {
				t.Errorf("asked for %q, want %q", got, want)
			}
			change()
			wantErr(t, "All", <-done, errChangedMind)
			synctest.Wait()
			wantFree(t, locks.Lock("a"))
			wantFree(t, locks.Lock("c"))
			unlock(t, b)
		})
	})
	t.Run("gives back what it has when one cannot be had", func(t *testing.T) {
		store := memstore.New()
		locks, other := openOver(t, store), openOver(t, store)
		hold(t, other.Lock("c"))
		grants, err := channelapi.All(patient(t),
			locks.Lock("d").With(), locks.Lock("c").With(channelapi.Try()), locks.Lock("b").With(), locks.Lock("a").With())
		wantErr(t, "All", err, lockagent.ErrHeld)
		if grants != nil || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("%v, %v, want an error that names c", grants, err)
		}
		for _, n := range []lockagent.Name{"a", "b", "d"} {
			unlock(t, hold(t, locks.Lock(n)))
		}
	})
	t.Run("does not wait for a fixed lease to be over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			b := hold(t, locks.Lock("b"))
			time.AfterFunc(time.Minute, func() { b.ReleaseAsync(context.Background()) })
			grants, err := channelapi.All(t.Context(), locks.Lock("a").With(channelapi.Lease(time.Second)), locks.Lock("b").With())
			if err != nil {
				t.Fatal(err)
			}
			if grants[0].Held() || !grants[1].Held() {
				t.Errorf("held: %t and %t, want only the second", grants[0].Held(), grants[1].Held())
			}
		})
	})
	t.Run("refuses one lock twice", func(t *testing.T) {
		locks := open(t)
		alice, bob := openSession(t, locks, "alice"), openSession(t, locks, "bob")
		for what, requests := range map[string][]channelapi.Request{
			"without a session":          {locks.Lock("a").With(), locks.Lock("b").With(), locks.Lock("a").With()},
			"with a session and without": {alice.Lock("a").With(), locks.Lock("a").With()},
			"with two sessions":          {alice.Lock("a").With(), bob.Lock("a").With(), alice.Lock("a").With()},
		} {
			_, err := channelapi.All(patient(t), requests...)
			if wrong, ok := errors.AsType[*lockagent.OptionError](err); !ok || !strings.Contains(wrong.Reason, "ask once, or through one session") {
				t.Errorf("%s: %v, want an OptionError that says what to do", what, err)
			}
			wantFree(t, locks.Lock("a"))
			wantFree(t, locks.Lock("b"))
		}
	})
	t.Run("lets a session in twice", func(t *testing.T) {
		l := openSession(t, open(t), "alice").Lock(name)
		grants, err := channelapi.All(patient(t), l.With(), l.With())
		if err != nil {
			t.Fatal(err)
		}
		if s := inspect(t, l); s.HoldCount != 2 {
			t.Errorf("alice holds %d grants, want 2", s.HoldCount)
		}
		for _, g := range grants {
			unlock(t, g)
		}
		wantFree(t, l)
	})
	t.Run("needs a request", func(t *testing.T) {
		_, err := channelapi.All(t.Context())
		wantErr(t, "All of none", err, lockagent.ErrBadOption)
		l := open(t).Lock(name)
		_, err = channelapi.All(t.Context(), l.With(), channelapi.Request{})
		if err == nil || !strings.Contains(err.Error(), "number 1 is of no lock; make it with Lock.With") {
			t.Errorf("All of a zero Request: %v", err)
		}
		wantFree(t, l)
	})
}

// askedFor records which locks were asked for, in order.
type askedFor struct {
	mu    sync.Mutex
	locks []lockagent.Name // guarded by mu
}

func (a *askedFor) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventRequested {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.locks = append(a.locks, e.Lock)
	}
}

func (a *askedFor) names() []lockagent.Name {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.locks)
}

// Callers who name the same locks in opposite orders never wait in a circle.
func TestAllInOppositeOrders(t *testing.T) {
	const rounds = 150
	store := memstore.New()
	ctx := patient(t)
	var wg sync.WaitGroup
	guarded := 0 // by all three locks
	one, other := openOver(t, store), openOver(t, store)
	for i, locks := range []*channelapi.Locks{one, one, other, other} {
		requests := []channelapi.Request{locks.Lock("a").With(), locks.Lock("b").With(), locks.Lock("c").With()}
		if i%2 == 1 {
			slices.Reverse(requests)
		}
		wg.Go(func() {
			for range rounds {
				grants, err := channelapi.All(ctx, requests...)
				if err != nil {
					t.Errorf("All: %v", err)
					return
				}
				guarded++
				for _, g := range grants {
					if err := g.Release(ctx); err != nil {
						t.Errorf("Unlock: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	if guarded != 4*rounds {
		t.Errorf("counted %d, want %d", guarded, 4*rounds)
	}
}
