package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// passes asks to read as the callers do that may pass a gate.
func passes(owner string) Request {
	r := reads(owner)
	r.ByGrant = true
	return r
}

// reading has readers lock a door. The first one has a grant of its own, the second one opens the gate, and the others pass
// it.
func reading(t testing.TB, a *Agent, owners ...string) (held []lockagent.Grant) {
	t.Helper()
	for _, owner := range owners {
		g := a.Lock(background, "door", passes(owner))
		if g.Err() != nil {
			t.Fatalf("%s reads: %v", owner, g.Err())
		}
		held = append(held, g)
	}
	return held
}

// steps is how many steps the actors of an agent have taken, but for a constant.
func (a *Agent) steps() uint64 { return a.fresh.Load() }

// unlocked releases a grant, and waits.
func unlocked(t testing.TB, g lockagent.Grant) {
	t.Helper()
	if err := g.Release(background); err != nil {
		t.Errorf("%s: release: %v", g.Owner(), err)
	}
}

// Readers pass an open gate without a step of the actor. The last one to leave releases the lock.
func TestReadersPassAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		held := reading(t, a, "ann", "bob")
		before := a.steps()
		for i := range 100 {
			held = append(held, reading(t, a, fmt.Sprint("reader", i))...)
		}
		for _, g := range held[2:] {
			if g.Token() != held[1].Token() || g.HoldCount() != 1 || g.Name() != "door" || g.Remaining() != held[0].Remaining() {
				t.Errorf("%s has %+v", g.Owner(), g)
			}
			unlocked(t, g)
			if err := g.Release(background); !errors.Is(err, lockagent.ErrNotHeld) || g.Held() || !errors.Is(g.Cause(), lockagent.ErrReleased) {
				t.Errorf("%s: a second release: %v; held %v, cause %v", g.Owner(), err, g.Held(), g.Cause())
			}
		}
		if n := a.steps() - before; n != 0 {
			t.Errorf("%d steps", n)
		}
		if left := inside(a); len(left) != 1 || left[0].owner != "bob" {
			t.Errorf("%d are inside, and not bob alone", len(left))
		}
		unlocked(t, held[0])
		dan := reading(t, a, "dan")[0]
		unlocked(t, held[1]) // who opened the gate
		if s := <-a.Status("door", lockagent.ReadWriteLock); !s.Value.Locked || s.Value.Owner != "dan" {
			t.Errorf("held by dan behind the gate: %+v", s)
		}
		if got := store.kinds(); got != "acquire inspect" {
			t.Errorf("calls: %s", got)
		}
		released(t, dan)
		if got := store.kinds(); got != "acquire inspect release" {
			t.Errorf("calls: %s", got)
		}
		if s := <-a.Status("door", lockagent.ReadWriteLock); s.Value.Locked {
			t.Errorf("nobody is left: %+v", s)
		}
	})
}

// While readers pass, the store is asked now and then whether outsiders wait. It is not asked while they only stay inside.
func TestReadersWhoPassHaveTheStoreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		reading(t, a, "ann", "bob")
		const pass, calm = 3 * time.Second, 5 * time.Second
		renewals := func(d time.Duration, while func()) int {
			before := store.count("renew")
			for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
				while()
			}
			return store.count("renew") - before
		}
		if n := renewals(pass, func() { unlocked(t, reading(t, a, "cid")[0]) }); n < 5 || n > 10 {
			t.Errorf("%d renewals in %v", n, pass)
		}
		time.Sleep(time.Second)
		if n := renewals(calm, func() {}); n != 0 {
			t.Errorf("%d renewals in %v while nobody passes", n, calm)
		}
	})
}

