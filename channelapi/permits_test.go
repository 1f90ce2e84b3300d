package channelapi_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// permitted are the methods of both kinds of semaphores.
type permitted interface {
	Acquire(ctx context.Context, n int) (channelapi.Grant, error)
	AcquireAsync(ctx context.Context, n int) <-chan channelapi.Grant
	TryAcquire(ctx context.Context, n int) (channelapi.Grant, error)
	Turns(ctx context.Context, n int) <-chan channelapi.Grant
	Do(ctx context.Context, n int, work func(context.Context, channelapi.Grant) error) error
	Status(ctx context.Context) (channelapi.PermitsStatus, error)
	TrySetPermits(ctx context.Context, n int) (bool, error)
	AddPermits(ctx context.Context, n int) (int, error)
	Delete(ctx context.Context) (bool, error)
}

// bothKinds runs a test for a semaphore of each kind, in a bubble. Both handles are of one semaphore,
// in two processes.
func bothKinds(t *testing.T, check func(t *testing.T, store *memstore.Store, a, b permitted)) {
	for kind, open := range map[string]func(l *channelapi.Locks, opts ...channelapi.Option) permitted{
		"Semaphore": func(l *channelapi.Locks, opts ...channelapi.Option) permitted { return l.Semaphore(name, opts...) },
		"Permits":   func(l *channelapi.Locks, opts ...channelapi.Option) permitted { return l.Permits(name, opts...) },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				check(t, store, open(openOver(t, store)), open(openOver(t, store)))
			})
		})
	}
}

func setPermits(t *testing.T, p permitted, n int) {
	t.Helper()
	if set, err := p.TrySetPermits(t.Context(), n); err != nil || !set {
		t.Fatalf("TrySetPermits = %t, %v", set, err)
	}
}

func take(t *testing.T, p permitted, n int) channelapi.Grant {
	t.Helper()
	g, err := p.Acquire(waittest.Context(t), n)
	if err != nil {
		t.Fatalf("Acquire(%d): %v", n, err)
	}
	return g
}

func wantPermits(t *testing.T, p permitted, free, taken int) {
	t.Helper()
	s, err := p.Status(t.Context())
	if want := (channelapi.PermitsStatus{Exists: true, Free: free, Taken: taken}); err != nil || s != want {
		t.Errorf("status %+v, %v; want %+v", s, err, want)
	}
}

func TestPermits(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		setPermits(t, a, 5)
		one, two := take(t, a, 2), take(t, a, 1)
		three := take(t, b, 2)
		wantPermits(t, b, 0, 5)
		_, err := b.TryAcquire(t.Context(), 1)
		wantErr(t, "TryAcquire", err, channelapi.ErrHeld)
		waits := b.AcquireAsync(t.Context(), 3)
		synctest.Wait()
		pending(t, waits)
		unlock(t, two)
		synctest.Wait()
		pending(t, waits) // one is free, and kept for this request
		_, err = a.TryAcquire(t.Context(), 1)
		wantErr(t, "TryAcquire", err, channelapi.ErrHeld)
		unlock(t, one)
		late := <-waits
		if late.Err() != nil || late.Token() <= three.Token() {
			t.Fatalf("granted %v, token %d after %d", late.Err(), late.Token(), three.Token())
		}
		time.Sleep(10 * time.Minute) // the agents keep the leases
		wantPermits(t, a, 0, 5)
		unlock(t, late)
		unlock(t, three)
		wantErr(t, "a second Release", three.Release(t.Context()), channelapi.ErrNotHeld)
		wantPermits(t, a, 5, 0)
		for _, n := range []int{0, -1, 1 << 31} {
			_, err := a.Acquire(t.Context(), n)
			wantErr(t, "Acquire of a wrong number", err, channelapi.ErrBadOption)
		}
		_, err = a.AddPermits(t.Context(), 1<<31)
		wantErr(t, "AddPermits", err, channelapi.ErrBadOption)
		_, err = a.TrySetPermits(t.Context(), -1)
		wantErr(t, "TrySetPermits", err, channelapi.ErrBadOption)
	})
}

// A grant that nobody receives goes back.
func TestPermitsThatNobodyReceives(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		setPermits(t, a, 3)
		ctx, changeMind := changing(t)
		a.AcquireAsync(ctx, 3)
		synctest.Wait()
		wantPermits(t, b, 0, 3)
		waits := b.AcquireAsync(t.Context(), 2)
		synctest.Wait()
		changeMind()
		unlock(t, <-waits)
		wantPermits(t, b, 3, 0)
	})
}

