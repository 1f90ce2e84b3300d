package actor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func TestHoldEndsWithItsCause(t *testing.T) {
	for _, c := range []struct {
		name string
		req  Request
		end  func(t *testing.T, a *Agent, s *tap, g lockagent.Grant)
		want lockagent.LossReason // 0 for ErrReleased
	}{
		{"released", who("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) { g.ReleaseAsync(background) }, 0},
		{
			"released by owner", who("ann"),
			func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) { a.Release(background, "door", "ann") }, 0,
		},
		{
			"left", again("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) { a.Leave(background, "door", "ann") },
			lockagent.LostSessionClosed,
		},
		{
			"broken here", who("ann"),
			func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) { a.Break("door", lockagent.PlainLock, "") },
			lockagent.LostBroken,
		},
		{"broken elsewhere", who("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) {
			s.whole.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
		}, lockagent.LostBroken},
		{"broken elsewhere, which nobody heard", who("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) {
			s.news = func(func(lockagent.Message), lockagent.Message) {}
			s.whole.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
			time.Sleep(DefaultLease / 3)
		}, lockagent.LostDenied},
		{"expired", Request{Owner: "ann", Lease: time.Second}, func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) {
			time.Sleep(time.Second)
		}, lockagent.LostExpired},
		{"store away", who("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) {
			s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			time.Sleep(DefaultLease)
			s.handle(nil)
		}, lockagent.LostDeadline},
		{
			"closed", who("ann"), func(t *testing.T, a *Agent, s *tap, g lockagent.Grant) { go func() { _ = a.Close() }() },
			lockagent.LostClosed,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				s := newTap(memstore.New())
				a := start(t, Config{Store: s, Recorder: w})
				ended := 0
				c.req.Watch = whenOver(func() { ended++ })
				g := granted(t, a.Acquire(background, "door", c.req))
				type key struct{}
				parent := context.WithValue(background, key{}, "value")
				child := g.Context(parent)
				if child.Value(key{}) != "value" || child.Err() != nil {
					t.Error("the context is no child of its parent")
				}
				select {
				case <-g.Done():
					t.Error("lost already")
				default:
				}
				c.end(t, a, s, g)
				synctest.Wait()
				select {
				case <-g.Done():
				default:
					t.Error("Lost is open")
				}
				cause := g.Cause()
				if c.want == 0 {
					if !errors.Is(cause, lockagent.ErrReleased) {
						t.Errorf("cause %v", cause)
					}
				} else {
					lostBecause(t, cause, c.want)
					var lost *lockagent.LostError
					if errors.As(cause, &lost); lost.Name != "door" || lost.Owner != "ann" || lost.Token != g.Token() {
						t.Errorf("%+v", lost)
					}
				}
				if !errors.Is(context.Cause(child), cause) {
					t.Errorf("cause of the child %v", context.Cause(child))
				}
				if late := g.Context(parent); late.Err() == nil {
					synctest.Wait()
					if !errors.Is(context.Cause(late), cause) {
						t.Errorf("cause of a context made afterwards: %v", context.Cause(late))
					}
				}
				if g.Held() || g.Remaining() != 0 {
					t.Errorf("held %v, remaining %v", g.Held(), g.Remaining())
				}
				if ended != 1 {
					t.Errorf("the end was told %d times", ended)
				}
				// A release that comes now has a fitting answer, as often as it comes.
				for range 2 {
					err := await(t, "release", g.ReleaseAsync(background))
					if c.want == 0 && !errors.Is(err, lockagent.ErrNotHeld) {
						t.Errorf("released again: %v", err)
					}
					if c.want != 0 {
						lostBecause(t, err, c.want)
					}
				}
				// Also when the actor is gone, and when the agent is.
				time.Sleep(DefaultIdle + time.Minute)
				for range 2 {
					err := await(t, "release", g.ReleaseAsync(background))
					if c.want == 0 && !errors.Is(err, lockagent.ErrNotHeld) {
						t.Errorf("released again: %v", err)
					}
					if c.want != 0 {
						lostBecause(t, err, c.want)
					}
					if err := a.Close(); err != nil {
						t.Error(err)
					}
				}
				w.checkHolds(t)
			})
		})
	}
}

func TestContextEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		parent, cancel := context.WithCancelCause(background)
		child := g.Context(parent)
		why := errors.New("why")
		cancel(why)
		if !errors.Is(context.Cause(child), why) || !g.Held() {
			t.Errorf("cause %v, held %v", context.Cause(child), g.Held())
		}
		released(t, g)
	})
}

// The holder is told that its hold is over before the store is told, and before
// the next owner is granted the lock.
func TestHolderIsToldFirst(t *testing.T) {
	for _, end := range []struct {
		name string
		f    func(a *Agent, g lockagent.Grant)
	}{
		{"released", func(a *Agent, g lockagent.Grant) { g.ReleaseAsync(background) }},
		{"left", func(a *Agent, g lockagent.Grant) { a.Leave(background, "door", "ann") }},
		{"broken", func(a *Agent, g lockagent.Grant) { a.Break("door", lockagent.PlainLock, "") }},
		{"expired", func(a *Agent, g lockagent.Grant) { time.Sleep(900 * time.Millisecond) }},
	} {
		for _, grants := range []int{1, 100} {
			t.Run(end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTap(memstore.New())
					w := &witness{}
					a := start(t, Config{Store: s, HandOffGrants: grants, HandOffTime: time.Hour, Recorder: w})
					g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Session: true, Lease: time.Second}))
					work := g.Context(background)
					early := 0
					check := func() {
						if g.Cause() == nil || g.Held() || work.Err() == nil {
							early++
						}
					}
					s.on("release", func(o *op) { check(); o.run() })
					w.before = func(e lockagent.Event) {
						if e.Owner == "bob" && e.Kind == lockagent.EventGranted {
							check() // recorded just before it is delivered
						}
					}
					next := a.Acquire(background, "door", who("bob"))
					synctest.Wait()
					end.f(a, g)
					h := granted(t, next)
					if early != 0 {
						t.Errorf("%d times somebody else was told before the holder", early)
					}
					if h.Token() <= g.Token() {
						t.Errorf("token %d after %d", h.Token(), g.Token())
					}
					s.handle(nil)
					released(t, h)
				})
			})
		}
	}
}

func TestRemainingCountsDownAndFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		trust := DefaultLease - 2*time.Second
		g := granted(t, a.Acquire(background, "door", who("ann")))
		if got := g.Remaining(); got != trust {
			t.Errorf("at first %v, want %v", got, trust)
		}
		time.Sleep(4 * time.Second)
		if got := g.Remaining(); got != trust-4*time.Second {
			t.Errorf("after 4s %v", got)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait() // renewed when a third had passed
		if got := g.Remaining(); got != trust {
			t.Errorf("after the renewal %v", got)
		}
		if n := s.count("renew"); n != 1 {
			t.Errorf("renewed %d times", n)
		}
		released(t, g)
		if got := g.Remaining(); got != 0 {
			t.Errorf("in the end %v", got)
		}
	})
}

func TestRemainingOfFixedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: 10 * time.Second}))
		if got := g.Remaining(); got != 9*time.Second {
			t.Errorf("%v, want 9s: the lease less a tenth", got)
		}
		time.Sleep(9*time.Second - 1)
		if !g.Held() || g.Remaining() != 1 {
			t.Errorf("just before the end: %v", g.Remaining())
		}
		time.Sleep(time.Nanosecond)
		if g.Held() {
			t.Error("held at the end")
		}
		synctest.Wait()
		lostBecause(t, g.Cause(), lockagent.LostExpired)
	})
}

func TestReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		var grants []lockagent.Grant
		for i := range 3 {
			g := granted(t, a.Acquire(background, "door", again("ann")))
			if g.HoldCount() != i+1 || g.Token() == 0 || g.Token() != grantsToken(grants, g) {
				t.Errorf("grant %d: count %d, token %d", i, g.HoldCount(), g.Token())
			}
			grants = append(grants, g)
		}
		stranger := a.Acquire(background, "door", who("ann")) // the same name, without a session
		synctest.Wait()
		silent(t, "stranger", stranger)
		released(t, grants[1])
		if grants[1].Held() || !grants[0].Held() || !grants[2].Held() {
			t.Error("each grant is a hold of its own")
		}
		if err := await(t, "release", a.Release(background, "door", "ann")); err != nil { // the youngest
			t.Error(err)
		}
		if grants[2].Held() || !grants[0].Held() {
			t.Error("Release did not give up the youngest grant")
		}
		silent(t, "stranger", stranger)
		released(t, grants[0])
		released(t, granted(t, stranger))
		if got := s.kinds(); got != "acquire release" {
			t.Errorf("store calls: %s", got)
		}
	})
}

