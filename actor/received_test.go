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

// A grant whose hold has ended while it lay in its channel is not received as held.
func TestGrantThatEndedIsNotReceived(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease time.Duration
		end   func(t *testing.T, a *Agent, s *tap)
	}{
		{"expired", 5 * time.Second, func(*testing.T, *Agent, *tap) { time.Sleep(5 * time.Second) }},
		{"closed", 0, func(t *testing.T, a *Agent, _ *tap) { closed(t, a) }},
		{"broken", 0, func(t *testing.T, a *Agent, _ *tap) { await(t, "break", a.Break("door", lockagent.PlainLock, "")) }},
		{"left", 0, func(t *testing.T, a *Agent, _ *tap) {
			if err := await(t, "leave", a.Leave(background, "door", "ann")); err != nil {
				t.Error(err)
			}
		}},
		{"denied", 0, func(t *testing.T, _ *Agent, s *tap) {
			s.whole.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
			time.Sleep(DefaultLease)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTap(memstore.New())
				a := start(t, Config{Store: s, Claim: time.Hour})
				out := a.Acquire(background, "door", Request{Owner: "ann", Session: true, Lease: c.lease})
				synctest.Wait()
				c.end(t, a, s)
				synctest.Wait()
				refused(t, out, lockagent.ErrNotGranted)
			})
		})
	}
}

// Lock says how a hold ended that was over before Lock could return it.
func TestLockTellsHowItsHoldEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Agent)
		is   func(error) bool
	}{
		{"broken", func(a *Agent) { a.Break("door", lockagent.PlainLock, "") }, func(err error) bool {
			lost, ok := errors.AsType[*lockagent.LostError](err)
			return ok && lost.Reason == lockagent.LostBroken
		}},
		{
			"closed", func(a *Agent) { go a.Close(); synctest.Wait() },
			func(err error) bool { return errors.Is(err, lockagent.ErrClosed) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				a := start(t, Config{Recorder: w})
				w.before = func(e lockagent.Event) {
					if e.Kind == lockagent.EventGranted {
						c.end(a) // a message that waits until the grant is in its channel
					}
				}
				g := a.Lock(background, "door", who("ann"))
				if g.Held() || !c.is(g.Err()) || g.Name() != "door" {
					t.Errorf("got %+v", g)
				}
			})
		})
	}
}

// Who releases by the owner's name gives up what was received, and nothing that another
// goroutine is about to receive.
func TestReleaseByOwnerLeavesWhatNobodyReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		release := func() error { return await(t, "release", a.Release(background, "door", "ann")) }
		first := a.Acquire(background, "door", again("ann"))
		synctest.Wait()
		if err := release(); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("a grant that nobody received: %v", err)
		}
		g1 := granted(t, first)
		second, third := a.Acquire(background, "door", again("ann")), a.Acquire(background, "door", again("ann"))
		g3 := granted(t, third)
		if err := release(); err != nil || g3.Held() || !g1.Held() {
			t.Errorf("the youngest that was received: %v, the third is held %v, the first %v", err, g3.Held(), g1.Held())
		}
		if err := release(); err != nil || g1.Held() {
			t.Errorf("the one that was received: %v, held %v", err, g1.Held())
		}
		if err := release(); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("nothing is left that was received: %v", err)
		}
		if err := await(t, "release", a.Release(background, "door", "bob")); !errors.Is(err, lockagent.ErrNotOwner) {
			t.Errorf("another owner: %v", err)
		}
		g2 := granted(t, second)
		if !g2.Held() {
			t.Errorf("the second: %v", g2.Cause())
		}
		if err := release(); err != nil || g2.Held() {
			t.Errorf("when it was received: %v, held %v", err, g2.Held())
		}
	})
}

// Who releases by the owner's name gives up nothing that Lock is about to return.
func TestReleaseByOwnerLeavesWhatLockReturnsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Recorder: w})
		var released <-chan error
		w.before = func(e lockagent.Event) {
			if e.Kind == lockagent.EventGranted {
				released = a.Release(background, "door", "ann") // a message that waits until the lock is granted
			}
		}
		g := a.Lock(background, "door", who("ann"))
		if err := await(t, "release", released); !errors.Is(err, lockagent.ErrNotHeld) || !g.Held() {
			t.Errorf("release: %v; the grant: %v, held %v", err, g.Err(), g.Held())
		}
	})
}

// A grant that comes when the caller's context has ended, and the actor does not know of that yet, is received.
func TestLockReceivesAGrantThatCameFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Recorder: w})
		ann := granted(t, a.Acquire(background, "door", who("ann")))
		ctx, cancel := context.WithCancel(background)
		bob := locking(ctx, a, "door", who("bob"))
		synctest.Wait()
		w.before = func(e lockagent.Event) {
			if e.Kind == lockagent.EventGranted {
				cancel()
				time.Sleep(time.Second) // until the cancellation is in the mailbox
			}
		}
		released(t, ann)
		g := await(t, "bob", bob)
		synctest.Wait()
		if g.Err() != nil || !g.Held() {
			t.Errorf("%v, held %v", g.Err(), g.Held())
		}
	})
}

// passing is a Watcher who receives a grant and passes it on.
type passing struct {
	NopWatcher
	arrived bool
}

func (p *passing) Received() bool { return p.arrived }

// A caller may pass a grant on. Release leaves the grant alone until its owner has it.
func TestReleaseByOwnerLeavesWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		release := func() error { return await(t, "release", a.Release(background, "door", "ann")) }
		older := granted(t, a.Acquire(background, "door", again("ann")))
		w := &passing{}
		req := again("ann")
		req.Watch = w
		g := granted(t, a.Acquire(background, "door", req))
		if err := release(); err != nil || older.Held() || !g.Held() {
			t.Errorf("%v; the older is held %v, the one on its way %v", err, older.Held(), g.Held())
		}
		if err := release(); !errors.Is(err, lockagent.ErrNotHeld) || !g.Held() {
			t.Errorf("on its way: %v, held %v", err, g.Held())
		}
		w.arrived = true
		if err := release(); err != nil || g.Held() {
			t.Errorf("when the owner has it: %v, held %v", err, g.Held())
		}
	})
}
