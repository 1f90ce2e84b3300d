package actor

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// diary is a logger that keeps its lines.
type diary struct {
	slog.Handler
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (*diary) Enabled(context.Context, slog.Level) bool { return true }

func (d *diary) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, text)
	return nil
}

// wrote checks that there is one line, and what it has.
func (d *diary) wrote(t testing.TB, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) != 1 {
		t.Fatalf("%d lines were logged: %q", len(d.lines), d.lines)
	}
	for _, w := range want {
		if !strings.Contains(d.lines[0], w) {
			t.Errorf("%q\ndoes not tell %q", d.lines[0], w)
		}
	}
}

// A caller that forgot many requests keeps the lock from others for the time of one.
func TestForgottenRequestsDoNotTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const forgotten = 20
		d := &diary{}
		a := start(t, Config{Logger: slog.New(d)})
		for i := range forgotten {
			a.Acquire(background, "door", who(fmt.Sprint("lost", i)))
		}
		begin := time.Now()
		bob := locking(background, a, "door", who("bob"))
		synctest.Wait()
		for range forgotten {
			a.Acquire(background, "door", who("lost"))
		}
		carl := a.Acquire(background, "door", who("carl"))
		g := granted(t, bob)
		want := DefaultClaim
		for i := range forgotten - 1 {
			want += max(claimShort>>i, claimShortest)
		}
		if waited := time.Since(begin); waited != want {
			t.Errorf("bob waited %v, want %v", waited, want)
		}
		released(t, g)
		released(t, granted(t, carl))
		want += forgotten * claimShortest
		if waited := time.Since(begin); waited != want {
			t.Errorf("carl waited %v, want %v", waited, want)
		}
		// One was received: the next may take its time.
		dora := a.Acquire(background, "door", who("dora"))
		time.Sleep(DefaultClaim - 1)
		released(t, granted(t, dora))
		d.wrote(t, "WARN", "lock=door", "owner=lost0", "after=30s", "advice=receive")
	})
}

// A loop that makes a request in each turn, and forgets it, comes to hold the lock in most turns.
func TestALoopThatForgetsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Logger: quiet})
		a.Acquire(background, "door", who("forgotten")) // keeps the lock for longer than a turn
		held := 0
		const turns = 3000
		for range turns {
			select {
			case g := <-a.Acquire(background, "door", who("loop")):
				released(t, g)
				held++
			case <-time.After(100 * time.Millisecond):
			}
		}
		if held < turns/2 {
			t.Errorf("held in %d turns of %d", held, turns)
		}
	})
}

// The suspicion does not outlive the claim time.
func TestForgottenRequestIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Claim: time.Second})
		a.Acquire(background, "door", who("ann"))
		time.Sleep(3 * time.Second)
		bob := a.Acquire(background, "door", who("bob"))
		time.Sleep(time.Second - 1)
		released(t, granted(t, bob))
		a.Acquire(background, "door", who("ann"))
		time.Sleep(time.Second + 1)
		carl := a.Acquire(background, "door", who("carl"))
		time.Sleep(claimShort + 1)
		refused(t, carl, lockagent.ErrNotGranted)
	})
}

// A request whose claim is its own says nothing of how soon others receive their grants.
func TestForgottenRequestWithAClaimOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Logger: quiet})
		a.Acquire(background, "door", Request{Owner: "ann", Claim: time.Millisecond})
		time.Sleep(2 * time.Millisecond)
		bob := a.Acquire(background, "door", who("bob"))
		time.Sleep(DefaultClaim - 1)
		released(t, granted(t, bob))
	})
}

// A grant that is taken back because its caller went away is no reason to warn.
func TestCancelledGrantIsNotNeglected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		a := start(t, Config{Logger: slog.New(d)})
		ctx, cancel := context.WithCancel(background)
		a.Acquire(ctx, "door", who("ann"))
		bob := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		cancel()
		time.Sleep(DefaultClaim - 1)
		released(t, granted(t, bob))
		if len(d.lines) != 0 {
			t.Errorf("logged: %q", d.lines)
		}
	})
}

