package channelapi_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// panicOf is what f panics with.
func panicOf(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func TestLocker(t *testing.T) {
	t.Run("excludes others", func(t *testing.T) {
		store := memstore.New()
		count := 0
		var wg sync.WaitGroup
		for range 2 {
			locker := openOver(t, store).Lock(name).Locker(t.Context())
			for range 4 {
				wg.Go(func() {
					for range 50 {
						locker.Lock()
						count++
						locker.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if count != 2*4*50 {
			t.Errorf("counted %d, want %d", count, 2*4*50)
		}
	})
	t.Run("panics if it is not granted", func(t *testing.T) {
		locks := open(t)
		g := hold(t, locks.Lock(name))
		locker := locks.Lock(name, channelapi.Try()).Locker(t.Context())
		wantErr(t, "Lock", panicOf(locker.Lock), channelapi.ErrHeld)
		unlock(t, g)
		locker.Lock() // goes on
		if !inspect(t, locks.Lock(name)).Locked {
			t.Error("Lock did not lock")
		}
		locker.Unlock()
	})
	t.Run("panics if the hold had been lost", func(t *testing.T) {
		l := open(t).Lock(name)
		locker := l.Locker(t.Context())
		locker.Lock()
		if _, err := l.Break(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "Unlock", panicOf(locker.Unlock), channelapi.ErrLost)
		locker.Lock()
		if !inspect(t, l).Locked {
			t.Error("Lock did not lock")
		}
		locker.Unlock()
		wantFree(t, l)
	})
	t.Run("lets nobody in while a loser has not noticed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locker := open(t).Lock(name, channelapi.Lease(time.Minute)).Locker(t.Context())
			locker.Lock()
			time.Sleep(time.Hour)
			var inside bool
			go func() {
				locker.Lock()
				inside = true
				locker.Unlock()
			}()
			synctest.Wait()
			if inside {
				t.Error("two goroutines are inside")
			}
			wantErr(t, "Unlock", panicOf(locker.Unlock), channelapi.ErrLost)
			synctest.Wait()
			if !inside {
				t.Error("the next one is still outside")
			}
		})
	})
	t.Run("waits for another goroutine no longer than it may", func(t *testing.T) {
		for what, c := range map[string]struct {
			option channelapi.Option
			bound  time.Duration // of the context
			waits  time.Duration
			err    error
		}{
			"context": {channelapi.Lease(time.Hour), time.Second, time.Second, context.DeadlineExceeded},
			"Wait":    {channelapi.Wait(time.Second), time.Hour, time.Second, channelapi.ErrTimeout},
			"Try":     {channelapi.Try(), time.Hour, 0, channelapi.ErrHeld},
		} {
			synctest.Test(t, func(t *testing.T) {
				l := open(t)
				ctx, cancel := context.WithTimeout(t.Context(), c.bound)
				defer cancel()
				locker := l.Lock(name, c.option).Locker(ctx)
				locker.Lock()
				time.AfterFunc(time.Minute, locker.Unlock)
				start := time.Now()
				wantErr(t, what, panicOf(locker.Lock), c.err)
				if waited := time.Since(start); waited != c.waits {
					t.Errorf("%s: waited %v, want %v", what, waited, c.waits)
				}
				time.Sleep(time.Hour)
				wantFree(t, l.Lock(name))
			})
		}
	})
	t.Run("releases although its context has ended", func(t *testing.T) {
		l := open(t).Lock(name)
		ctx, cancel := context.WithCancel(t.Context())
		locker := l.Locker(ctx)
		locker.Lock()
		cancel()
		locker.Unlock()
		wantFree(t, l)
		wantErr(t, "Lock", panicOf(locker.Lock), context.Canceled)
		wantErr(t, "Unlock without Lock", panicOf(locker.Unlock), channelapi.ErrNotHeld)
	})
}
