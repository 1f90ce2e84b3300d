package actor

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A name that is in use as one kind of lock cannot be used as another. This agent knows it at once. Another
// agent is told by the store.
func TestNameAsTwoKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		for _, agent := range []*Agent{a, b} {
			err := refusal(t, agent.Acquire(background, "door", fairly("bob")), lockagent.ErrWrongKind)
			want := lockagent.KindError{Name: "door", Kind: lockagent.FairLock, Used: lockagent.PlainLock}
			if e, _ := errors.AsType[*lockagent.KindError](err); e == nil || *e != want {
				t.Errorf("refused: %v, want %v", err, &want)
			}
			if r := await(t, "break", agent.Break("door", lockagent.FairLock, "")); !errors.Is(r.Err, lockagent.ErrWrongKind) {
				t.Errorf("broken %t, %v", r.Value, r.Err)
			}
			if r := await(t, "status", agent.Status("door", lockagent.FairLock)); !errors.Is(r.Err, lockagent.ErrWrongKind) {
				t.Errorf("status %+v, %v", r.Value, r.Err)
			}
		}
		if !g.Held() {
			t.Errorf("lost: %v", g.Cause())
		}
		released(t, g)
		for range 3 { // at once, for nobody has waited for it
			released(t, granted(t, a.Acquire(background, "door", fairly("bob"))))
			released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		}
	})
}

// A lock that rests uses its name. A request of its agent for another kind is refused, and ends the rest.
func TestANameAtRestAsAnotherKind(t *testing.T) {
	for kind, other := range map[lockagent.LockKind]lockagent.LockKind{
		lockagent.PlainLock:  lockagent.FencedLock,
		lockagent.FencedLock: lockagent.PlainLock,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTap(memstore.New())
				a := startResting(t, Config{Store: store})
				usually(t, a, Request{Owner: "ann", Kind: kind})
				var answer func()
				store.on("release", func(o *op) { answer = o.run })
				other := Request{Owner: "bob", Kind: other, Try: true}
				for range 2 { // the tenure has not gone back
					refused(t, a.Acquire(background, "door", other), lockagent.ErrWrongKind)
				}
				if n := store.count("release"); n != 4 {
					t.Fatalf("%d releases, want one more than the 3 before the rest", n)
				}
				store.handle(nil)
				answer()
				synctest.Wait()
				released(t, granted(t, a.Acquire(background, "door", other)))
			})
		})
	}
}

// Once the store has refused a name as one kind, the name can be used as its own kind at once: whoever is told of the
// refusal may do so before doing anything else.
func TestNameAfterAWrongKind(t *testing.T) {
	for _, wrong := range lockagent.LockKinds() {
		for _, real := range []lockagent.LockKind{lockagent.PlainLock, lockagent.Semaphore} {
			if wrong == real || wrong == lockagent.Permits && real == lockagent.Semaphore || wrong == lockagent.Latch {
				continue
			}
			synctest.Test(t, func(t *testing.T) { nameAfterAWrongKind(t, wrong, real) })
		}
	}
}

func nameAfterAWrongKind(t *testing.T, wrong, real lockagent.LockKind) {
	const name = "printers"
	store := memstore.New()
	a, b := start(t, Config{Store: store.Share(), Logger: quiet}), start(t, Config{Store: store})
	permits := lockagent.PermitsRequest{Name: name, Kind: real, Op: lockagent.TrySetPermits, N: 2}
	if real == lockagent.Semaphore {
		if r := await(t, "permits", b.Permits(background, permits)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	held := granted(t, b.Acquire(background, name, Request{Owner: "bob", Kind: real}))
	asks := map[string]func(told func(error)){
		"acquire": func(told func(error)) {
			told(await(t, "grant", a.Acquire(background, name, Request{Owner: "ann", Kind: wrong})).Err())
		},
		"acquire with a watcher": func(told func(error)) {
			out := a.Acquire(background, name, Request{
				Owner: "ann", Kind: wrong, Watch: whenOver(func() { told(lockagent.ErrWrongKind) }),
			})
			refused(t, out, lockagent.ErrWrongKind)
		},
		"acquire twice": func(told func(error)) {
			first := a.Acquire(background, name, Request{Owner: "ann", Kind: wrong})
			second := a.Acquire(background, name, Request{Owner: "eve", Kind: wrong})
			refused(t, first, lockagent.ErrWrongKind)
			told(await(t, "grant", second).Err())
		},
		"break":  func(told func(error)) { told(await(t, "break", a.Break(name, wrong, "")).Err) },
		"status": func(told func(error)) { told(await(t, "status", a.Status(name, wrong)).Err) },
	}
	if wrong == lockagent.Semaphore || wrong == lockagent.Permits {
		asks["permits"] = func(told func(error)) {
			req := permits
			req.Kind = wrong
			told(await(t, "permits", a.Permits(background, req)).Err)
		}
	}
	for what, ask := range asks {
		var status <-chan lockagent.Result[lockagent.Status]
		ask(func(err error) {
			if !errors.Is(err, lockagent.ErrWrongKind) {
				t.Errorf("%s as %s: %v", what, wrong, err)
			}
			status = a.Status(name, real)
		})
		if r := await(t, "status", status); r.Err != nil {
			t.Errorf("after %s as %s: %v", what, wrong, r.Err)
		}
		time.Sleep(2 * a.cfg.Idle) // until this agent has no actor
	}
	released(t, held)
}

// A store may have locks of some kinds alone. Once it has refused a kind, the name can be used as another one at once.
func TestNameAfterAKindThatTheStoreLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		a := start(t, Config{Store: plainOnly{memory}})
		for _, ask := range []func() error{
			func() error { return await(t, "grant", a.Acquire(background, "door", fairly("ann"))).Err() },
			func() error { return await(t, "break", a.Break("door", lockagent.FairLock, "olga")).Err },
			func() error { return await(t, "status", a.Status("door", lockagent.FairLock)).Err },
		} {
			if err := ask(); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("refused: %v", err)
			}
			released(t, granted(t, a.Acquire(background, "door", who("bob"))))
			time.Sleep(2 * a.cfg.Idle) // until this agent has no actor
		}
	})
}

