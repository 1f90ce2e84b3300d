package actor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Somebody closed the store before the agent. Those who wait learn of it at once, whatever is left of the lease of the
// holder.
func TestWaitersOfAClosedStore(t *testing.T) {
	for _, kind := range []lockagent.LockKind{
		lockagent.PlainLock, lockagent.FairLock, lockagent.FencedLock, lockagent.ReadWriteLock,
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New()
			store := memory.Share()
			a, b := start(t, Config{Store: store}), start(t, Config{Store: memory})
			zoe, ann := who("zoe"), who("ann")
			zoe.Kind, ann.Kind = kind, kind
			granted(t, b.Acquire(background, "far", zoe))
			waiting := a.Acquire(background, "far", ann)
			synctest.Wait()
			closed := time.Now()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			refused(t, waiting, lockagent.ErrClosed)
			if waited := time.Since(closed); waited > 0 {
				t.Errorf("a waiter for a %s lock learned of it after %v", kind, waited)
			}
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		w := &witness{}
		a, b := start(t, Config{Store: s, Recorder: w}), start(t, Config{Store: store})
		var held []lockagent.Grant
		var waiting []<-chan lockagent.Grant
		for i := range 20 {
			name := lockagent.Name(fmt.Sprint("local", i))
			held = append(held, granted(t, a.Acquire(background, name, who("ann"))))
			waiting = append(waiting, a.Acquire(background, name, who("bob")), a.Acquire(background, name, again("carl")))
		}
		far := granted(t, b.Acquire(background, "far", who("zoe")))
		waiting = append(waiting, a.Acquire(background, "far", who("ann")))
		unclaimed := a.Acquire(background, "unclaimed", who("ann"))
		idle := granted(t, a.Acquire(background, "idle", who("ann")))
		released(t, idle)
		var kept keeper
		s.on("acquire", kept.keep)
		waiting = append(waiting, a.Acquire(background, "asking", who("ann")))
		synctest.Wait()

		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		synctest.Wait()
		silent(t, "Close, while the store is asked", done)
		for _, o := range kept.take() {
			o.run()
		}
		if err := await(t, "close", done); err != nil {
			t.Error(err)
		}
		for _, g := range held {
			lostBecause(t, g.Cause(), lockagent.LostClosed)
			lostBecause(t, await(t, "release", g.ReleaseAsync(background)), lockagent.LostClosed)
		}
		for _, c := range waiting {
			refused(t, c, lockagent.ErrClosed)
			exhausted(t, c)
		}
		if g := await(t, "unclaimed", unclaimed); g.Held() {
			t.Error("an unclaimed grant is held after Close")
		}
		for i := range 20 {
			if inspect(t, store, lockagent.Name(fmt.Sprint("local", i))).Held {
				t.Errorf("the store still holds lock %d", i)
			}
		}
		for _, name := range []lockagent.Name{"unclaimed", "idle", "asking"} {
			if inspect(t, store, name).Held {
				t.Errorf("the store still holds %q", name)
			}
		}
		if !far.Held() {
			t.Error("another agent's hold ended")
		}
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors left", n)
		}
		if n := s.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions left", n)
		}
		w.checkHolds(t)
		released(t, far)
	})
}

func TestUseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		old := granted(t, a.Acquire(background, "other", who("ann")))
		released(t, old)
		closed(t, a)
		calls := s.count("")
		overs := 0
		refused(
			t, a.Acquire(background, "door", Request{Owner: "ann", Watch: whenOver(func() { overs++ })}), lockagent.ErrClosed,
		)
		if overs != 1 {
			t.Errorf("the end was told %d times", overs)
		}
		for what, c := range map[string]<-chan error{
			"release": a.Release(background, "door", "ann"), "leave": a.Leave(background, "door", "ann"),
		} {
			if err := await(t, what, c); !errors.Is(err, lockagent.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
			exhausted(t, c)
		}
		if r := await(t, "status", a.Status("door", lockagent.PlainLock)); !errors.Is(r.Err, lockagent.ErrClosed) {
			t.Errorf("status: %v", r.Err)
		}
		if r := await(t, "break", a.Break("door", lockagent.PlainLock, "")); !errors.Is(r.Err, lockagent.ErrClosed) {
			t.Errorf("break: %v", r.Err)
		}
		lostBecause(t, await(t, "release", g.ReleaseAsync(background)), lockagent.LostClosed)
		if err := await(t, "release", old.ReleaseAsync(background)); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("release of what was released: %v", err)
		}
		if n := s.count(""); n != calls {
			t.Errorf("%d store calls after Close", n-calls)
		}
	})
}