// A semaphore that nobody has set is waited for. One that is deleted fails its waiters.
func TestPermitsComeAndGo(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		var waits []<-chan channelapi.Grant
		for range 3 {
			waits = append(waits, b.AcquireAsync(t.Context(), 1))
		}
		synctest.Wait()
		if s, err := a.Status(t.Context()); err != nil || s.Exists {
			t.Errorf("status %+v, %v", s, err)
		}
		began := time.Now()
		setPermits(t, a, 2)
		first, second := <-waits[0], <-waits[1]
		wantErr(t, "the first", first.Err(), nil)
		wantErr(t, "the second", second.Err(), nil)
		pending(t, waits[2])
		more := b.AcquireAsync(t.Context(), 1)
		synctest.Wait()
		if deleted, err := a.Delete(t.Context()); err != nil || !deleted {
			t.Errorf("Delete = %t, %v", deleted, err)
		}
		wantErr(t, "a waiter", (<-waits[2]).Err(), channelapi.ErrDeleted)
		wantErr(t, "the other waiter", (<-more).Err(), channelapi.ErrDeleted)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("they learned of it after %v", waited)
		}
		<-first.Done()
		wantLost(t, first.Cause(), first, lockagent.LostDenied)
		<-second.Done()
	})
}

// A request for more permits than there are keeps nobody out, if the store knows how many there are.
func TestPermitsThatDoNotExist(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		setPermits(t, a, 5)
		large := a.AcquireAsync(t.Context(), 6)
		synctest.Wait()
		others := b.AcquireAsync(t.Context(), 2)
		synctest.Wait()
		if _, exact := a.(*channelapi.Permits); exact {
			small := <-others
			wantErr(t, "a wait beside it", small.Err(), nil)
			unlock(t, take(t, b, 3))
			unlock(t, small)
		} else {
			pending(t, others)
		}
		pending(t, large)
		if _, err := b.AddPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		unlock(t, <-large)
		if _, exact := a.(*channelapi.Permits); !exact {
			unlock(t, <-others)
		}
		wantPermits(t, b, 6, 0)
	})
}

// A store that loses its data has deleted its semaphores.
func TestPermitsOfAStoreThatForgets(t *testing.T) {
	bothKinds(t, func(t *testing.T, store *memstore.Store, a, b permitted) {
		setPermits(t, a, 1)
		a.AcquireAsync(t.Context(), 1)
		synctest.Wait()
		waits := b.AcquireAsync(t.Context(), 1)
		synctest.Wait()
		store.Reset()
		wantErr(t, "a waiter", (<-waits).Err(), channelapi.ErrDeleted)
	})
}

func TestPermitsTurnsAndDo(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		setPermits(t, a, 4)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		turns := a.Turns(ctx, 3)
		for range 5 {
			g := <-turns
			wantErr(t, "a turn", g.Err(), nil)
			err := b.Do(t.Context(), 1, func(context.Context, channelapi.Grant) error {
				wantPermits(t, b, 0, 4)
				return errChangedMind
			})
			wantErr(t, "Do", err, errChangedMind)
			unlock(t, g)
		}
	})
}

// Many wait, in two processes. All of them get permits at once when there are enough.
func TestPermitsForManyWaiters(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		setPermits(t, a, 0)
		const waiters = 60
		var grants []<-chan channelapi.Grant
		for i := range waiters {
			grants = append(grants, []permitted{a, b}[i%2].AcquireAsync(t.Context(), 1))
			synctest.Wait() // so that each has a place
		}
		began := time.Now()
		if _, err := a.AddPermits(t.Context(), waiters); err != nil {
			t.Fatal(err)
		}
		for _, c := range grants {
			if g := <-c; g.Err() != nil {
				t.Error(g.Err())
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the last had to wait for %v", took)
		}
	})
}

// However many goroutines of two processes take permits, no more are in use than there are.
func TestPermitsInUse(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		const most = 5
		setPermits(t, a, most)
		var inUse atomic.Int64
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				p, n := []permitted{a, b}[i%2], i%most+1
				for range 20 {
					err := p.Do(t.Context(), n, func(context.Context, channelapi.Grant) error {
						if now := inUse.Add(int64(n)); now > most {
							t.Errorf("%d permits are in use", now)
						}
						time.Sleep(time.Duration(i) * time.Millisecond)
						inUse.Add(int64(-n))
						return nil
					})
					if err != nil {
						t.Errorf("Do: %v", err)
					}
				}
			})
		}
		all.Wait()
		wantPermits(t, a, most, 0)
	})
}

