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
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

func TestFirst(t *testing.T) {
	ask := func(locks *channelapi.Locks, names ...string) []channelapi.AnyLock {
		var all []channelapi.AnyLock
		for _, n := range names {
			all = append(all, locks.Lock(n))
		}
		return all
	}
	t.Run("returns the lock that is free, and gives up on the others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			hold(t, locks.Lock("a"))
			hold(t, other.Lock("c"))
			g, err := channelapi.First(t.Context(), ask(locks, "a", "b", "c")...)
			if err != nil || g.Name() != "b" || !g.Held() {
				t.Fatalf("%q, %v, want b", g.Name(), err)
			}
			synctest.Wait()
			for _, n := range []string{"a", "c"} {
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
			g, err := channelapi.First(t.Context(), ask(locks, "a", "b")...)
			if err != nil || g.Name() != "b" {
				t.Fatalf("%q, %v, want b", g.Name(), err)
			}
			if waited := time.Since(start); waited != time.Minute {
				t.Errorf("waited %v, want 1m", waited)
			}
		})
	})
	t.Run("gives back what else was granted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			names := []string{"a", "b", "c", "d"}
			g, err := channelapi.First(t.Context(), ask(locks, names...)...)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, n := range names {
				if s := inspect(t, locks.Lock(n)); s.Locked != (string(g.Name()) == n) {
					t.Errorf("lock %q is held: %t, and First returned %q", n, s.Locked, g.Name())
				}
			}
			unlock(t, g)
		})
	})
	t.Run("may be asked for one lock twice by a session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openSession(t, open(t), "alice").Lock(name)
			g, err := channelapi.First(t.Context(), l, l)
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
		g, err := channelapi.First(t.Context(), locks.Lock("a", channelapi.Try()), locks.Lock(""), locks.Lock("b"))
		if err != nil || g.Name() != "b" {
			t.Errorf("%q, %v, want b", g.Name(), err)
		}
	})
	t.Run("returns all errors when all fail", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock("a"))
		g, err := channelapi.First(
			t.Context(), locks.Lock("a", channelapi.Try()), locks.Lock("x{"), locks.Lock("b", channelapi.Lease(0)),
		)
		if g.Held() || len(joined(err)) != 3 {
			t.Errorf("%v, want three errors", err)
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
			g, err := channelapi.First(ctx, ask(locks, "a", "b")...)
			if g.Held() || len(joined(err)) != 2 {
				t.Errorf("%v, want two errors", err)
			}
			for _, e := range joined(err) {
				wantErr(t, "First", e, errChangedMind)
			}
		})
	})
	t.Run("needs a lock", func(t *testing.T) {
		_, err := channelapi.First(t.Context())
		wantErr(t, "First of none", err, lockagent.ErrBadOption)
		l := open(t).Lock(name)
		for _, missing := range []channelapi.AnyLock{nil, (*channelapi.Lock)(nil), (*channelapi.SessionLock)(nil)} {
			_, err = channelapi.First(t.Context(), l, missing)
			if err == nil ||
				!strings.Contains(err.Error(), "number 1 is nil; make it with Locks.Lock or Session.Lock") {
				t.Errorf("First of a lock that is missing: %v", err)
			}
		}
		_, err = channelapi.First(t.Context(), &channelapi.Lock{})
		wantErr(t, "First of a zero Lock", err, lockagent.ErrBadOption)
		wantFree(t, l)
	})
}

