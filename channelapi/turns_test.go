package channelapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

const (
	claim = 30 * time.Second // as Config says
	short = 100 * time.Millisecond
)

// heard is a store whose messages a test can send.
type heard struct {
	*memstore.Store
	hear func(lockagent.Message)
}

func (s *heard) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	s.hear = hear
	return s.Store.Listen(agent, hear)
}

// delayed is a recorder that takes a second for a request that has to wait.
type delayed struct{}

func (delayed) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventQueued {
		time.Sleep(time.Second)
	}
}

// quiet is a configuration for tests that do not receive grants: it logs nothing.
func quiet(store *memstore.Store) channelapi.Config {
	return channelapi.Config{Store: store.Share(), Logger: slog.New(slog.DiscardHandler)}
}

func TestTurns(t *testing.T) {
	t.Run("one after the other", func(t *testing.T) {
		locks := open(t)
		for what, l := range map[string]channelapi.AnyLock{
			"Lock": locks.Lock(name), "SessionLock": openSession(t, locks, "alice").Lock(name),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			turns := l.Turns(ctx)
			var last channelapi.Token
			for range 10 {
				g := <-turns
				if g.Err() != nil || !g.Held() || g.HoldCount() != 1 || g.Token() <= last {
					t.Fatalf("%s: %v, count %d, token %d after %d", what, g.Err(), g.HoldCount(), g.Token(), last)
				}
				last = g.Token()
				unlock(t, g)
			}
			cancel()
			for g := range turns {
				if g.Err() == nil { // it was there before
					unlock(t, g)
				}
			}
			wantFree(t, locks.Lock(name))
		}
	})
	t.Run("not before the last grant was released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			turns := locks.Lock(name).Turns(t.Context())
			g := <-turns
			time.Sleep(time.Hour)
			pending(t, turns)
			if s := inspect(t, locks.Lock(name)); s.Waiters != 0 || !g.Held() {
				t.Errorf("%d requests wait beside the grant", s.Waiters)
			}
			unlock(t, g)
			unlock(t, <-turns)
		})
	})
	t.Run("behind all others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks := openOver(t, store)
			turns := locks.Lock(name).Turns(t.Context())
			mine := <-turns
			near, far := locks.Lock(name).AcquireAsync(t.Context()), openOver(t, store).Lock(name).AcquireAsync(t.Context())
			synctest.Wait()
			for _, next := range []<-chan channelapi.Grant{near, far, turns} {
				unlock(t, mine)
				if mine = <-next; mine.Err() != nil {
					t.Fatal(mine.Err())
				}
			}
		})
	})
	t.Run("again after a loss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := open(t).Lock(name, channelapi.Lease(time.Minute))
			turns := l.Turns(t.Context())
			first := <-turns
			<-first.Done()
			second := <-turns
			wantLost(t, first.Cause(), first, channelapi.LostExpired)
			if !second.Held() {
				t.Errorf("the next turn: %v", second.Cause())
			}
		})
	})
}

// The ticker of this loop fires all the time. With AcquireAsync such a loop would abandon its
// requests faster than the store grants them.
func TestTurnsInALoopThatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		done := make(chan int)
		for range 2 {
			locks := openOver(t, store)
			go func() {
				got := 0
				defer func() { done <- got }()
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				turns := locks.Lock(name).Turns(ctx)
				for {
					select {
					case g := <-turns:
						if g.Err() != nil {
							return
						}
						got++
						time.Sleep(100 * time.Millisecond)
						if err := g.Release(t.Context()); err != nil {
							t.Error(err)
						}
					case <-tick.C:
					}
				}
			}()
		}
		for range 2 {
			if got := <-done; got < 1400 { // of 3000 for both
				t.Errorf("one of two loops had %d turns in 5 minutes", got)
			}
		}
	})
}

func TestTurnsThatNobodyReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := memstore.New()
		cfg := quiet(store)
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		turns := openWith(t, cfg).Lock(name).Turns(t.Context())
		other := openOver(t, store).Lock(name)
		synctest.Wait()
		for _, want := range []time.Duration{claim, short, short} {
			start := time.Now()
			g := hold(t, other)
			if waited := time.Since(start); waited != want {
				t.Errorf("another one waited %v, want %v", waited, want)
			}
			time.Sleep(claim - time.Second)
			unlock(t, g)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := strings.Count(log.String(), "nobody received"); n != 1 || !strings.Contains(log.String(), name) {
			t.Errorf("the log says it %d times, want once:\n%s", n, &log)
		}
		unlock(t, <-turns) // the loop is back, and may be busy again
		synctest.Wait()
		start := time.Now()
		unlock(t, hold(t, other))
		if waited := time.Since(start); waited != claim {
			t.Errorf("another one waited %v, want %v", waited, claim)
		}
	})
}

// Whether somebody receives the grants of other requests does not matter to Turns, nor the other way round.
func TestTurnsBesideForgottenRequests(t *testing.T) {
	t.Run("a request was forgotten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openWith(t, quiet(memstore.New())).Lock(name)
			l.AcquireAsync(t.Context())
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			turns := l.Turns(ctx)
			time.Sleep(claim + claim/2) // the loop is busy
			start := time.Now()
			unlock(t, <-turns)
			if waited := time.Since(start); waited != 0 {
				t.Errorf("the loop waited for %v", waited)
			}
			cancel()
			l.AcquireAsync(t.Context()) // is forgotten, too
			synctest.Wait()
			unlock(t, hold(t, l))
			if waited := time.Since(start); waited != short {
				t.Errorf("another one waited for %v, want %v", waited, short)
			}
		})
	})
	t.Run("Turns was forgotten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openWith(t, quiet(memstore.New())).Lock(name)
			l.Turns(t.Context())
			time.Sleep(claim + time.Second)
			c := l.AcquireAsync(t.Context())
			time.Sleep(claim - time.Second)
			unlock(t, <-c)
		})
	})
}

// A turn that the loop has received, and dropped, comes back. Then the loop need not wait for the next one.
func TestTurnsThatAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := openWith(t, quiet(memstore.New())).Lock(name).Turns(t.Context())
		<-turns
		for range 3 {
			time.Sleep(channelapi.DefaultLease / 3)
			runtime.GC()
		}
		synctest.Wait()
		select {
		case g := <-turns:
			unlock(t, g)
		default:
			t.Error("the loop has to wait")
		}
	})
}

func TestTurnsThatAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openWith(t, quiet(memstore.New())).Lock(name)
		const forgotten, cycles, work = 3, 600, time.Second
		for range forgotten {
			l.Turns(t.Context())
		}
		time.Sleep((2*forgotten + 1) * claim)
		var worst time.Duration
		start := time.Now()
		for range cycles {
			asked := time.Now()
			g := hold(t, l)
			worst = max(worst, time.Since(asked))
			time.Sleep(work)
			unlock(t, g)
		}
		if waited := time.Since(start) - cycles*work; worst > forgotten*short || waited > cycles*work/50 {
			t.Errorf("another one waited up to %v, and for %v in all", worst, waited)
		}
	})
}

func TestTurnsWhoseHoldEndsBeforeAnybodyReceivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openWith(t, quiet(memstore.New())).Lock(name)
		turns := l.Turns(t.Context())
		synctest.Wait()
		if _, err := l.Break(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if g := <-turns; !g.Held() {
			t.Errorf("the turn is not held: %v, %v", g.Err(), g.Cause())
		}
	})
}