// Only those pass who are released by their grants alone, and of whom no event tells.
func TestWhoDoesNotPassAGate(t *testing.T) {
	for name, request := range map[string]func(*Request){
		"may be released by its owner": func(r *Request) { r.ByGrant = false },
		"of a session":                 func(r *Request) { r.ByGrant, r.Session = false, true },
		"with a fixed lease":           func(r *Request) { r.Lease = time.Minute },
		"with a callback":              func(r *Request) { r.Over = func() {} },
		"writes":                       func(r *Request) { r.Mode, r.Try = lockagent.Exclusive, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t, Config{})
				held := reading(t, a, "ann", "bob")
				before := a.steps()
				r := passes("cid")
				request(&r)
				g := a.Lock(background, "door", r)
				if a.steps() == before {
					t.Error("passed")
				}
				if g.Err() == nil {
					held = append(held, g)
				}
				for _, g := range held {
					unlocked(t, g)
				}
			})
		})
	}
	t.Run("does not wait for the grant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			held := reading(t, a, "ann", "bob")
			forgotten := a.Acquire(background, "door", passes("cid"))
			for _, g := range held {
				unlocked(t, g)
			}
			released(t, granted(t, a.Acquire(background, "door", writes("zoe"))))
			if g := <-forgotten; g.Err() == nil {
				t.Errorf("%v was not taken back", g)
			}
		})
	})
	t.Run("of an agent with a recorder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &witness{}
			a := start(t, Config{Recorder: w})
			for _, g := range reading(t, a, "ann", "bob", "cid") {
				unlocked(t, g)
			}
			if n := len(w.of(lockagent.EventReleased)); n != 3 {
				t.Errorf("%d releases recorded", n)
			}
			closed(t, a)
		})
	})
	t.Run("whose request is wrong", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := start(t, Config{})
			reading(t, a, "ann", "bob")
			ended, cancel := context.WithCancel(background)
			cancel()
			if err := a.Lock(ended, "door", passes("cid")).Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: %v", err)
			}
			if err := a.Lock(background, "door", passes("")).Err(); !errors.Is(err, lockagent.ErrBadOwner) {
				t.Errorf("without an owner: %v", err)
			}
			late := passes("cid")
			late.Wait = -1
			if err := a.Lock(background, "door", late).Err(); !errors.Is(err, lockagent.ErrTimeout) {
				t.Errorf("with no time: %v", err)
			}
		})
	})
}

// The owner who opened a gate has promised not to release it by name. One who does so does not release the others.
func TestTheOpenerIsReleasedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		held := reading(t, a, "ann", "bob", "cid")
		if err := <-a.Release(background, "door", "bob"); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Error(err)
		}
		writer := a.Acquire(background, "door", writes("zoe"))
		for _, g := range held {
			silent(t, "the writer", writer)
			unlocked(t, g)
		}
		released(t, granted(t, writer))
		held = reading(t, a, "ann", "bob", "cid")
		if err := <-a.Leave(background, "door", "bob"); err != nil {
			t.Error(err)
		}
		for _, g := range held[1:] {
			lostBecause(t, g.Release(background), lockagent.LostSessionClosed)
		}
	})
}

// A writer who waits shuts the gate: readers who come later wait behind the writer, and those inside leave.
func TestAWriterShutsTheGate(t *testing.T) {
	for name, where := range map[string]struct{ elsewhere, last bool }{
		"of this agent":                         {},
		"of this agent, the opener leaves last": {last: true},
		"elsewhere":                             {elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: store})
				held := reading(t, a, "ann", "bob", "cid", "dan")
				if where.last {
					slices.Reverse(held)
				}
				writer := a
				if where.elsewhere {
					writer = b
				}
				eve := writer.Acquire(background, "door", writes("eve"))
				synctest.Wait()
				late := make(chan lockagent.Grant, 1)
				go func() { late <- a.Lock(background, "door", passes("fay")) }()
				synctest.Wait()
				if where.elsewhere { // the budget of the tenure lets more readers in for a while, but not through the gate
					unlocked(t, granted(t, late))
				} else {
					silent(t, "a reader behind the writer", late)
				}
				for _, g := range held {
					silent(t, "the writer", eve)
					unlocked(t, g)
				}
				released(t, granted(t, eve))
				if !where.elsewhere {
					unlocked(t, granted(t, late))
				}
				synctest.Wait()
				held = reading(t, a, "ann", "bob", "cid")
				before := a.steps()
				unlocked(t, reading(t, a, "dan")[0])
				if a.steps() != before {
					t.Error("there is no gate after the writer")
				}
				for _, g := range held {
					unlocked(t, g)
				}
			})
		})
	}
}

