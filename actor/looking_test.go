package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// slowToAnswer is a store that makes the calls at once that no actor needs, and answers when it is told to.
type slowToAnswer struct {
	whole
	asked chan func()
}

func (s *slowToAnswer) Permits(
	ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error),
) {
	s.whole.Permits(ctx, req, func(r lockagent.PermitsReply, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

func (s *slowToAnswer) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	s.whole.Break(ctx, req, func(r lockagent.BreakReply, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

func (s *slowToAnswer) Latch(
	ctx context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error),
) {
	s.whole.Latch(ctx, req, func(r lockagent.LatchReply, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

func (s *slowToAnswer) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	s.whole.Inspect(ctx, name, kind, func(r lockagent.Inspection, err error) {
		go func() { s.asked <- func() { done(r, err) } }()
	})
}

var changeOfPermits = lockagent.PermitsRequest{
	Name: "door", Kind: lockagent.Semaphore, Op: lockagent.DeletePermits,
}

// callsWithoutAnActor are the calls for the name door that no actor makes. Each returns how to wait for its outcome.
func callsWithoutAnActor() map[string]func(*Agent) func() error {
	permits := func(req lockagent.PermitsRequest) func(*Agent) func() error {
		return func(a *Agent) func() error {
			reply := a.Permits(background, req)
			return func() error { return (<-reply).Err }
		}
	}
	read := changeOfPermits
	read.Op = lockagent.ReadPermits
	return map[string]func(*Agent) func() error{
		"a look at permits":   permits(read),
		"a change of permits": permits(changeOfPermits),
		"a change of a latch": func(a *Agent) func() error {
			reply := a.Latch(background, lockagent.LatchRequest{Name: "door", Op: lockagent.LatchDelete})
			return func() error { return (<-reply).Err }
		},
		"a break": func(a *Agent) func() error {
			reply := a.Break("door", lockagent.FairLock, "ann")
			return func() error { return (<-reply).Err }
		},
		"a look at a lock": func(a *Agent) func() error {
			reply := a.Status("door", lockagent.FairLock)
			return func() error { return (<-reply).Err }
		},
	}
}

// A call that no actor makes is no use of a name, however long the store takes for it.
func TestCallsWithoutAnActorTakeTime(t *testing.T) {
	for name, call := range callsWithoutAnActor() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowToAnswer{whole: memstore.New(), asked: make(chan func())}
				a := start(t, Config{Store: store})
				outcome := call(a)
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

func (silentAboutPermits) Permits(
	_ context.Context, _ lockagent.PermitsRequest, done func(lockagent.PermitsReply, error),
) {
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

// A call that is under way ends before Close returns: its record must not be lost.
func TestCloseAwaitsCallsWithoutAnActor(t *testing.T) {
	for name, call := range callsWithoutAnActor() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowToAnswer{whole: memstore.New(), asked: make(chan func())}
				a := start(t, Config{Store: store})
				outcome := call(a)
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
				if err := outcome(); err != nil {
					t.Error(err)
				}
				<-closed
				if err := call(a)(); !errors.Is(err, lockagent.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// A change that is given up, because its context has ended or the agent was closed, may have been made. The events say
// that it was tried.
func TestAChangeThatIsGivenUp(t *testing.T) {
	quit := errors.New("quit")
	for name, c := range map[string]struct {
		give func(a *Agent, cancel context.CancelCauseFunc)
		want error
	}{
		"its context ends":    {func(_ *Agent, cancel context.CancelCauseFunc) { cancel(quit) }, quit},
		"the agent is closed": {func(a *Agent, _ context.CancelCauseFunc) { _ = a.Close() }, lockagent.ErrStoreUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				a := start(t, Config{Store: silentAboutPermits{memstore.New()}, Recorder: w})
				ctx, cancel := context.WithCancelCause(background)
				change := a.Permits(ctx, changeOfPermits)
				began := time.Now()
				c.give(a, cancel)
				if r := <-change; !errors.Is(r.Err, c.want) {
					t.Errorf("%v, want %v", r.Err, c.want)
				}
				closed(t, a)
				if waited := time.Since(began); waited > retryMax { // on the clock of the bubble
					t.Errorf("closed after %v", waited)
				}
				var told []string
				for _, e := range w.all() {
					if e.Kind == lockagent.EventPermits {
						told = append(told, e.Err)
					}
				}
				if len(told) != 1 || told[0] == "" {
					t.Errorf("the events tell of %q", told)
				}
			})
		})
	}
}

// changesToldOf are the changes of permits in the events: what was done, or why nobody knows whether.
func changesToldOf(w *witness) (told []string) {
	for _, e := range w.of(lockagent.EventPermits) {
		told = append(told, fmt.Sprintf("%s %d: %s", e.Op, e.Permits, e.Err))
	}
	return told
}

// A grace period refuses a change at once, and no event tells of the change. If a call before may have made the change,
// one event does, and the error does not say that nothing has changed.
func TestAChangeThatAGracePeriodRefuses(t *testing.T) {
	grace := &lockagent.GraceError{Name: "door", Left: time.Hour}
	add := lockagent.PermitsRequest{Name: "door", Kind: lockagent.Semaphore, Op: lockagent.AddPermits, N: 3}
	for name, c := range map[string]struct {
		before error         // of the first call
		ends   time.Duration // when the period does; 0 if the change ends first
		lasts  time.Duration
		want   error
		told   []string
	}{
		"the first call": {grace, 0, 0, lockagent.ErrGrace, nil},
		"one after a call without an answer": {
			lockagent.ErrStoreUnavailable, 0, changeFor, lockagent.ErrStoreUnavailable,
			[]string{"add 3: " + lockagent.ErrStoreUnavailable.Error()},
		},
		"one after a call without an answer, until the period ends": {
			lockagent.ErrStoreUnavailable, 5 * time.Second, 5*time.Second + GraceRetry, nil, []string{"add 3: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, w := memstore.New(), &witness{}
				a := start(t, Config{Store: store, Recorder: w})
				began := time.Now()
				store.SetOutage(c.before)
				change := a.Permits(background, add)
				synctest.Wait()
				store.SetOutage(grace)
				if c.ends > 0 {
					time.Sleep(c.ends)
					store.SetOutage(nil)
				}
				r := <-change
				if !errors.Is(r.Err, c.want) || errors.Is(r.Err, lockagent.ErrGrace) != (c.told == nil) {
					t.Errorf("%v, want %v", r.Err, c.want)
				}
				if lasted := time.Since(began); lasted > c.lasts || lasted < c.lasts-GraceRetry {
					t.Errorf("told after %v, want %v", lasted, c.lasts)
				}
				if told := changesToldOf(w); !slices.Equal(told, c.told) {
					t.Errorf("the events tell of %q, want %q", told, c.told)
				}
			})
		})
	}
}