// lives collects garbage, and reports whether bob still waits for the lock. If the test wants that, it looks for a
// while. Otherwise it looks until ctx ends, which must be a context of outside of the bubble: what the collector finds
// is noted in real time.
func lives(ctx context.Context, bob <-chan lockagent.Grant, want bool) bool {
	for i := 0; i < 8 || !want && ctx.Err() == nil; i++ {
		runtime.GC() // what it finds is noted outside of the bubble, soon
		time.Sleep(DefaultLease / 3)
		if len(bob) > 0 {
			return false
		}
	}
	return true
}

// askAll calls each method of a grant that only asks.
func askAll(g lockagent.Grant) {
	v := reflect.ValueOf(g)
	for i := range v.NumMethod() {
		if f := v.Method(i); f.Type().NumIn() == 0 {
			f.Call(nil)
		}
	}
	g.Context(background)
	g.Context(g.Context(background))
}

// A kept grant that nobody refers to any more, and that nobody can release, is given back.
func TestDroppedGrantComesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		take  func(a *Agent) (keep any)
		lives bool
	}{
		{"dropped", func(a *Agent) any {
			_ = a.Lock(background, "door", who("ann")).Token()
			return nil
		}, false},
		{"all was asked of it", func(a *Agent) any {
			askAll(a.Lock(background, "door", who("ann")))
			return nil
		}, false},
		{"kept", func(a *Agent) any { return a.Lock(background, "door", who("ann")) }, true},
		{"nothing but its channel is in use", func(a *Agent) any {
			g := a.Lock(background, "door", who("ann"))
			return []<-chan struct{}{g.Done(), g.Context(background).Done()}
		}, false},
		{"its context was for another hold, too", func(a *Agent) any {
			other := a.Lock(background, "gate", who("ann"))
			other.Context(a.Lock(background, "door", who("ann")).Context(background))
			return other
		}, false},
		{"a context that its context was made for goes on", func(a *Agent) any {
			other := a.Lock(background, "gate", again("ann"))
			return other.Context(a.Lock(background, "door", who("ann")).Context(background))
		}, true},
		{"a context that was made of its context goes on", func(a *Agent) any {
			type key struct{}
			return context.WithValue(a.Lock(background, "door", who("ann")).Context(background), key{}, "value")
		}, true},
		{"a context goes on", func(a *Agent) any { return a.Lock(background, "door", who("ann")).Context(background) }, true},
		{"a context has ended", func(a *Agent) any {
			ctx, cancel := context.WithCancel(background)
			a.Lock(background, "door", who("ann")).Context(ctx)
			cancel()
			return ctx
		}, false},
		{"of a session", func(a *Agent) any {
			_ = a.Lock(background, "door", again("ann")).Token()
			return nil
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := waittest.Context(t)
			synctest.Test(t, func(t *testing.T) {
				d, w := &diary{}, &witness{}
				store := memstore.New()
				a := start(t, Config{Store: store, Logger: slog.New(d), Recorder: w, Claim: time.Hour}) // nothing else finds out
				keep := c.take(a)
				bob := a.Acquire(background, "door", who("bob"))
				synctest.Wait()
				if got := lives(ctx, bob, c.lives); got != c.lives {
					t.Errorf("goes on: %v, want %v", got, c.lives)
				}
				if !c.lives {
					released(t, granted(t, bob))
					d.wrote(t, "WARN", "lock=door", "owner=ann", "advice=release")
					if n := len(w.of(lockagent.EventUnclaimed)); n != 1 {
						t.Errorf("%d unclaimed", n)
					}
				} else if len(d.lines) != 0 {
					t.Errorf("logged: %q", d.lines)
				}
				runtime.KeepAlive(keep)
				closed(t, a)
				w.checkHolds(t)
			})
		})
	}
}