// inside are the readers behind the gate of a door.
func inside(a *Agent) []*reader { return a.registry.gate("door", lockagent.ReadWriteLock).all() }

// Everybody behind a gate learns of a loss, by an error of its own, before another gets the lock.
func TestReadersBehindAGateAreLost(t *testing.T) {
	for name, tt := range map[string]struct {
		why  lockagent.LossReason
		lose func(t *testing.T, a *Agent, s *tap)
	}{
		"broken": {lockagent.LostBroken, func(_ *testing.T, a *Agent, _ *tap) { <-a.Break("door", lockagent.ReadWriteLock, "op") }},
		"closed": {lockagent.LostClosed, func(_ *testing.T, a *Agent, _ *tap) { _ = a.Close() }},
		"denied": {lockagent.LostDenied, func(_ *testing.T, _ *Agent, s *tap) {
			s.whole.(*memstore.Store).Reset()
			time.Sleep(DefaultLease / 2)
		}},
		"silence": {lockagent.LostDeadline, func(_ *testing.T, _ *Agent, s *tap) {
			s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			time.Sleep(DefaultLease)
		}},
		"a panic": {lockagent.LostInternal, func(t *testing.T, a *Agent, _ *tap) {
			refused(t, a.Acquire(badContext{background}, "door", writes("eve")), lockagent.ErrInternal)
		}},
	} {
		for _, goexit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/callbacks end their goroutines %v", name, goexit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTap(memstore.New())
					a := start(t, Config{Store: store, Logger: quiet})
					held := reading(t, a, "ann", "bob", "cid", "dan", "eve")
					waiting := a.Acquire(background, "door", writes("zoe"))
					synctest.Wait()
					told := 0
					for _, r := range inside(a) {
						r.notify(&onEnd{call: func(cause error) {
							told++
							if len(waiting) > 0 && (<-waiting).Held() {
								t.Errorf("%s learns of it after the writer", r.owner)
							}
							if goexit && told < 3 {
								runtime.Goexit()
							}
						}})
					}
					doomed(t, func() { tt.lose(t, a, store) })
					synctest.Wait()
					if told != len(held)-1 {
						t.Errorf("%d of %d behind the gate were told", told, len(held)-1)
					}
					for _, g := range held {
						for _, err := range []error{g.Cause(), g.Release(background), <-g.ReleaseAsync(background)} {
							lost, _ := errors.AsType[*lockagent.LostError](err)
							if lost == nil || lost.Reason != tt.why && !goexit || lost.Owner != g.Owner() {
								t.Errorf("%s: %v", g.Owner(), err)
							}
						}
						if g.Held() || g.Remaining() != 0 {
							t.Errorf("%s still holds the lock", g.Owner())
						}
					}
					store.handle(nil)
				})
			})
		}
	}
}

// The clock is first: a reader that releases after the deadline is told of the loss, even if no tick has come.
func TestAReaderReleasesTooLate(t *testing.T) {
	a := start(t, Config{})
	held := reading(t, a, "ann", "bob", "cid")
	for _, slept := range []time.Duration{DefaultLease * 9 / 10, DefaultLease} { // the machine was suspended
		a.clock.slept.Store(int64(slept))
		if g, ok := a.pass(background, "door", new(passes("dan"))); ok {
			t.Errorf("%v passes when %v of the lease are left", g, held[0].Remaining())
		}
	}
	for _, g := range held[1:] {
		err := g.Release(background)
		lostBecause(t, err, lockagent.LostDeadline)
		if lost, _ := errors.AsType[*lockagent.LostError](err); lost.Owner != g.Owner() {
			t.Errorf("%s: %v", g.Owner(), err)
		}
	}
}

