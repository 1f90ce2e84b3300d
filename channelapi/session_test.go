package channelapi_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

func TestSessionClose(t *testing.T) {
	t.Run("ends what the session holds and waits for, and nothing else", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			s := openSession(t, locks, "alice")
			grants := []lockagent.Grant{hold(t, s.Lock("a")), hold(t, s.Lock("a")), hold(t, s.Lock("b"))}
			unlock(t, hold(t, s.Lock("before")))
			local, remote := hold(t, locks.Lock("local")), hold(t, other.Lock("remote"))
			waiting := []<-chan lockagent.Grant{
				s.Lock("local").AcquireAsync(t.Context()), s.Lock("remote").AcquireAsync(t.Context()),
			}
			next := locks.Lock("a").AcquireAsync(t.Context())
			synctest.Wait()

			wantErr(t, "Close", s.Close(t.Context()), nil)
			for _, g := range grants {
				wantLost(t, g.Cause(), g, lockagent.LostSessionClosed)
				wantLost(t, g.Release(t.Context()), g, lockagent.LostSessionClosed)
			}
			for _, grant := range waiting {
				wantErr(t, "the waiting request", (<-grant).Err(), lockagent.ErrSessionClosed)
			}
			if g := <-next; g.Err() != nil {
				t.Errorf("the next in the queue: %v", g.Err())
			}
			wantFree(t, other.Lock("b"))
			if !local.Held() || !remote.Held() {
				t.Error("somebody else's hold is over")
			}
		})
	})
	t.Run("refuses everything afterwards", func(t *testing.T) {
		locks := open(t)
		s := openSession(t, locks, "alice")
		l := s.Lock(name)
		wantErr(t, "Close", s.Close(t.Context()), nil)
		wantErr(t, "Close again", s.Close(t.Context()), nil)
		_, err := l.Acquire(t.Context())
		wantErr(t, "Acquire", err, lockagent.ErrSessionClosed)
		_, err = s.Lock("another").TryAcquire(t.Context())
		wantErr(t, "TryAcquire", err, lockagent.ErrSessionClosed)
		wantErr(t, "Release", l.Release(t.Context()), lockagent.ErrSessionClosed)
		wantFree(t, l)
	})
	t.Run("leaves the owner's next session alone", func(t *testing.T) {
		locks := open(t)
		old := openSession(t, locks, "alice")
		lost := hold(t, old.Lock(name))
		wantErr(t, "Close", old.Close(t.Context()), nil)
		g := hold(t, openSession(t, locks, "alice").Lock(name))
		wantErr(t, "Release by the old one", old.Lock(name).Release(t.Context()), lockagent.ErrSessionClosed)
		wantLost(t, lost.Release(t.Context()), lost, lockagent.LostSessionClosed)
		wantErr(t, "Close of the old one", old.Close(t.Context()), nil)
		_, err := locks.Session("alice")
		wantErr(t, "a third session beside the second", err, lockagent.ErrBadOwner)
		if !g.Held() {
			t.Errorf("the new hold is over: %v", g.Cause())
		}
	})
	t.Run("waits for the store, until the context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := openWith(t, channelapi.Config{Store: newFarStore()})
			s := openSession(t, locks, "alice")
			hold(t, s.Lock("a"))
			hold(t, s.Lock("b"))
			start := time.Now()
			wantErr(t, "Close", s.Close(t.Context()), nil)
			if waited := time.Since(start); waited != roundTrip {
				t.Errorf("waited %v, want %v", waited, roundTrip)
			}

			s = openSession(t, locks, "alice")
			hold(t, s.Lock("a"))
			hold(t, s.Lock("b"))
			ctx, change := changing(t)
			change()
			err := s.Close(ctx)
			wantErr(t, "Close", err, errChangedMind)
			if err.Error() != errChangedMind.Error() {
				t.Errorf("Close says %q, once is enough", err)
			}
			time.Sleep(roundTrip)
			wantFree(t, locks.Lock("a"))
			wantFree(t, locks.Lock("b"))
		})
	})
	t.Run("tells what had been lost unnoticed", func(t *testing.T) {
		store := memstore.New()
		s := openSession(t, openOver(t, store), "alice")
		g := hold(t, s.Lock(name))
		store.PlantHolder(name, "another program", 1, time.Minute)
		wantErr(t, "Close", s.Close(t.Context()), lockagent.ErrLost)
		wantLost(t, g.Cause(), g, lockagent.LostSessionClosed)
	})
	t.Run("while the store is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			locks := openWith(t, channelapi.Config{Store: store})
			s := openSession(t, locks, "alice")
			g := hold(t, s.Lock(name))
			store.cut.Store(true)
			wantErr(t, "Close", s.Close(t.Context()), lockagent.ErrUnconfirmed)
			wantLost(t, g.Cause(), g, lockagent.LostSessionClosed)
			store.cut.Store(false)
			time.Sleep(5 * time.Second) // less than the lease
			wantFree(t, locks.Lock(name))
		})
	})
}

func TestSessionCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFarStore()
		locks := openWith(t, channelapi.Config{Store: store})
		s := openSession(t, locks, "alice")
		hold(t, s.Lock(name))
		store.cut.Store(true)
		pending(t, s.Done())
		start := time.Now()
		first := make(chan error, 1)
		go func() { first <- s.Close(t.Context()) }()
		synctest.Wait()
		wantClosed(t, s.Done())
		ended, change := changing(t)
		change()
		wantErr(t, "a second Close that does not wait", s.Close(ended), errChangedMind)
		wantErr(t, "a second Close", s.Close(t.Context()), channelapi.ErrUnconfirmed)
		wantErr(t, "the first Close", <-first, channelapi.ErrUnconfirmed)
		if waited := time.Since(start); waited != roundTrip {
			t.Errorf("waited %v, want %v", waited, roundTrip)
		}
		store.cut.Store(false)
		time.Sleep(5 * time.Second)
	})
}

func TestSessionEndsWithItsLocks(t *testing.T) {
	locks := open(t)
	s := openSession(t, locks, "alice")
	wantErr(t, "Close", locks.Close(), nil)
	wantClosed(t, s.Done())
	wantErr(t, "Close of the session", s.Close(t.Context()), nil)
}

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		s, other := openSession(t, locks, "alice"), openSession(t, locks, "bob")
		want := func(what string, want bool) {
			t.Helper()
			if s.Holds(name) != want {
				t.Errorf("%s: alice holds it: %t, want %t", what, !want, want)
			}
			if other.Holds(name) || s.Holds("another") {
				t.Errorf("%s: somebody holds what was not granted", what)
			}
		}
		want("at first", false)
		first, second := hold(t, s.Lock(name)), hold(t, s.Lock(name))
		want("granted", true)
		waiting := other.Lock(name).AcquireAsync(t.Context())
		unlock(t, first)
		want("granted twice and released once", true)
		unlock(t, second)
		unlock(t, <-waiting)
		want("released", false)
		g := hold(t, s.Lock(name, channelapi.Lease(time.Minute)))
		want("granted again", true)
		<-g.Done()
		synctest.Wait()
		want("expired", false)
		hold(t, locks.Lock(name))
		s.Lock(name).AcquireAsync(t.Context())
		synctest.Wait()
		want("waited for", false)
	})
}

// Close answers every request of a session, at whatever stage the request is. The session has
// no lock afterwards.
func TestSessionCloseRacesWithAcquire(t *testing.T) {
	const rounds, workers = 200, 6
	locks := open(t)
	names := []string{"a", "b", "c"}
	for range rounds {
		s := openSession(t, locks, "alice")
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				l := s.Lock(names[i%len(names)])
				for {
					g, err := l.Acquire(context.Background())
					if err != nil {
						wantErr(t, "Acquire", err, lockagent.ErrSessionClosed)
						return
					}
					if i%2 == 0 { // the others leave theirs to Close
						continue
					}
					if err := g.Release(context.Background()); err != nil && !errors.Is(err, lockagent.ErrLost) {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
		hold(t, s.Lock("a")) // they are at work
		wantErr(t, "Close", s.Close(t.Context()), nil)
		wg.Wait()
		for _, n := range names {
			wantFree(t, locks.Lock(n))
		}
	}
}

// A session and its agent close at the same time. The agent then returns the locks.
func TestSessionCloseRacesWithClose(t *testing.T) {
	store := memstore.New()
	for range 300 {
		locks := openOver(t, store)
		s := openSession(t, locks, "alice")
		for _, n := range []string{"a", "b", "c", "d"} {
			hold(t, s.Lock(n))
		}
		var wg sync.WaitGroup
		wg.Go(func() { wantErr(t, "Close", locks.Close(), nil) })
		wg.Go(func() { wantErr(t, "Close of the session", s.Close(t.Context()), nil) })
		wg.Wait()
	}
}

// closer is a recorder that has a session closed while the agent grants a request of the
// session, and uses the session meanwhile.
type closer struct {
	session *channelapi.Session
	closed  chan error // of Close
}

func (c *closer) Record(ctx context.Context, e lockagent.Event) {
	if e.Kind != lockagent.EventGranted || c.closed != nil {
		return
	}
	c.closed = make(chan error, 1)
	go func() { c.closed <- c.session.Close(context.Background()) }()
	for !errors.Is(<-c.session.Lock("another").ReleaseAsync(ctx), channelapi.ErrSessionClosed) {
		runtime.Gosched()
	}
}

func TestSessionIsUsedByACallbackDuringClose(t *testing.T) {
	var c closer
	locks := openWith(t, channelapi.Config{Store: memstore.New(), Recorder: &c})
	c.session = openSession(t, locks, "alice")
	g := <-c.session.Lock(name).AcquireAsync(t.Context())
	wantErr(t, "Close", <-c.closed, nil)
	if g.Held() {
		t.Error("the session holds a lock after Close")
	}
	wantFree(t, locks.Lock(name))
}
