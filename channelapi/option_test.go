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

func TestOptionThatMakesNoSense(t *testing.T) {
	type options = []channelapi.Option
	for _, c := range []struct {
		what    string
		opts    options
		reasons []string // one for each error, in order: what is wrong, what to do
	}{
		{
			"Lease(0)",
			options{channelapi.Lease(0)},
			[]string{"lease: 0s is shorter than the shortest lease, 1ms; leave it out for"},
		},
		{
			"Lease(-1s)",
			options{channelapi.Lease(-time.Second)},
			[]string{"lease: -1s is shorter than the shortest lease, 1ms; leave it out for"},
		},
		{"Lease(1ms-1)", options{channelapi.Lease(lockagent.MinLease - 1)}, []string{"lease: 999.999µs is shorter"}},
		{
			"Lease(1y+1)",
			options{channelapi.Lease(lockagent.MaxLease + 1)},
			[]string{"is longer than the longest lease, 8760h0m0s; leave it out for"},
		},
		{
			"Wait and Try",
			options{channelapi.Wait(time.Second), channelapi.Try()},
			[]string{"wait: Wait and Try exclude each other; leave one of them out"},
		},
		{
			"Outlive",
			options{channelapi.Outlive()},
			[]string{"outlive: a lease that is kept ends with whoever keeps it; add Lease"},
		},
		{"nil", options{channelapi.Try(), nil}, []string{"option: number 1 is nil; leave it out"}},
		{
			"all of them",
			options{channelapi.Try(), channelapi.Lease(0), nil, channelapi.Wait(0)},
			[]string{"lease", "option", "wait"},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := open(t).Lock(name, c.opts...)
			g := <-l.AcquireAsync(t.Context())
			if g.Held() || g.Token() != 0 {
				t.Error("the lock was granted")
			}
			wantErr(t, "Err", g.Err(), lockagent.ErrBadOption)
			var texts []string
			for _, err := range joined(g.Err()) {
				if _, ok := errors.AsType[*lockagent.OptionError](err); !ok {
					t.Fatalf("%v is no OptionError", err)
				}
				texts = append(texts, err.Error())
			}
			if len(texts) != len(c.reasons) {
				t.Fatalf("%q, want %d errors", texts, len(c.reasons))
			}
			for i, reason := range c.reasons {
				if !strings.Contains(texts[i], reason) {
					t.Errorf("%q does not say %q", texts[i], reason)
				}
			}
			wantFree(t, l)
		})
	}
}

// joined returns the parts of an error of errors.Join.
func joined(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	for _, opt := range []channelapi.Option{
		channelapi.Wait(1), channelapi.Wait(1<<63 - 1), channelapi.Lease(lockagent.MaxLease),
		channelapi.Lease(lockagent.MinLease),
	} {
		synctest.Test(t, func(t *testing.T) { // where even the shortest time outlasts the answer
			unlock(t, hold(t, open(t).Lock(name, opt)))
		})
	}
}

func TestWait(t *testing.T) {
	t.Run("bounds the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			hold(t, locks.Lock(name))
			start := time.Now()
			_, err := locks.Lock(name, channelapi.Wait(5*time.Second)).Acquire(t.Context())
			wantErr(t, "Acquire", err, lockagent.ErrTimeout)
			wantErr(t, "Acquire", err, context.DeadlineExceeded)
			if wait, ok := errors.AsType[*channelapi.WaitError](err); !ok || wait.Name != name || wait.Waited != 5*time.Second ||
				wait.Holder == "" {
				t.Errorf("%#v does not say how long it waited for what, and who held it", err)
			}
			if waited := time.Since(start); waited != 5*time.Second {
				t.Errorf("waited %v, want 5s", waited)
			}
		})
	})
	for _, d := range []time.Duration{0, -time.Second} {
		t.Run("has passed if it is "+d.String(), func(t *testing.T) {
			l := open(t).Lock(name, channelapi.Wait(d))
			_, err := l.Acquire(t.Context())
			wantErr(t, "Acquire", err, lockagent.ErrTimeout)
			wantErr(t, "Acquire", err, context.DeadlineExceeded)
			wantErr(t, "AcquireAsync", (<-l.AcquireAsync(t.Context())).Err(), lockagent.ErrTimeout)
			wantFree(t, l)
		})
	}
	t.Run("ends with the context if that is earlier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			hold(t, locks.Lock(name))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			_, err := locks.Lock(name, channelapi.Wait(5*time.Second)).Acquire(ctx)
			wantErr(t, "Acquire", err, context.DeadlineExceeded)
			wantErr(t, "Acquire", err, lockagent.ErrTimeout)
			if waited := time.Since(start); waited != 2*time.Second {
				t.Errorf("waited %v, want 2s", waited)
			}
		})
	})
}

// The hold ends before the lease in the store.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks, other := openOver(t, store), openOver(t, store)
		start := time.Now()
		g := hold(t, locks.Lock(name, channelapi.Lease(10*time.Second)))
		if s := inspect(t, locks.Lock(name)); s.Remaining != 10*time.Second {
			t.Errorf("%v remain in the store, want 10s", s.Remaining)
		}
		next := other.Lock(name).AcquireAsync(t.Context())
		<-g.Done()
		if held := time.Since(start); held != 9*time.Second {
			t.Errorf("lost after %v, want 9s", held)
		}
		if g.Held() || g.Remaining() != 0 {
			t.Error("the grant says that it is held")
		}
		wantLost(t, g.Cause(), g, lockagent.LostExpired)
		if g := <-next; g.Err() != nil {
			t.Errorf("the next owner: %v", g.Err())
		}
		wantLost(t, g.Release(t.Context()), g, lockagent.LostExpired)
	})
}

func TestNoRest(t *testing.T) {
	for _, c := range []struct {
		options []channelapi.Option
		rests   bool
	}{
		{nil, true},
		{[]channelapi.Option{channelapi.NoRest()}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			lock := open(t).Lock(name, c.options...)
			time.Sleep(time.Second) // a process that has just begun has no habits
			for range 5 {           // a lock rests from its fourth tenure in a row on
				unlock(t, hold(t, lock))
			}
			synctest.Wait()
			if s := inspect(t, lock); s.Resting != c.rests {
				t.Errorf("with %d options the lock rests: %t, want %t", len(c.options), s.Resting, c.rests)
			}
		})
	}
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		g := hold(t, locks.Lock(name, channelapi.Lease(time.Minute)))
		for range 10 {
			time.Sleep(30 * time.Second)
			wantErr(t, "Extend", g.Extend(t.Context(), time.Minute), nil)
		}
		if s := inspect(t, locks.Lock(name)); !g.Held() || s.Remaining != time.Minute {
			t.Errorf("held: %t, %v remain in the store, want a minute", g.Held(), s.Remaining)
		}
		wantErr(t, "Extend by nothing", g.Extend(t.Context(), 0), channelapi.ErrBadOption)
		<-g.Done()
		wantLost(t, g.Extend(t.Context(), time.Minute), g, channelapi.LostExpired)
		kept := hold(t, locks.Lock(name))
		wantErr(t, "Extend of a lease that is kept", kept.Extend(t.Context(), time.Minute), channelapi.ErrBadOption)
		unlock(t, kept)
		wantErr(t, "Extend of what was released", kept.Extend(t.Context(), time.Minute), channelapi.ErrBadOption)
	})
}
