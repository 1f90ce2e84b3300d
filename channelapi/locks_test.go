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

func TestNewRefusesAWrongConfig(t *testing.T) {
	_, err := channelapi.New(channelapi.Config{
		Lease: -time.Second, Claim: -1, HandOffTime: -1, Idle: -1, HandOffGrants: -1, Margin: -1, Label: "a b",
	})
	wantErr(t, "New", err, lockagent.ErrBadOption)
	var texts []string
	for _, e := range joined(err) {
		if _, ok := errors.AsType[*lockagent.OptionError](e); !ok {
			t.Errorf("%v is no OptionError", e)
		}
		texts = append(texts, e.Error())
	}
	all := strings.Join(texts, "\n")
	for _, field := range []string{
		"Store", "Lease", "Claim", "HandOffTime", "Idle", "HandOffGrants", "Margin", "Label",
	} {
		if strings.Count(all, "bad Config."+field+":") != 1 {
			t.Errorf("Config.%s is not named once in\n%s", field, all)
		}
	}
}

func TestID(t *testing.T) {
	one, other := open(t), open(t)
	if one.ID() == "" || one.ID() == other.ID() {
		t.Errorf("two agents are called %q and %q", one.ID(), other.ID())
	}
	id := channelapi.NewAgentID()
	if named := openWith(t, channelapi.Config{Store: memstore.New(), ID: id}); named.ID() != id {
		t.Errorf("ID() = %q, want %q", named.ID(), id)
	}
}

func TestOpenSession(t *testing.T) {
	locks := open(t)
	t.Run("refuses what cannot be an owner", func(t *testing.T) {
		for _, bad := range []string{"\xff", strings.Repeat("o", 513)} {
			_, err := locks.Session(bad)
			if _, ok := errors.AsType[*lockagent.OwnerError](err); !ok {
				t.Errorf("%.10q: %v, want an OwnerError", bad, err)
			}
		}
	})
	t.Run("makes an owner up", func(t *testing.T) {
		one, other := openSession(t, locks, ""), openSession(t, locks, "")
		if one.Owner() == "" || one.Owner() == other.Owner() {
			t.Errorf("two owners are called %q and %q", one.Owner(), other.Owner())
		}
	})
	t.Run("one owner, one session", func(t *testing.T) {
		first := openSession(t, locks, "alice")
		if first.Owner() != "alice" {
			t.Errorf("Owner() = %q, want alice", first.Owner())
		}
		_, err := locks.Session("alice")
		if wrong, ok := errors.AsType[*lockagent.OwnerError](err); !ok ||
			!strings.Contains(wrong.Reason, "close it first") {
			t.Errorf("a second session of alice: %v, want an OwnerError that says what to do", err)
		}
		wantErr(t, "Close", first.Close(t.Context()), nil)
		openSession(t, locks, "alice")
		openSession(t, open(t), "alice") // of another agent it is another owner
	})
}

func TestClose(t *testing.T) {
	t.Run("ends everything", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			s := openSession(t, locks, "alice")
			held, again := hold(t, s.Lock(name)), hold(t, s.Lock(name))
			lone := hold(t, locks.Lock("lone"))
			waiting := locks.Lock(name).AcquireAsync(t.Context())
			hold(t, other.Lock("theirs"))
			elsewhere := s.Lock("theirs").AcquireAsync(t.Context())
			synctest.Wait()

			wantErr(t, "Close", locks.Close(), nil)
			for _, g := range []lockagent.Grant{held, again, lone} {
				if g.Held() {
					t.Error("a hold goes on")
				}
				wantLost(t, g.Cause(), g, lockagent.LostClosed)
				wantLost(t, g.Release(t.Context()), g, lockagent.LostClosed)
			}
			for _, grant := range []<-chan lockagent.Grant{waiting, elsewhere} {
				wantErr(t, "the waiting request", (<-grant).Err(), lockagent.ErrClosed)
			}
			wantFree(t, other.Lock(name))
			wantFree(t, other.Lock("lone"))
			if !inspect(t, other.Lock("theirs")).Locked {
				t.Error("the other agent's lock is gone too")
			}
			wantErr(t, "Close again", locks.Close(), nil)
			wantErr(t, "Close of the session", s.Close(t.Context()), nil)
			unlock(t, hold(t, openOver(t, store).Lock(name))) // the store is still open
		})
	})
	t.Run("waits for the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			locks := openWith(t, channelapi.Config{Store: store})
			hold(t, locks.Lock(name))
			start := time.Now()
			wantErr(t, "Close", locks.Close(), nil)
			if waited := time.Since(start); waited != roundTrip {
				t.Errorf("waited %v, want %v", waited, roundTrip)
			}
			wantFree(t, openOver(t, store.Store).Lock(name))
		})
	})
	t.Run("tells what the store was not told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			locks, err := channelapi.New(channelapi.Config{Store: store})
			if err != nil {
				t.Fatal(err)
			}
			hold(t, locks.Lock(name))
			store.cut.Store(true)
			wantErr(t, "Close", locks.Close(), lockagent.ErrUnconfirmed)
			wantErr(t, "Close again", locks.Close(), lockagent.ErrUnconfirmed)
			other := openOver(t, store.Store)
			if !inspect(t, other.Lock(name)).Locked {
				t.Error("the store was told all the same")
			}
			time.Sleep(30 * time.Second) // the lease
			wantFree(t, other.Lock(name))
		})
	})
}