// From the moment when the last reader has left, nobody passes, even if the actor takes steps before it has the release.
func TestNobodyPassesAnEmptyGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		held := reading(t, a, "ann", "bob")
		g := a.registry.gate("door", lockagent.ReadWriteLock)
		if !g.leave(g.first) {
			t.Error("bob was not the last")
		}
		for range 2 {
			if g, ok := a.pass(background, "door", new(passes("cid"))); ok {
				t.Errorf("%v passes", g)
			}
			<-a.Status("door", lockagent.ReadWriteLock)
		}
		held = append(held, reading(t, a, "dan", "eve")...) // through a new gate
		if next := a.registry.gate("door", lockagent.ReadWriteLock); next == g || len(next.all()) != 2 {
			t.Error("there is no new gate")
		}
		released(t, lockagent.NewGrant("door", "bob", held[1].Token(), 1, g.request))
		if next := a.registry.gate("door", lockagent.ReadWriteLock); next == nil {
			t.Error("the end of the old gate ended the new one")
		}
		writer := a.Acquire(background, "door", writes("zoe"))
		for _, g := range []lockagent.Grant{held[0], held[2], held[3]} {
			silent(t, "the writer", writer)
			unlocked(t, g)
		}
		released(t, granted(t, writer))
	})
}

// Bob leaves, and lets the others run. Cid comes and leaves meanwhile. So it is cid who lets the others run last, and who empties the gate.
func TestTheLastToComeEmptiesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		held := reading(t, a, "ann", "bob")
		g := a.registry.gate("door", lockagent.ReadWriteLock)
		bob := g.out(g.first)
		h, ok := g.enter("cid")
		if !ok || g.empty(bob) {
			t.Fatal("cid did not pass, or the gate is empty all the same")
		}
		cid := g.out(h.reader)
		if g.empty(bob) {
			t.Error("bob emptied the gate, and cid has come since")
		}
		if !g.empty(cid) || g.empty(cid) {
			t.Error("cid did not empty the gate, or did so twice")
		}
		released(t, lockagent.NewGrant("door", "bob", held[1].Token(), 1, g.request))
		unlocked(t, held[0])
	})
}

// A callback that ends the goroutine of a release keeps nobody in, and no other callback from being called.
func TestAReaderIsReleasedInAGoroutineThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Logger: quiet})
		for _, g := range reading(t, a, "ann", "bob", "cid") {
			registered, told := 0, 0
			for _, r := range slices.Repeat(inside(a), 3) {
				if r.owner == g.Owner() {
					registered++
					r.notify(&onEnd{call: func(error) { told++; runtime.Goexit() }})
				}
			}
			doomed(t, func() { _ = g.Release(background) })
			if told != registered {
				t.Errorf("%s: %d of %d were told", g.Owner(), told, registered)
			}
		}
		released(t, granted(t, a.Acquire(background, "door", writes("zoe"))))
	})
}

// Shutdown waits for the readers behind a gate, and lets in no more.
func TestShutdownWaitsForReadersBehindAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		held := reading(t, a, "ann", "bob", "cid")
		done := make(chan error, 1)
		go func() { done <- a.Shutdown(background) }()
		synctest.Wait()
		if err := a.Lock(background, "door", passes("dan")).Err(); !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("a reader who comes later: %v", err)
		}
		if a.registry.gate("door", lockagent.ReadWriteLock).count() {
			t.Error("the gate is open")
		}
		for _, g := range held {
			silent(t, "shutdown", done)
			unlocked(t, g)
		}
		if err := await(t, "shutdown", done); err != nil {
			t.Error(err)
		}
	})
}