// The permits of a process that died come back at the end of its lease.
func TestPermitsOfADeadProcess(t *testing.T) {
	bothKinds(t, func(t *testing.T, store *memstore.Store, _, b permitted) {
		dying := store.Share()
		dead, err := channelapi.New(channelapi.Config{Store: dying})
		if err != nil {
			t.Fatal(err)
		}
		var p permitted = dead.Semaphore(name)
		if _, ok := b.(*channelapi.Permits); ok {
			p = dead.Permits(name)
		}
		setPermits(t, b, 3)
		take(t, p, 2)
		waits := b.AcquireAsync(t.Context(), 3)
		synctest.Wait()
		dying.SetOutage(errors.New("the process is dead"))
		unlock(t, <-waits)
		wantPermits(t, b, 3, 0)
		wantErr(t, "Close", dead.Close(), lockagent.ErrUnconfirmed)
	})
}

// A change counts once, although the store does not answer at first.
func TestPermitsWithASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		behind := store.Share()
		p := openWith(t, channelapi.Config{Store: behind}).Semaphore(name)
		resume := behind.Hang()
		added := p.AddPermitsAsync(t.Context(), 3)
		time.Sleep(12 * time.Second) // two calls had no answer, and will arrive late
		resume()
		if r := <-added; r.Err != nil || r.Value != 3 {
			t.Errorf("AddPermits = %+v", r)
		}
		wantPermits(t, p, 3, 0)

		behind.SetOutage(errors.New("gone"))
		began := time.Now()
		_, err := p.AddPermits(t.Context(), 1)
		wantErr(t, "AddPermits in an outage", err, channelapi.ErrStoreUnavailable)
		if waited := time.Since(began); waited < 28*time.Second || waited > 30*time.Second {
			t.Errorf("it gave up after %v", waited)
		}
		ctx, changeMind := changing(t)
		go func() {
			time.Sleep(time.Second)
			changeMind()
		}()
		_, err = p.AddPermits(ctx, 1)
		wantErr(t, "AddPermits of a caller who went away", err, errChangedMind)
		behind.SetOutage(nil)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t).Semaphore(name)
		setPermits(t, p, 5)
		g := take(t, p, 2)
		if n, err := p.Drain(t.Context()); err != nil || n != 3 {
			t.Errorf("Drain = %d, %v", n, err)
		}
		unlock(t, g)
		wantPermits(t, p, 2, 0)
	})
}

func TestPermitIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		p, other := openOver(t, store).Permits(name), openOver(t, store).Permits(name)
		wantErr(t, "SetPermits", p.SetPermits(t.Context(), 3), nil)
		g := take(t, p, 2)
		ids := g.PermitIDs()
		if len(ids) != 2 || ids[0] == ids[1] || len(ids[0]) != 32 {
			t.Fatalf("ids %q", ids)
		}
		wantErr(t, "ExtendID", other.ExtendID(t.Context(), ids[0], time.Hour), nil)
		wantErr(t, "ReleaseID", other.ReleaseID(t.Context(), ids[1]), nil)
		wantErr(t, "ReleaseID again", other.ReleaseID(t.Context(), ids[1]), channelapi.ErrNoPermit)
		wantErr(t, "ExtendID", other.ExtendID(t.Context(), ids[1], time.Hour), channelapi.ErrNoPermit)
		wantErr(t, "ReleaseID", other.ReleaseID(t.Context(), "xyz"), channelapi.ErrBadOption)
		for what, c := range map[string]<-chan error{
			"ExtendIDAsync":  other.ExtendIDAsync(t.Context(), ids[1], time.Hour),
			"ReleaseIDAsync": other.ReleaseIDAsync(t.Context(), ids[1]),
		} {
			wantErr(t, what, <-c, channelapi.ErrNoPermit)
			synctest.Wait()
			wantClosed(t, c)
		}
		wantErr(t, "SetPermitsAsync", <-p.SetPermitsAsync(t.Context(), 3), nil)
		<-g.Done()
		wantLost(t, g.Release(t.Context()), g, lockagent.LostDenied)
		wantPermits(t, p, 3, 0)
		if ids := (channelapi.Grant{}).PermitIDs(); ids != nil {
			t.Errorf("ids %q of no grant", ids)
		}
	})
}