func TestShutdown(t *testing.T) {
	t.Run("lets holders finish", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			locks, other := openOver(t, store), openOver(t, store)
			s := openSession(t, locks, "alice")
			g := hold(t, s.Lock(name))
			waiting := locks.Lock(name).AcquireAsync(t.Context())
			synctest.Wait()
			done := make(chan error, 1)
			go func() { done <- locks.Shutdown(t.Context()) }()
			wantErr(t, "the waiting request", (<-waiting).Err(), channelapi.ErrClosed)
			_, err := locks.Lock("another").Acquire(t.Context())
			wantErr(t, "a new request", err, channelapi.ErrClosed)
			_, err = locks.Session("bob")
			wantErr(t, "a new session", err, channelapi.ErrClosed)
			time.Sleep(time.Hour)
			pending(t, done)
			pending(t, s.Done())
			if !g.Held() || !s.Holds(name) {
				t.Errorf("the hold is over: %v", g.Cause())
			}
			unlock(t, g)
			wantErr(t, "Shutdown", <-done, nil)
			wantClosed(t, s.Done())
			wantFree(t, other.Lock(name))
			wantErr(t, "Shutdown again", locks.Shutdown(t.Context()), nil)
		})
	})
	t.Run("until its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			g := hold(t, locks.Lock(name))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wantErr(t, "Shutdown", locks.Shutdown(ctx), context.DeadlineExceeded)
			wantLost(t, g.Cause(), g, channelapi.LostClosed)
		})
	})
}

func TestUseAfterClose(t *testing.T) {
	ctx := t.Context()
	locks := open(t)
	s := openSession(t, locks, "alice")
	hold(t, s.Lock(name))
	if err := locks.Close(); err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]channelapi.AnyLock{"Lock": locks.Lock(name), "Session.Lock": s.Lock(name)} {
		_, lockErr := l.Acquire(ctx)
		_, tryErr := l.TryAcquire(ctx)
		_, firstErr := channelapi.First(ctx, l)
		_, allErr := channelapi.All(ctx, l)
		_, statusErr := l.(inspectable).Status(ctx)
		for use, err := range map[string]error{
			"AcquireAsync": (<-l.AcquireAsync(ctx)).Err(),
			"Acquire":      lockErr,
			"TryAcquire":   tryErr,
			"Do":           l.Do(ctx, nil),
			"Turns":        (<-l.Turns(ctx)).Err(),
			"Status":       statusErr,
			"First":        firstErr,
			"All":          allErr,
		} {
			wantErr(t, what+": "+use, err, lockagent.ErrClosed)
		}
	}
	_, err := locks.Lock(name).Break(ctx, "")
	wantErr(t, "Break", err, lockagent.ErrClosed)
	wantErr(t, "Session.Release", s.Lock(name).Release(ctx), lockagent.ErrClosed)
	_, err = locks.Session("bob")
	wantErr(t, "Session", err, lockagent.ErrClosed)
}

// A shutdown does not wait for a grant that nobody has received, and the channel says that the locks were closed.
func TestShutdownTakesBackWhatNobodyReceived(t *testing.T) {
	for what, ask := range map[string]func(context.Context, channelapi.AnyLock) func() error{
		"AcquireAsync": func(ctx context.Context, l channelapi.AnyLock) func() error {
			c := l.AcquireAsync(ctx)
			return func() error { return (<-c).Err() }
		},
		"Turns": func(ctx context.Context, l channelapi.AnyLock) func() error {
			c := l.Turns(ctx)
			return func() error { return (<-c).Err() }
		},
		"FirstAsync": func(ctx context.Context, l channelapi.AnyLock) func() error {
			c := channelapi.FirstAsync(ctx, l)
			return func() error { return (<-c).Err() }
		},
		"AllAsync": func(ctx context.Context, l channelapi.AnyLock) func() error {
			c := channelapi.AllAsync(ctx, l)
			return func() error { return (<-c).Err() }
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := openWith(t, quiet(memstore.New()))
				receive := ask(t.Context(), locks.Lock(name))
				synctest.Wait()
				start := time.Now()
				wantErr(t, what+": Shutdown", locks.Shutdown(t.Context()), nil)
				if waited := time.Since(start); waited != 0 {
					t.Errorf("%s: Shutdown waited %v", what, waited)
				}
				want := channelapi.ErrClosed
				if what == "AcquireAsync" {
					want = channelapi.ErrNotGranted // the channel was closed, and is empty
				}
				wantErr(t, what, receive(), want)
			})
		})
	}
}

// A shutdown waits for a turn that the loop has received.
func TestShutdownWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := open(t)
		turns := locks.Lock(name).Turns(t.Context())
		g := <-turns
		time.AfterFunc(time.Hour, func() { g.ReleaseAsync(context.Background()) })
		start := time.Now()
		wantErr(t, "Shutdown", locks.Shutdown(t.Context()), nil)
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("Shutdown waited %v, want 1h", waited)
		}
		wantErr(t, "the cause of the turn", g.Cause(), channelapi.ErrReleased)
		wantErr(t, "the last turn", (<-turns).Err(), channelapi.ErrClosed)
	})
}
