package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func shuttingDown(ctx context.Context, a *Agent) <-chan error {
	done := make(chan error, 1)
	go func() { done <- a.Shutdown(ctx) }()
	return done
}

// Whoever holds a lock may finish; everybody else is told that the agent is closed.
func TestShutdownWaitsForHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		w := &witness{}
		a, b := start(t, Config{Store: store.Share(), Recorder: w}), start(t, Config{Store: store})
		ann := granted(t, a.Acquire(background, "door", again("ann")))
		eve := granted(t, a.Acquire(background, "gate", again("eve")))
		far := granted(t, b.Acquire(background, "far", who("zoe")))
		released(t, granted(t, a.Acquire(background, "idle", who("ann"))))
		waiting := []<-chan lockagent.Grant{
			a.Acquire(background, "door", who("bob")),
			locking(background, a, "door", Request{Owner: "carl", Wait: time.Hour}),
			a.Acquire(background, "far", who("ann")),
		}
		synctest.Wait()
		done := shuttingDown(background, a)
		for _, c := range waiting {
			if err := refusal(t, c, lockagent.ErrClosed); !errors.Is(err, lockagent.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		for _, name := range []lockagent.Name{"door", "idle", "new"} {
			refused(t, a.Acquire(background, name, again("ann")), lockagent.ErrClosed)
			if g := a.Lock(background, name, who("bob")); !errors.Is(g.Err(), lockagent.ErrClosed) {
				t.Errorf("%q: %v", name, g.Err())
			}
		}
		time.Sleep(time.Hour)
		silent(t, "Shutdown", done)
		if !ann.Held() || !eve.Held() {
			t.Errorf("a hold ended: %v, %v", ann.Cause(), eve.Cause())
		}
		released(t, ann)
		silent(t, "Shutdown", done)
		if err := await(t, "release", a.Release(background, "gate", "eve")); err != nil {
			t.Errorf("release by the owner: %v", err)
		}
		if err := await(t, "Shutdown", done); err != nil {
			t.Error(err)
		}
		if err := a.Shutdown(background); err != nil {
			t.Errorf("again: %v", err)
		}
		closed(t, a)
		for _, name := range []lockagent.Name{"door", "gate", "idle"} {
			if inspect(t, store, name).Held {
				t.Errorf("the store still holds %q", name)
			}
		}
		if n := a.entries(); n != 0 || len(w.of(lockagent.EventRefused)) != 3 || len(w.of(lockagent.EventCancelled)) != 0 {
			t.Errorf("%d actors are left; recorded %s", n, w.story())
		}
		w.checkHolds(t)
		released(t, far)
	})
}

func TestShutdownLosesPatience(t *testing.T) {
	why := errors.New("why")
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		ann := granted(t, a.Acquire(background, "door", again("ann")))
		eve := granted(t, a.Acquire(background, "gate", again("eve")))
		ctx, cancel := context.WithTimeoutCause(background, 30*time.Second, why)
		defer cancel()
		begin := time.Now()
		done := shuttingDown(ctx, a)
		synctest.Wait()
		if err := <-a.Leave(background, "gate", "eve"); err != nil {
			t.Errorf("leave: %v", err)
		}
		lostBecause(t, eve.Cause(), lockagent.LostSessionClosed)
		store.on("release", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		err := await(t, "Shutdown", done)
		if !errors.Is(err, why) || !errors.Is(err, lockagent.ErrUnconfirmed) || time.Since(begin) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		lostBecause(t, ann.Cause(), lockagent.LostClosed)
		if err := a.Close(); errors.Is(err, why) || !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("close: %v", err)
		}
	})
}

// A context that has ended is no error if nobody held a lock.
func TestShutdownWithNothingToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		ctx, cancel := context.WithCancel(background)
		cancel()
		for range 2 {
			if err := a.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCloseDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		done := shuttingDown(background, a)
		synctest.Wait()
		closed(t, a)
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		if err := await(t, "Shutdown", done); err != nil {
			t.Error(err)
		}
	})
}

// A request that is on its way when the agent begins to drain is answered.
func TestShutdownRacesRequests(t *testing.T) {
	for range 300 {
		a := start(t, Config{})
		answers := make(chan lockagent.Grant, 4)
		for range cap(answers) {
			go func() { answers <- a.Lock(background, "door", who("ann")) }()
		}
		done := shuttingDown(background, a)
		for range cap(answers) {
			if g := await(t, "answer", answers); g.Err() == nil {
				released(t, g)
			} else if !errors.Is(g.Err(), lockagent.ErrClosed) {
				t.Errorf("got %v", g.Err())
			}
		}
		if err := await(t, "Shutdown", done); err != nil {
			t.Error(err)
		}
	}
}