// plainOnly has no fair locks, as a quorum has none.
type plainOnly struct{ whole }

var errNotFair = &lockagent.OptionError{Option: "kind", Reason: "there are only plain locks"}

func (s plainOnly) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	if req.Kind == lockagent.FairLock {
		done(lockagent.AcquireReply{}, errNotFair)
		return
	}
	s.whole.Acquire(ctx, req, done)
}

func (s plainOnly) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	if req.Kind == lockagent.FairLock {
		done(lockagent.BreakReply{}, errNotFair)
		return
	}
	s.whole.Break(ctx, req, done)
}

func (s plainOnly) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	if kind == lockagent.FairLock {
		done(lockagent.Inspection{}, errNotFair)
		return
	}
	s.whole.Inspect(ctx, name, kind, done)
}

// A request of another kind is refused without a message to the actor. So it must not pin the actor: if the
// actor tries to retire meanwhile, it would find itself in use, and nothing would make it try again.
func TestRefusedKindPinsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: memstore.New()})
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		e := a.registry.present("door", "")
		synctest.Wait()
		e.refs.Store(math.MaxInt64) // one more, and the actor would look retired
		if _, err := a.named("door", lockagent.FairLock); !errors.Is(err, lockagent.ErrWrongKind) {
			t.Errorf("refused: %v", err)
		}
		e.refs.Store(0)
	})
}

func TestBadKind(t *testing.T) {
	a := start(t, Config{Store: memstore.New()})
	refused(t, a.Acquire(background, "door", Request{Owner: "ann", Kind: "revolving"}), lockagent.ErrBadOption)
	refused(t, a.Acquire(background, "door", Request{Owner: "ann", Mode: lockagent.Shared}), lockagent.ErrBadOption)
	refused(t, a.Acquire(background, "door", Request{Owner: "ann", Mode: "half"}), lockagent.ErrBadOption)
}

// The store of a latch sees a number, as that of a semaphore may be. Only the agent knows what the name is.
func TestALatchIsNoSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: memstore.New()})
		ctx, cancel := context.WithCancel(background)
		// It waits for a number that nobody has set, so the store knows of nothing.
		waits := a.Acquire(ctx, "printers", Request{Owner: "ann", Kind: lockagent.Semaphore})
		synctest.Wait()
		for _, op := range []lockagent.LatchOp{
			lockagent.LatchSet, lockagent.LatchDown, lockagent.LatchRead, lockagent.LatchDelete,
		} {
			got := await(t, "latch", a.Latch(background, lockagent.LatchRequest{Name: "printers", Op: op, Count: 3}))
			want := lockagent.KindError{Name: "printers", Kind: lockagent.Latch, Used: lockagent.Semaphore}
			if e, _ := errors.AsType[*lockagent.KindError](got.Err); e == nil || *e != want {
				t.Errorf("%v: %+v, %v; want %v", op, got.Value, got.Err, &want)
			}
		}
		cancel()
		refused(t, waits, context.Canceled)
		time.Sleep(2 * a.cfg.Idle) // the agent listens for a while
		set := lockagent.LatchRequest{Name: "printers", Op: lockagent.LatchSet, Count: 3}
		if got := await(t, "latch", a.Latch(background, set)); got.Err != nil || !got.Value.Changed {
			t.Errorf("%+v, %v; want it set", got.Value, got.Err)
		}
	})
}