// The errors of a semaphore tell how many permits were wanted, and how many were free.
func TestErrorsOfPermits(t *testing.T) {
	bothKinds(t, func(t *testing.T, _ *memstore.Store, a, b permitted) {
		inAll := "that there are"
		if _, ok := a.(*channelapi.Semaphore); ok {
			inAll = "that are free or known to be taken"
		}
		wantText := func(what string, err error, want string) {
			t.Helper()
			if err == nil || err.Error() != "lockagent: "+want {
				t.Errorf("%s: %v; want %s", what, err, want)
			}
		}
		acquire := func(n int) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := a.Acquire(ctx, n)
			return err
		}
		try := func(n int) error {
			_, err := a.TryAcquire(t.Context(), n)
			return err
		}
		wantText("a wait before the number is set", acquire(2),
			`wait for permits of "orders/42" timed out after 1s; nobody had set their number: set it with TrySetPermits`)
		wantText("a try before the number is set", try(2),
			`nobody has set the number of permits of "orders/42"; set it with TrySetPermits`)
		setPermits(t, b, 3)
		wantText("a wait for too many", acquire(9),
			`wait for permits of "orders/42" timed out after 1s; 9 were wanted, more than the 3 `+inAll)
		wantText("a try of too many", try(9), `too few permits of "orders/42" are free: 3 of 3, and 9 were wanted`)
		take(t, a, 2)
		wantText("a wait beside an own grant", acquire(2),
			`wait for permits of "orders/42" timed out after 1s; 2 were wanted, and 1 were free`)
		b.AcquireAsync(t.Context(), 2)
		synctest.Wait()
		wantText("a try behind others", try(1), `the permits of "orders/42" that are free are for requests that came earlier`)
		wantText("a try of none", try(0), `bad number of permits: 0 is less than 1; ask for one or more`)
	})
}

// One name is one kind.
func TestPermitsAndLocksOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks, others := openOver(t, store), openOver(t, store)
		setPermits(t, locks.Semaphore(name), 1)
		g := take(t, locks.Semaphore(name), 1)
		for _, l := range []*channelapi.Locks{locks, others} {
			_, err := l.Permits(name).Acquire(t.Context(), 1)
			wantErr(t, "Permits", err, lockagent.ErrWrongKind)
			_, err = l.Lock(name).Acquire(t.Context())
			wantErr(t, "Lock", err, lockagent.ErrWrongKind)
			_, err = l.Permits(name).AddPermits(t.Context(), 1)
			wantErr(t, "AddPermits", err, lockagent.ErrWrongKind)
		}
		unlock(t, g)
	})
}

func TestZeroSemaphores(t *testing.T) {
	for _, p := range []permitted{&channelapi.Semaphore{}, &channelapi.Permits{}} {
		_, err := p.Acquire(t.Context(), 1)
		wantErr(t, "Acquire", err, channelapi.ErrBadOption)
		_, err = p.Status(t.Context())
		wantErr(t, "Status", err, channelapi.ErrBadOption)
		_, err = p.AddPermits(t.Context(), 1)
		wantErr(t, "AddPermits", err, channelapi.ErrBadOption)
	}
}

// A change waits until a grace period is over. If the change is given up before, nothing has changed.
func TestAChangeInAGracePeriod(t *testing.T) {
	grace := &lockagent.GraceError{Name: name, Left: time.Hour}
	quit := errors.New("quit")
	for what, c := range map[string]struct {
		give  func(store *memstore.Store, locks *channelapi.Locks, cancel context.CancelCauseFunc) // after 20 s
		lasts time.Duration
		want  []error
	}{
		"the period ends": {
			func(store *memstore.Store, _ *channelapi.Locks, _ context.CancelCauseFunc) { store.SetOutage(nil) },
			20 * time.Second, nil,
		},
		"the period lasts": {
			func(*memstore.Store, *channelapi.Locks, context.CancelCauseFunc) {}, 30 * time.Second, []error{channelapi.ErrGrace},
		},
		"the context ends": {
			func(_ *memstore.Store, _ *channelapi.Locks, cancel context.CancelCauseFunc) { cancel(quit) }, 20 * time.Second,
			[]error{quit},
		},
		"the agent is closed": {
			func(_ *memstore.Store, locks *channelapi.Locks, _ context.CancelCauseFunc) { _ = locks.Close() }, 20 * time.Second,
			[]error{channelapi.ErrClosed},
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				locks, other := openWith(t, channelapi.Config{Store: store}), openOver(t, store)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				began := time.Now()
				store.SetOutage(grace)
				change := locks.Semaphore(name).AddPermitsAsync(ctx, 3)
				time.Sleep(20 * time.Second)
				c.give(store, locks, cancel)
				r := <-change
				for _, want := range c.want {
					if !errors.Is(r.Err, want) {
						t.Errorf("%v, want %v", r.Err, want)
					}
				}
				// Nobody tells a change of the end of the period, so it looks each tenth of a second.
				if lasted := time.Since(began) - c.lasts; lasted < 0 || lasted > actor.GraceRetry {
					t.Errorf("told %v after %v", lasted, c.lasts)
				}
				store.SetOutage(nil)
				free := 3
				if c.want != nil {
					free = 0
				} else if r.Err != nil || r.Value != free {
					t.Errorf("%d, %v", r.Value, r.Err)
				}
				if s, err := other.Semaphore(name).Status(t.Context()); err != nil || s.Free != free {
					t.Errorf("%d permits are free, want %d: %v", s.Free, free, err)
				}
			})
		})
	}
}