func grantsToken(grants []lockagent.Grant, g lockagent.Grant) lockagent.Token {
	if len(grants) == 0 {
		return g.Token()
	}
	return grants[0].Token()
}

func TestReleaseByOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		for _, name := range []lockagent.Name{"door", "other"} {
			if err := await(t, "release", a.Release(background, name, "ann")); !errors.Is(err, lockagent.ErrNotHeld) {
				t.Errorf("nobody holds it: %v", err)
			}
		}
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors made for a release that can only fail", n)
		}
		g := granted(t, a.Acquire(background, "door", who("ann")))
		if err := await(t, "release", a.Release(background, "door", "bob")); !errors.Is(err, lockagent.ErrNotOwner) {
			t.Errorf("a stranger: %v", err)
		}
		if !g.Held() {
			t.Error("a stranger ended the hold")
		}
		if err := await(t, "release", a.Release(background, "door", "ann")); err != nil {
			t.Errorf("the owner: %v", err)
		}
		if err := await(t, "release", a.Release(background, "door", "ann")); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("again: %v", err)
		}
		if err := await(t, "release", a.Release(background, "", "ann")); !errors.Is(err, lockagent.ErrBadName) {
			t.Errorf("a bad name: %v", err)
		}
	})
}

func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		a := start(t, Config{Store: s})
		if err := await(t, "leave", a.Leave(background, "door", "ann")); err != nil {
			t.Errorf("left what was never entered: %v", err)
		}
		g1 := granted(t, a.Acquire(background, "door", again("ann")))
		g2 := granted(t, a.Acquire(background, "door", again("ann")))
		bob := a.Acquire(background, "door", again("bob"))
		bob2 := a.Acquire(background, "door", again("bob"))
		carl := a.Acquire(background, "door", again("carl"))
		synctest.Wait()
		if err := await(t, "leave", a.Leave(background, "door", "bob")); err != nil {
			t.Errorf("leave: %v", err)
		}
		refused(t, bob, lockagent.ErrSessionClosed)
		refused(t, bob2, lockagent.ErrSessionClosed)
		if !g1.Held() || !g2.Held() {
			t.Error("bob left, and ann's hold ended")
		}
		if err := await(t, "leave", a.Leave(background, "door", "ann")); err != nil {
			t.Errorf("leave: %v", err)
		}
		lostBecause(t, g1.Cause(), lockagent.LostSessionClosed)
		lostBecause(t, g2.Cause(), lockagent.LostSessionClosed)
		h := granted(t, carl)
		if err := await(t, "leave", a.Leave(background, "door", "carl")); err != nil {
			t.Errorf("leave: %v", err)
		}
		lostBecause(t, h.Cause(), lockagent.LostSessionClosed)
		if inspect(t, s, "door").Held {
			t.Error("the store still holds the lock after leave was answered")
		}
	})
}

func TestUnlockWithEndedContextReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		var kept keeper
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.on("release", kept.keep)
		ctx, cancel := context.WithCancelCause(background)
		why := errors.New("why")
		cancel(why)
		if err := g.Release(ctx); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if !errors.Is(g.Cause(), lockagent.ErrReleased) {
			t.Errorf("cause %v", g.Cause())
		}
		for _, o := range kept.take() {
			o.run()
		}
		synctest.Wait()
		if inspect(t, s.whole, "door").Held {
			t.Error("not released")
		}
		s.handle(nil)
	})
}

func TestUnconfirmedRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.on("release", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("got %v", err)
		}
		if g.Held() || !errors.Is(g.Cause(), lockagent.ErrReleased) {
			t.Errorf("held %v, cause %v", g.Held(), g.Cause())
		}
		if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("again: %v", err)
		}
		time.Sleep(3 * time.Second)
		if !inspect(t, s.whole, "door").Held {
			t.Error("the store cannot know")
		}
		s.handle(nil)
		time.Sleep(time.Second) // the longest pause between two tries
		synctest.Wait()
		if inspect(t, s.whole, "door").Held {
			t.Error("the release was not tried again")
		}
	})
}