func TestEndOfTurns(t *testing.T) {
	wantEnd := func(t *testing.T, turns <-chan channelapi.Grant, want error) {
		t.Helper()
		synctest.Wait()
		if len(turns) == 0 {
			t.Fatal("the loop has not heard of the end yet")
		}
		g, more := <-turns
		if !more || g.Held() {
			t.Fatalf("%+v, %t, want a last grant that is not held", g, more)
		}
		wantErr(t, "the last grant", g.Err(), want)
		wantClosed(t, turns)
	}
	for _, c := range []struct {
		what  string
		state func(t *testing.T, l *channelapi.Lock, turns <-chan channelapi.Grant)
	}{
		{"while it waits", func(t *testing.T, l *channelapi.Lock, turns <-chan channelapi.Grant) {
			g := <-turns
			l.AcquireAsync(context.Background())
			synctest.Wait()
			unlock(t, g)
		}},
		{"while a grant lies in the channel", func(*testing.T, *channelapi.Lock, <-chan channelapi.Grant) {}},
		{"while a grant that nobody received has just been given back", func(
			*testing.T, *channelapi.Lock, <-chan channelapi.Grant,
		) {
			time.Sleep(claim + time.Second)
		}},
	} {
		t.Run("with its context "+c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := openWith(t, quiet(memstore.New())).Lock(name)
				ctx, change := changing(t)
				turns := l.Turns(ctx)
				c.state(t, l, turns)
				synctest.Wait()
				change()
				wantEnd(t, turns, errChangedMind)
			})
		})
	}
	t.Run("with its context while it holds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := open(t).Lock(name)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			turns := l.Turns(ctx)
			g := <-turns
			time.Sleep(time.Hour)
			wantEnd(t, turns, channelapi.ErrTimeout)
			if !g.Held() {
				t.Errorf("the hold ended too: %v", g.Cause())
			}
			unlock(t, g)
			wantFree(t, l)
		})
	})
	t.Run("with the locks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			turns, waiting := locks.Lock(name).Turns(t.Context()), locks.Lock(name).Turns(t.Context())
			synctest.Wait()
			wantErr(t, "Close", locks.Close(), nil)
			wantEnd(t, turns, channelapi.ErrClosed)
			wantEnd(t, waiting, channelapi.ErrClosed)
		})
	})
	t.Run("with the session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := openSession(t, open(t), "alice")
			turns := s.Lock(name).Turns(t.Context())
			<-turns
			wantErr(t, "Close", s.Close(t.Context()), nil)
			wantEnd(t, turns, channelapi.ErrSessionClosed)
		})
	})
	for what, end := range map[string]func(*testing.T, *channelapi.Locks, *channelapi.Session) error{
		"the locks": func(_ *testing.T, locks *channelapi.Locks, _ *channelapi.Session) error { return locks.Close() },
		"a shutdown": func(t *testing.T, locks *channelapi.Locks, _ *channelapi.Session) error {
			return locks.Shutdown(t.Context())
		},
		"the session": func(t *testing.T, _ *channelapi.Locks, s *channelapi.Session) error {
			return s.Close(t.Context())
		},
	} {
		t.Run("at once in a pause, with "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := openWith(t, quiet(memstore.New()))
				s := openSession(t, locks, "alice")
				turns := s.Lock(name).Turns(t.Context())
				time.Sleep(claim + time.Second)
				synctest.Wait()
				pending(t, turns)
				wantErr(t, what, end(t, locks, s), nil)
				want := channelapi.ErrClosed
				if what == "the session" {
					want = channelapi.ErrSessionClosed
				}
				wantEnd(t, turns, want)
			})
		})
	}
	t.Run("with the identity of the agent, while a grant lies in the channel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &heard{Store: memstore.New()}
			locks, err := channelapi.New(channelapi.Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
			wantErr(t, "New", err, nil)
			defer func() { _ = locks.Close() }() // the lock is the other agent's
			turns := locks.Lock(name).Turns(t.Context())
			synctest.Wait()
			s.hear(lockagent.Message{Kind: lockagent.MessageTwin})
			wantEnd(t, turns, channelapi.ErrIdentityInUse)
		})
	})
	t.Run("not before the lock was given back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := quiet(memstore.New())
			cfg.Recorder = delayed{}
			l := openWith(t, cfg).Lock(name)
			ctx, cancel := context.WithCancel(t.Context())
			turns := l.Turns(ctx)
			synctest.Wait()
			go l.AcquireAsync(t.Context())
			synctest.Wait() // the agent is busy with that
			start := time.Now()
			cancel()
			synctest.Wait()
			wantErr(t, "the last grant", (<-turns).Err(), context.Canceled)
			if waited := time.Since(start); waited != time.Second {
				t.Errorf("the loop heard of the end after %v", waited)
			}
		})
	})
	t.Run("at once if they make no sense", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			for _, opt := range []channelapi.Option{
				channelapi.Try(), channelapi.Wait(time.Second), channelapi.Wait(0), nil,
			} {
				wantEnd(t, locks.Lock(name, opt).Turns(t.Context()), channelapi.ErrBadOption)
			}
			wantEnd(t, locks.Lock("x{").Turns(t.Context()), channelapi.ErrBadName)
			wantEnd(t, new(channelapi.Lock).Turns(t.Context()), channelapi.ErrBadOption)
		})
	})
}