func TestCloseWithoutStore(t *testing.T) {
	for _, how := range []string{"refuses", "loses replies", "is slow", "panics"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTap(memstore.New())
				a := start(t, Config{Store: s, Logger: quiet})
				for i := range 10 {
					granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), who("ann")))
				}
				const bound = 5 * time.Second
				s.handle(func(o *op) {
					switch how {
					case "refuses":
						o.fail(lockagent.ErrStoreUnavailable)
					case "loses replies":
						o.lose()
					case "is slow":
						time.AfterFunc(bound, func() { o.fail(lockagent.ErrStoreUnavailable) })
					case "panics":
						panic("boom")
					}
				})
				waiting := a.Acquire(background, "asking", who("ann"))
				synctest.Wait()
				begin := time.Now()
				err := closing(t, a)
				if !errors.Is(err, lockagent.ErrUnconfirmed) {
					t.Errorf("close: %v", err)
				}
				if d := time.Since(begin); d > 2*bound { // the attempt under way, and its withdrawal
					t.Errorf("close took %v", d)
				}
				refused(t, waiting, lockagent.ErrClosed)
				if again := closing(t, a); again == nil || again.Error() != err.Error() {
					t.Errorf("close again: %v", again)
				}
			})
		})
	}
}

// Whoever closes second waits like the first, for as long as that takes.
func TestCloseFromManySides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		granted(t, a.Acquire(background, "door", who("ann")))
		s.on("release", func(o *op) { time.AfterFunc(5*time.Second, o.run) })
		begin := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d != 5*time.Second {
					t.Errorf("returned after %v", d)
				}
			})
		}
		wg.Wait()
	})
}

// Close comes in the middle of everything, from many sides, in real time. Every
// request is answered, whatever was held has ended, and the store holds nothing.
func TestCloseRacesEverything(t *testing.T) {
	for round := range int64(12) {
		store := memstore.New()
		w := &witness{}
		a := start(t, Config{Store: store, Recorder: w, Idle: time.Nanosecond})
		var wg sync.WaitGroup
		var answers atomic.Int64
		enough, stop := make(chan struct{}), make(chan struct{})
		for i := range 16 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				for late := 0; late < 3; {
					select {
					case <-stop:
						late++ // some requests come after Close has begun, or returned
					default:
					}
					name := lockagent.Name(fmt.Sprint("door", rnd.IntN(5)))
					var g lockagent.Grant
					if req := again(fmt.Sprint(i)); rnd.IntN(2) == 0 {
						g = a.Lock(background, name, req)
					} else {
						g = await(t, "grant", a.Acquire(background, name, req))
					}
					if answers.Add(1) == 1+40*round {
						close(enough)
					}
					if err := g.Err(); err != nil {
						// A hold may be over before its grant is received.
						if !errors.Is(err, lockagent.ErrClosed) && !errors.Is(err, lockagent.ErrNotGranted) &&
							!errors.Is(err, lockagent.ErrLost) {
							t.Errorf("refused: %v", err)
						}
						continue
					}
					switch rnd.IntN(6) {
					case 0:
						_ = await(t, "leave", a.Leave(background, name, lockagent.Owner(fmt.Sprint(i))))
					case 1:
						await(t, "break", a.Break(name, lockagent.PlainLock, ""))
					case 2:
						await(t, "status", a.Status(name, lockagent.PlainLock))
					}
					if err := await(t, "release", g.ReleaseAsync(background)); err != nil && !errors.Is(err, lockagent.ErrLost) {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
		<-enough
		for range 4 {
			wg.Go(func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				for i := range 5 {
					if inspect(t, store, lockagent.Name(fmt.Sprint("door", i))).Held {
						t.Errorf("held by the store after Close")
					}
				}
			})
		}
		close(stop)
		wg.Wait()
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors left", n)
		}
		w.checkHolds(t)
		if t.Failed() {
			break
		}
	}
}

// A lease that has to stay is not freed when somebody wants it while the agent closes.
func TestCloseLeavesWhatOutlivesToItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store.Share())
		a := start(t, Config{Store: s})
		granted(t, a.Acquire(background, "stays", Request{Owner: "ann", Lease: time.Hour, Outlive: true}))
		granted(t, a.Acquire(background, "slow", who("ann")))
		var slow *op
		s.on("release", func(o *op) {
			if o.name == "slow" {
				slow = o
				return
			}
			o.run()
		})
		tenure := s.calls[0].tenure
		done := make(chan error, 1)
		go func() { done <- a.Close() }()
		synctest.Wait()
		if slow == nil || a.entries() != 1 {
			t.Fatalf("%d actors are left", a.entries())
		}
		for _, kind := range []lockagent.MessageKind{lockagent.MessageWanted, lockagent.MessagePassed} {
			a.hear(lockagent.Message{Kind: kind, Name: "stays", Tenure: tenure})
		}
		if s.count("release") != 1 || !inspect(t, store, "stays").Held {
			t.Errorf("the lease did not stay: %s", s.kinds())
		}
		slow.run()
		if err := await(t, "Close", done); err != nil {
			t.Error(err)
		}
	})
}