func TestAll(t *testing.T) {
	t.Run("returns the grants in the order of the requests", func(t *testing.T) {
		locks := open(t)
		names := []lockagent.Name{"c", "a", "b"}
		grants, err := channelapi.All(waittest.Context(t), locks.Lock("c"), locks.Lock("a"), locks.Lock("b"))
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
	t.Run("waits in the order of the names", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked askedFor
			locks := openWith(t, channelapi.Config{Store: memstore.New(), Recorder: &asked})
			b := hold(t, locks.Lock("b"))
			ctx, change := changing(t)
			done := make(chan error)
			go func() {
				_, err := channelapi.All(ctx, locks.Lock("c"), locks.Lock("b"), locks.Lock("a"))
				done <- err
			}()
			synctest.Wait()
			// C was tried.
			if got, want := asked.names(), []lockagent.Name{"b", "a", "c", "b"}; !slices.Equal(got, want) {
				t.Errorf("asked for %q, want %q", got, want)
			}
			wantFree(t, locks.Lock("c"))
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
		grants, err := channelapi.All(waittest.Context(t),
			locks.Lock("d"), locks.Lock("c", channelapi.Try()), locks.Lock("b"), locks.Lock("a"))
		wantErr(t, "All", err, lockagent.ErrHeld)
		if grants != nil || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("%v, %v, want an error that names c", grants, err)
		}
		for _, n := range []string{"a", "b", "d"} {
			unlock(t, hold(t, locks.Lock(n)))
		}
	})
	t.Run("counts all waits from the call", func(t *testing.T) {
		calls := map[string]func(context.Context, ...channelapi.AnyLock) error{
			"All": func(ctx context.Context, l ...channelapi.AnyLock) error {
				return errorOf(channelapi.All(ctx, l...))
			},
			"AllAsync": func(ctx context.Context, l ...channelapi.AnyLock) error {
				return (<-channelapi.AllAsync(ctx, l...)).Err()
			},
			"DoAll": func(ctx context.Context, l ...channelapi.AnyLock) error {
				return channelapi.DoAll(ctx, neverAllDone, l...)
			},
			"First": func(ctx context.Context, l ...channelapi.AnyLock) error {
				return errorOf(channelapi.First(ctx, l...))
			},
		}
		for what, call := range calls {
			for c, most := range map[[3]time.Duration]time.Duration{
				{5 * time.Second, 5 * time.Second, 5 * time.Second}: 5 * time.Second,
				{5 * time.Second, 6 * time.Second, 9 * time.Second}: 9 * time.Second,
				{0, 0, 5 * time.Second}:                             5 * time.Second,
			} {
				if what == "First" && c[0] == 0 {
					continue // waits for the first two
				}
				synctest.Test(t, func(t *testing.T) {
					locks := open(t)
					var handles []channelapi.AnyLock
					for i, wait := range c { // each is free 4 s after the one before, and the last one never
						l := locks.Lock(string(rune('a' + i)))
						g := hold(t, l)
						if i < 2 && what != "First" {
							time.AfterFunc(time.Duration(4*i+4)*time.Second, func() {
								g.ReleaseAsync(context.Background())
							})
						}
						if wait > 0 {
							l = locks.Lock(string(l.Name()), channelapi.Wait(wait))
						}
						handles = append(handles, l)
					}
					start := time.Now()
					err := call(t.Context(), handles...)
					wantErr(t, what, err, channelapi.ErrTimeout)
					if waited := time.Since(start); waited > most {
						t.Errorf("%s: waited %v, want at most %v", what, waited, most)
					}
				})
			}
		}
	})
	t.Run("bounds the first attempt, too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			locks := openWith(t, channelapi.Config{Store: store})
			store.cut.Store(true)
			start := time.Now()
			wait := channelapi.Wait(roundTrip / 2)
			_, err := channelapi.All(t.Context(), locks.Lock("a", wait), locks.Lock("b", wait))
			wantErr(t, "All", err, channelapi.ErrTimeout)
			if waited := time.Since(start); waited != roundTrip/2 {
				t.Errorf("waited %v, want %v", waited, roundTrip/2)
			}
			store.cut.Store(false)
		})
	})
	t.Run("refuses one lock twice", func(t *testing.T) {
		locks := open(t)
		alice, bob := openSession(t, locks, "alice"), openSession(t, locks, "bob")
		for what, twice := range map[string][]channelapi.AnyLock{
			"without a session":          {locks.Lock("a"), locks.Lock("b"), locks.Lock("a")},
			"with a session and without": {alice.Lock("a"), locks.Lock("a")},
			"with two sessions":          {alice.Lock("a"), bob.Lock("a"), alice.Lock("a")},
		} {
			_, err := channelapi.All(waittest.Context(t), twice...)
			if wrong, ok := errors.AsType[*lockagent.OptionError](err); !ok ||
				!strings.Contains(wrong.Reason, "ask once, or through one session") {
				t.Errorf("%s: %v, want an OptionError that says what to do", what, err)
			}
			wantFree(t, locks.Lock("a"))
			wantFree(t, locks.Lock("b"))
		}
	})
	t.Run("refuses a lock that sorts before one that the session holds", func(t *testing.T) {
		locks := open(t)
		s, other := openSession(t, locks, "alice"), openSession(t, locks, "bob")
		m, z := hold(t, s.Lock("m")), hold(t, s.Lock("z"))
		_, err := channelapi.All(waittest.Context(t), s.Lock("n"), locks.Lock("zz"))
		if wrong, ok := errors.AsType[*channelapi.OptionError](err); !ok ||
			!strings.Contains(wrong.Reason, `holds "z"`) || !strings.Contains(wrong.Reason, `"n"`) {
			t.Errorf("All: %v, want an OptionError that names both", err)
		}
		wantErr(t, "DoAll", channelapi.DoAll(waittest.Context(t), nil, s.Lock("n")), channelapi.ErrBadOption)
		wantFree(t, locks.Lock("n"))
		for what, all := range map[string][]channelapi.AnyLock{
			"what sorts after it":             {s.Lock("zz")},
			"what it holds already":           {s.Lock("m"), s.Lock("z")},
			"what another session asks for":   {other.Lock("n")},
			"what is asked without a session": {locks.Lock("n")},
		} {
			grants, err := channelapi.All(waittest.Context(t), all...)
			wantErr(t, what, err, nil)
			for _, g := range grants {
				unlock(t, g)
			}
		}
		unlock(t, z)
		grants, err := channelapi.All(waittest.Context(t), s.Lock("n"))
		wantErr(t, "when z was released", err, nil)
		unlock(t, grants[0])
		unlock(t, m)
	})
	t.Run("lets a session in twice", func(t *testing.T) {
		l := openSession(t, open(t), "alice").Lock(name)
		grants, err := channelapi.All(waittest.Context(t), l, l)
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
	t.Run("needs a lock", func(t *testing.T) {
		_, err := channelapi.All(t.Context())
		wantErr(t, "All of none", err, lockagent.ErrBadOption)
		l := open(t).Lock(name)
		_, err = channelapi.All(t.Context(), l, nil)
		if err == nil || !strings.Contains(err.Error(), "number 1 is nil; make it with Locks.Lock or Session.Lock") {
			t.Errorf("All of a lock that is missing: %v", err)
		}
		wantFree(t, l)
	})
}

// A grant that nobody receives from FirstAsync or AllAsync goes back like any other.
func TestFirstAsyncAndAllAsync(t *testing.T) {
	type forms struct {
		first <-chan channelapi.Grant
		all   <-chan channelapi.Grants
	}
	ask := func(ctx context.Context, locks *channelapi.Locks) forms {
		return forms{
			channelapi.FirstAsync(ctx, locks.Lock("f"), locks.Lock("f")),
			channelapi.AllAsync(ctx, locks.Lock("a"), locks.Lock("b")),
		}
	}
	free := func(t *testing.T, locks *channelapi.Locks) {
		t.Helper()
		for _, n := range []string{"f", "a", "b"} {
			wantFree(t, locks.Lock(n))
		}
	}
	t.Run("received", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			ctx, cancel := context.WithCancel(t.Context())
			got := ask(ctx, locks)
			if cap(got.first) != 1 || cap(got.all) != 1 {
				t.Error("the channels do not have capacity 1")
			}
			f, all := <-got.first, <-got.all
			cancel()
			time.Sleep(2 * claim)
			if f.Err() != nil || all.Err() != nil || !f.Held() || !all.List()[0].Held() || !all.List()[1].Held() {
				t.Errorf("not held: %v, %v", f.Err(), all.Err())
			}
			wantClosed(t, got.first)
			wantClosed(t, got.all)
			for _, g := range append(all.List(), f) {
				unlock(t, g)
			}
			free(t, locks)
		})
	})
	t.Run("not received before the context ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			ctx, change := changing(t)
			got := ask(ctx, locks)
			synctest.Wait()
			time.Sleep(time.Second)
			change()
			synctest.Wait()
			free(t, locks)
			for what, err := range map[string]error{"FirstAsync": (<-got.first).Err(), "AllAsync": (<-got.all).Err()} {
				wantErr(t, what, err, errChangedMind)
				if wait, ok := errors.AsType[*channelapi.WaitError](err); !ok || wait.Waited != time.Second {
					t.Errorf("%s: %v, want that it waited a second", what, err)
				}
			}
			wantClosed(t, got.first)
			wantClosed(t, got.all)
			wantErr(t, "the zero Grants", (<-got.all).Err(), channelapi.ErrNotGranted)
		})
	})
	t.Run("denied and received late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			hold(t, locks.Lock("b"))
			hold(t, locks.Lock("f"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := ask(ctx, locks)
			time.Sleep(2 * claim) // the loop is busy with something else
			wantErr(t, "FirstAsync", (<-got.first).Err(), channelapi.ErrTimeout)
			wantErr(t, "AllAsync", (<-got.all).Err(), channelapi.ErrTimeout)
			wantClosed(t, got.all)
		})
	})
	t.Run("lost before anybody received them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			short := channelapi.Lease(time.Second)
			first := channelapi.FirstAsync(t.Context(), locks.Lock("f", short))
			all := channelapi.AllAsync(t.Context(), locks.Lock("a"), locks.Lock("b", short))
			time.Sleep(2 * time.Second)
			free(t, locks)
			for what, err := range map[string]error{"FirstAsync": (<-first).Err(), "AllAsync": (<-all).Err()} {
				wantErr(t, what, err, channelapi.ErrNotGranted)
				if lost, ok := errors.AsType[*channelapi.LostError](err); !ok || lost.Reason != channelapi.LostExpired {
					t.Errorf("%s: %v, want that the lease ran out", what, err)
				}
			}
		})
	})
	t.Run("ended by a Close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			s := openSession(t, locks, "alice")
			got, session := ask(t.Context(), locks), channelapi.FirstAsync(t.Context(), s.Lock("s"))
			synctest.Wait()
			wantErr(t, "Close of the session", s.Close(t.Context()), nil)
			wantErr(t, "Close", locks.Close(), nil)
			synctest.Wait()
			wantErr(t, "FirstAsync of the session", (<-session).Err(), channelapi.ErrSessionClosed)
			wantErr(t, "FirstAsync", (<-got.first).Err(), channelapi.ErrClosed)
			wantErr(t, "AllAsync", (<-got.all).Err(), channelapi.ErrClosed)
		})
	})
	t.Run("not received in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := openWith(t, quiet(memstore.New()))
			got := ask(t.Context(), locks)
			time.Sleep(claim - 1)
			if !inspect(t, locks.Lock("f")).Locked || !inspect(t, locks.Lock("a")).Locked {
				t.Error("taken back too early")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			free(t, locks)
			wantErr(t, "FirstAsync", (<-got.first).Err(), channelapi.ErrNotGranted)
			wantErr(t, "AllAsync", (<-got.all).Err(), channelapi.ErrNotGranted)
		})
	})
	t.Run("refused", func(t *testing.T) {
		wantErr(t, "FirstAsync", (<-channelapi.FirstAsync(t.Context())).Err(), channelapi.ErrBadOption)
		wantErr(t, "AllAsync", (<-channelapi.AllAsync(t.Context(), nil)).Err(), channelapi.ErrBadOption)
	})
}

// The error of First says why the agent took a grant back before First received it.
func TestFirstWhoseGrantsWereTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, change := changing(t)
		locks := openWith(t, channelapi.Config{Store: meanwhile{memstore.New(), "c", func() {
			// The context ends while First asks for its second lock. The first lock has been
			// granted.
			synctest.Wait()
			change()
			synctest.Wait()
		}}})
		g, err := channelapi.First(ctx, locks.Lock("b"), locks.Lock("c"))
		if g.Held() || len(joined(err)) != 2 {
			t.Fatalf("First: %v, want two errors", err)
		}
		for _, e := range joined(err) {
			wantErr(t, "First", e, errChangedMind)
		}
	})
}

// meanwhile is a store that runs a function before it acquires a certain lock.
type meanwhile struct {
	*memstore.Store
	lock lockagent.Name
	do   func()
}

func (s meanwhile) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	if req.Name == s.lock {
		s.do()
	}
	s.Store.Acquire(ctx, req, done)
}

// askedFor records which locks were granted or waited for, in order.
type askedFor struct {
	mu    sync.Mutex
	locks []lockagent.Name // guarded by mu
}

func (a *askedFor) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventQueued {
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
