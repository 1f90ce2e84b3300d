package actor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func status(t testing.TB, a *Agent, name lockagent.Name) lockagent.Status {
	t.Helper()
	c := a.Status(name, lockagent.PlainLock)
	if cap(c) != 1 {
		t.Errorf("capacity %d", cap(c))
	}
	r := await(t, "status", c)
	exhausted(t, c)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Value
}

func broken(t testing.TB, a *Agent, name lockagent.Name) bool {
	t.Helper()
	c := a.Break(name, lockagent.PlainLock, "")
	if cap(c) != 1 {
		t.Errorf("capacity %d", cap(c))
	}
	r := await(t, "break", c)
	exhausted(t, c)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Value
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store}), start(t, Config{Store: store.Share()})
		if s := status(t, a, "door"); s != (lockagent.Status{Name: "door"}) {
			t.Errorf("free: %+v", s)
		}
		g := granted(t, a.Acquire(background, "door", again("ann")))
		granted(t, a.Acquire(background, "door", again("ann")))
		a.Acquire(background, "door", who("bob"))
		b.Acquire(background, "door", who("carl"))
		b.Acquire(background, "door", who("dora"))
		time.Sleep(3 * time.Second)
		s := status(t, a, "door")
		if !s.HeldBy("ann") || s.HeldBy("bob") || s.Token != g.Token() || s.HoldCount != 2 || s.Waiters != 1 ||
			!strings.HasPrefix(s.Holder, string(a.ID())+":") || s.Remaining != 27*time.Second {
			t.Errorf("asked the holder: %+v", s)
		}
		s = status(t, b, "door")
		if !s.Locked || s.Owner != "" || s.Token != 0 || s.HoldCount != 1 || s.Waiters != 2 ||
			!strings.HasPrefix(s.Holder, string(a.ID())+":") || s.Remaining != 27*time.Second {
			t.Errorf("asked another: %+v", s)
		}
		store.PlantHolder("foreign", "a java service", 3, 0)
		s = status(t, a, "foreign")
		if !s.Locked || s.Holder != "a java service" || s.HoldCount != 3 || s.Remaining >= 0 {
			t.Errorf("foreign: %+v", s)
		}
		store.PlantValue("value")
		if r := await(t, "status", a.Status("value", lockagent.PlainLock)); !errors.Is(r.Err, lockagent.ErrWrongType) {
			t.Errorf("no lock: %+v", r)
		}
		if r := await(t, "status", a.Status("", lockagent.PlainLock)); !errors.Is(r.Err, lockagent.ErrBadName) {
			t.Errorf("no name: %+v", r)
		}
	})
}

// The store says that somebody else has the lock, which this agent has not noticed.
func TestStatusOfALockThatWasTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", who("ann")))
		store.PlantHolder("door", "thief", 1, time.Hour)
		if s := status(t, a, "door"); s.Owner != "" || s.Token != 0 || s.Holder != "thief" {
			t.Errorf("%+v", s)
		}
	})
}

func TestBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store}), start(t, Config{Store: store.Share()})
		if broken(t, a, "door") {
			t.Error("broke a lock that nobody held")
		}
		g := granted(t, a.Acquire(background, "door", who("ann")))
		next := a.Acquire(background, "door", who("bob"))
		if !broken(t, a, "door") {
			t.Error("held here, but not broken")
		}
		lostBecause(t, g.Cause(), lockagent.LostBroken)
		h := granted(t, next)
		if !broken(t, b, "door") {
			t.Error("held elsewhere, but not broken")
		}
		if inspect(t, store, "door").Held {
			t.Error("the store still holds the lock")
		}
		lostBecause(t, h.Cause(), lockagent.LostBroken)
		i := granted(t, b.Acquire(background, "door", who("carl")))
		<-h.Done()
		released(t, i)
		if r := await(t, "break", a.Break("x{", lockagent.PlainLock, "")); !errors.Is(r.Err, lockagent.ErrBadName) {
			t.Errorf("no name: %+v", r)
		}
		store.PlantValue("value")
		if r := await(t, "break", a.Break("value", lockagent.PlainLock, "")); !errors.Is(r.Err, lockagent.ErrWrongType) {
			t.Errorf("no lock: %+v", r)
		}
	})
}

// A question under way keeps the actor, but does not keep it busy.
func TestSlowQuestionsCostNothing(t *testing.T) {
	for _, kind := range []string{"inspect", "break"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTap(memstore.New())
				var kept keeper
				s.on(kind, kept.keep)
				a := start(t, Config{Store: s, Idle: time.Millisecond})
				var ok func() bool
				if kind == "inspect" {
					g := granted(t, a.Acquire(background, "door", who("ann"))) // who looks at a name that nobody uses needs no actor
					c := a.Status("door", lockagent.PlainLock)
					released(t, g)
					ok = func() bool { return await(t, "status", c).Err == nil }
				} else {
					granted(t, start(t, Config{Store: s}).Acquire(background, "door", who("bob")))
					ctx, leave := context.WithCancel(background)
					waits := a.Acquire(ctx, "door", who("ann")) // likewise
					synctest.Wait()
					c := a.Break("door", lockagent.PlainLock, "")
					leave()
					<-waits
					ok = func() bool { return await(t, "break", c).Err == nil }
				}
				synctest.Wait()
				time.Sleep(time.Second) // in a bubble no time passes while a loop spins
				if n := a.entries(); n != 1 {
					t.Errorf("%d actors", n)
				}
				for _, o := range kept.take() {
					o.run()
				}
				if !ok() {
					t.Error("wrong answer")
				}
				time.Sleep(time.Second)
				if n := a.entries(); n != 0 {
					t.Errorf("%d actors left", n)
				}
			})
		})
	}
}