// The reply is lost after the store has released: the same call again finds out.
func TestReleaseWhoseReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.on("release", func(o *op) { o.lose() })
		if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("got %v", err)
		}
		s.handle(nil)
		released(t, granted(t, a.Acquire(background, "door", who("bob"))))
		returned := w.of(lockagent.EventReturned)
		if len(returned) != 2 || returned[0].Reason != 0 || returned[0].Until != returned[0].Returned ||
			returned[1].Until != 0 {
			t.Errorf("returned: %+v", returned)
		}
	})
}

func TestReleaseOfWhatTheStoreForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.news = func(func(lockagent.Message), lockagent.Message) {} // nobody hears of the break
		s.whole.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
		lostBecause(t, await(t, "release", g.ReleaseAsync(background)), lockagent.LostDenied)
		if err := await(t, "release", g.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("again: %v", err)
		}
	})
}

// Release and loss race in real time: the answer to the release fits the cause of
// the hold's context.
func TestReleaseRacesLoss(t *testing.T) {
	a := start(t, Config{})
	outcomes := make(map[string]int)
	for i := range 1000 {
		g := granted(t, a.Acquire(background, "door", again("ann")))
		var wg sync.WaitGroup
		wg.Go(func() {
			switch i % 2 {
			case 0:
				await(t, "break", a.Break("door", lockagent.PlainLock, ""))
			case 1:
				_ = await(t, "leave", a.Leave(background, "door", "ann"))
			}
		})
		err := await(t, "release", g.ReleaseAsync(background))
		wg.Wait()
		cause := g.Cause()
		switch {
		case err == nil && errors.Is(cause, lockagent.ErrReleased):
			outcomes["released"]++
		case errors.Is(err, lockagent.ErrLost) && errors.Is(err, cause):
			outcomes["lost"]++
		default:
			t.Fatalf("round %d: release %v, cause %v", i, err, cause)
		}
	}
	t.Log(outcomes)
}

func TestConcurrentReleases(t *testing.T) {
	a := start(t, Config{})
	for range 200 {
		g := granted(t, a.Acquire(background, "door", who("ann")))
		var mu sync.Mutex
		outcomes := make(map[error]int)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := <-g.ReleaseAsync(background)
				mu.Lock()
				defer mu.Unlock()
				outcomes[err]++
			})
		}
		wg.Wait()
		if outcomes[nil] != 1 || outcomes[lockagent.ErrNotHeld] != 7 {
			t.Fatal(outcomes)
		}
	}
}

// releases tells the values with which tenures are returned.
type releases struct {
	whole
	values chan any
}

type releaseKey struct{}

func (s *releases) Release(
	ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error),
) {
	s.values <- ctx.Value(releaseKey{})
	s.whole.Release(ctx, req, done)
}

// The store's Release gets the values of the context of the release, and of no earlier one.
func TestReleaseCarriesTheValuesOfItsContext(t *testing.T) {
	s := &releases{memstore.New(), make(chan any, 1)}
	a := start(t, Config{Store: s})
	for _, value := range []any{"a trace", nil} {
		ctx := background
		if value != nil {
			ctx = context.WithValue(background, releaseKey{}, value)
		}
		if err := granted(t, a.Acquire(background, "door", who("ann"))).Release(ctx); err != nil {
			t.Fatal(err)
		}
		if got := await(t, "a release", s.values); got != value {
			t.Errorf("the store was called with %v, want %v", got, value)
		}
	}
}

// Release by owner gives up a grant that the session has received. It does not give up a grant that
// another goroutine of the session is about to receive.
func TestReleaseByOwnerSparesWhatNobodyReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		release := func() error { return await(t, "release", a.Release(background, "door", "ann")) }
		outer := granted(t, a.Acquire(background, "door", again("ann")))
		inner := a.Acquire(background, "door", again("ann"))
		synctest.Wait()
		if err := release(); err != nil {
			t.Fatal(err)
		}
		if err := release(); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("released what nobody had received: %v", err)
		}
		g := granted(t, inner)
		if !g.Held() || outer.Held() {
			t.Errorf("held: what was released %t, what was received later %t", outer.Held(), g.Held())
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}
