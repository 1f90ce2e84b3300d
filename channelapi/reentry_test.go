package channelapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// handles are the handles of a session that can be made with NoReentry, for locks of each kind.
var handles = map[string]func(*channelapi.Session, ...channelapi.Option) *channelapi.SessionLock{
	"plain": func(s *channelapi.Session, opts ...channelapi.Option) *channelapi.SessionLock {
		return s.Lock(name, opts...)
	},
	"fenced": func(s *channelapi.Session, opts ...channelapi.Option) *channelapi.SessionLock {
		return s.FencedLock(name, opts...)
	},
	"spin": func(s *channelapi.Session, opts ...channelapi.Option) *channelapi.SessionLock {
		return s.SpinLock(name, opts...)
	},
}

// Scenario M01: others wait as for any lock.
func TestNoReentryExcludesOthers(t *testing.T) {
	for kind, handle := range handles {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				ann, bob := openSession(t, openOver(t, store), "ann"), openSession(t, openOver(t, store), "bob")
				g, err := handle(ann, channelapi.NoReentry()).Acquire(t.Context())
				wantErr(t, "Acquire", err, nil)
				waits := handle(bob, channelapi.NoReentry()).AcquireAsync(t.Context())
				time.Sleep(300 * time.Millisecond)
				pending(t, waits)
				unlock(t, g)
				next := <-waits
				wantErr(t, "Acquire", next.Err(), nil)
				if next.Token() <= g.Token() {
					t.Errorf("token %d after %d", next.Token(), g.Token())
				}
				unlock(t, next)
				wantFree(t, handle(ann))
			})
		})
	}
}

// Scenarios M02 and M03: a second request of the session is refused, whatever handle it comes from.
func TestNoReentryOfOneSession(t *testing.T) {
	for kind, handle := range handles {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openSession(t, openOver(t, memstore.New()), "ann")
				first, second := handle(s, channelapi.NoReentry()), handle(s, channelapi.NoReentry())
				g, err := first.Acquire(t.Context())
				wantErr(t, "Acquire", err, nil)
				began := time.Now()
				for _, l := range []*channelapi.SessionLock{
					first, second, handle(s, channelapi.NoReentry(), channelapi.Wait(100*time.Millisecond)),
				} {
					_, err := l.Acquire(t.Context())
					wantErr(t, "Acquire by the holder", err, channelapi.ErrReentry)
					_, err = l.TryAcquire(t.Context())
					wantErr(t, "TryAcquire by the holder", err, channelapi.ErrReentry)
				}
				if waited := time.Since(began); waited > 0 {
					t.Errorf("refused after %v, want at once", waited)
				}
				if s := inspect(t, first); s.HoldCount != 1 {
					t.Errorf("%+v, want one hold", s)
				}
				unlock(t, g)
				wantFree(t, first)
				again, err := second.Acquire(t.Context())
				wantErr(t, "Acquire after the release", err, nil)
				unlock(t, again)
			})
		})
	}
}

// A session that waits already would hold the lock twice as soon as it is granted.
func TestNoReentryOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := openOver(t, memstore.New())
		s := openSession(t, locks, "ann")
		holder, err := locks.Lock(name).Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
		ctx, giveUp := changing(t)
		waits := s.Lock(name).AcquireAsync(ctx)
		synctest.Wait()
		_, err = s.Lock(name, channelapi.NoReentry()).TryAcquire(t.Context())
		wantErr(t, "TryAcquire of a session that waits", err, channelapi.ErrReentry)
		giveUp()
		wantErr(t, "the wait", (<-waits).Err(), errChangedMind)
		_, err = s.Lock(name, channelapi.NoReentry()).TryAcquire(t.Context())
		wantErr(t, "TryAcquire when it waits no more", err, channelapi.ErrHeld)
		unlock(t, holder)
	})
}

// A hold that was lost is no hold.
func TestNoReentryAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSession(t, openOver(t, memstore.New()), "ann")
		lock := s.Lock(name, channelapi.NoReentry())
		g, err := lock.Acquire(t.Context())
		wantErr(t, "Acquire", err, nil)
		if _, err := lock.Break(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		<-g.Done()
		wantErr(t, "Cause", g.Cause(), channelapi.ErrLost)
		again, err := lock.Acquire(t.Context())
		wantErr(t, "Acquire after a loss", err, nil)
		unlock(t, again)
	})
}

func TestNoReentryNeedsASession(t *testing.T) {
	locks := openOver(t, memstore.New())
	_, err := locks.Lock(name, channelapi.NoReentry()).Acquire(t.Context())
	wantErr(t, "Acquire", err, channelapi.ErrBadOption)
}