// Another process goes on with the holds of all readers behind a gate, each by its owner.
func TestReadersBehindAGateAreResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store.Share()})
		held := reading(t, a, "ann", "bob", "cid", "dan")
		unlocked(t, held[1]) // who opened the gate
		next := resuming(t, Config{Store: store.Share()}, detached(t, a))
		for _, g := range held {
			if g.Held() {
				t.Errorf("%s holds the lock here, too", g.Owner())
			}
		}
		var owners []string
		writer := next.Acquire(background, "door", writes("zoe"))
		for _, r := range next.Resumed() {
			owners = append(owners, string(r.Owner))
			synctest.Wait()
			silent(t, "the writer", writer)
			released(t, granted(t, r.Grant))
		}
		slices.Sort(owners)
		if got := strings.Join(owners, " "); got != "ann cid dan" {
			t.Errorf("resumed: %s", got)
		}
		released(t, granted(t, writer))
	})
}

// The hold of a reader behind a gate ends if nothing refers to its grant any more.
func TestADroppedGrantOfAReaderComesBack(t *testing.T) {
	ctx := waittest.Context(t)
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		a := start(t, Config{Logger: slog.New(d), Claim: time.Hour})
		held := reading(t, a, "ann", "bob", "cid")
		writer := a.Acquire(background, "door", writes("zoe"))
		unlocked(t, held[0])
		unlocked(t, held[2])
		if !lives(ctx, writer, true) {
			t.Error("a grant was taken back that is kept")
		}
		runtime.KeepAlive(held[1]) // and no longer
		if lives(ctx, writer, false) {
			t.Error("nobody has the grant, and the writer waits")
		}
		released(t, granted(t, writer))
		d.wrote(t, "WARN", "lock=door", "owner=bob", "advice=release")
	})
}

// A grant that opened the gate is taken back if its caller does not receive it. Those behind the gate stay.
func TestTheOpenerDoesNotReceiveItsGrant(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("others behind the gate ", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t, Config{})
				held := reading(t, a, "ann")
				bob := &request{agent: a, Request: passes("bob"), waited: true, caller: background}
				a.ask(background, "door", bob)
				if beside {
					held = append(held, reading(t, a, "cid")...)
				}
				unlocked(t, held[0])
				writer := a.Acquire(background, "door", writes("zoe"))
				time.Sleep(DefaultClaim)
				synctest.Wait()
				if o, ok := bob.delivery.receive(); ok {
					t.Errorf("received %v", o)
				}
				if beside {
					silent(t, "the writer", writer)
					unlocked(t, held[1])
				}
				released(t, granted(t, writer))
			})
		})
	}
}

// Readers and writers, most of whom hold the lock for an instant only. A writer is alone, and none of them waits for ever.
func TestReadersAndWritersAtAGate(t *testing.T) {
	store := memstore.New()
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n, " agents"), func(t *testing.T) {
			var passed atomic.Int64
			var readers, writers atomic.Int32
			var all sync.WaitGroup
			for range n {
				a := start(t, Config{Store: store.Share()})
				for i := range 8 {
					all.Go(func() {
						for round := range 200 {
							r := passes(fmt.Sprint("reader", i, "/", round))
							write := i == 0 && round%20 == 0
							if write {
								r.Mode = lockagent.Exclusive
							}
							before := a.steps()
							g := a.Lock(background, "door", r)
							if g.Err() != nil {
								t.Error(g.Err())
								return
							}
							if a.steps() == before {
								passed.Add(1)
							}
							if write {
								writers.Add(1)
							} else {
								readers.Add(1)
							}
							if w := writers.Load(); w > 1 || w == 1 && readers.Load() > 0 {
								t.Errorf("%d writers beside %d readers", w, readers.Load())
							}
							if rand.IntN(4) == 0 {
								runtime.Gosched()
							}
							if write {
								writers.Add(-1)
							} else {
								readers.Add(-1)
							}
							if err := g.Release(background); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			if passed.Load() == 0 {
				t.Error("nobody passed a gate")
			}
			t.Logf("%d passed", passed.Load())
		})
	}
}
