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

// slowToAnswer is a store that reads permits, and breaks locks, at once, and answers when it is told to.
type slowToAnswer struct {
	whole
	asked chan func()
}

func (s *slowToAnswer) Permits(ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	s.whole.Permits(ctx, req, func(r lockagent.PermitsReply, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

func (s *slowToAnswer) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	s.whole.Break(ctx, req, func(r lockagent.BreakReply, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

// A look at permits, and a break, are no use of a name, however long the store takes for them.
func TestCallsWithoutAnActorTakeTime(t *testing.T) {
	for name, ask := range map[string]func(*Agent) func() error{
		"permits": func(a *Agent) func() error {
			looks := a.Permits(background, lockagent.PermitsRequest{Name: "door", Kind: lockagent.Semaphore, Op: lockagent.ReadPermits})
			return func() error { return (<-looks).Err }
		},
		"break": func(a *Agent) func() error {
			breaks := a.Break("door", lockagent.FairLock, "ann")
			return func() error { return (<-breaks).Err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowToAnswer{whole: memstore.New(), asked: make(chan func())}
				a := start(t, Config{Store: store})
				outcome := ask(a)
				answer := <-store.asked
				g := granted(t, a.Acquire(background, "door", who("bob")))
				answer()
				if err := outcome(); err != nil {
					t.Error(err)
				}
				released(t, g)
			})
		})
	}
}

// silentAboutPermits is a store that does not answer for permits.
type silentAboutPermits struct{ whole }

func (silentAboutPermits) Permits(_ context.Context, _ lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	done(lockagent.PermitsReply{}, lockagent.ErrStoreUnavailable)
}

// A look at permits that is repeated ends in time, or with its context, and keeps nobody from the name.
func TestPermitsOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: silentAboutPermits{memstore.New()}})
		read := lockagent.PermitsRequest{Name: "door", Kind: lockagent.Semaphore, Op: lockagent.ReadPermits}
		began := time.Now()
		looks := a.Permits(background, read)
		ctx, cancel := context.WithCancel(background)
		gone := a.Permits(ctx, read)
		synctest.Wait()
		g := granted(t, a.Acquire(background, "door", who("bob")))
		cancel()
		if r := <-gone; !errors.Is(r.Err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("%v after %v, want context.Canceled at once", r.Err, time.Since(began))
		}
		if r := <-looks; !errors.Is(r.Err, lockagent.ErrStoreUnavailable) || time.Since(began) > changeFor {
			t.Errorf("%v after %v, want ErrStoreUnavailable within %v", r.Err, time.Since(began), changeFor)
		}
		released(t, g)
	})
}

// A break that is under way ends before Close returns: its record must not be lost.
func TestCloseAwaitsABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowToAnswer{whole: memstore.New(), asked: make(chan func())}
		a := start(t, Config{Store: store})
		breaks := a.Break("door", lockagent.PlainLock, "ann")
		answer := <-store.asked
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait")
		default:
		}
		answer()
		if r := <-breaks; r.Err != nil {
			t.Error(r.Err)
		}
		<-closed
		if r := <-a.Break("door", lockagent.PlainLock, "ann"); !errors.Is(r.Err, lockagent.ErrClosed) {
			t.Errorf("a break after Close: %v", r.Err)
		}
	})
}
