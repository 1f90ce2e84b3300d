package actor

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A break of one hold ends that hold, and never the next one: not even if the holder changes while the break is on its
// way.
func TestBreakHold(t *testing.T) {
	shared := func(owner string) Request {
		return Request{Owner: lockagent.Owner(owner), Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
	}
	permit := func(owner string) Request {
		return Request{Owner: lockagent.Owner(owner), Kind: lockagent.Semaphore, Permits: 1}
	}
	for name, c := range map[string]struct {
		first, second Request
		beside        bool // the second one holds the lock at the same time
	}{
		"lock":       {first: who("ann"), second: who("bob")},
		"fair lock":  {first: fairly("ann"), second: fairly("bob")},
		"session":    {first: again("ann"), second: again("bob")},
		"readers":    {first: shared("ann"), second: shared("bob"), beside: true},
		"semaphore":  {first: permit("ann"), second: permit("bob"), beside: true},
		"many holds": {first: Request{Owner: "ann", Holds: 3}, second: who("bob")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				a := start(t, Config{Store: newTap(memstore.New()), Recorder: w})
				kind := c.first.Kind
				if kind == lockagent.Semaphore {
					set := lockagent.PermitsRequest{Name: "door", Kind: kind, Op: lockagent.TrySetPermits, N: 2}
					if r := await(t, "permits", a.Permits(background, set)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				breaks := func(token lockagent.Token, want bool) {
					t.Helper()
					r := await(t, "break", a.BreakHold("door", kind, token, "olga"))
					if r.Value != want || want != (r.Err == nil) || !want && !errors.Is(r.Err, lockagent.ErrNotHeld) {
						t.Errorf("the break of %d: %v, %v", token, r.Value, r.Err)
					}
				}
				first := granted(t, a.Acquire(background, "door", c.first))
				waiting := a.Acquire(background, "door", c.second)
				synctest.Wait()
				if !c.beside {
					breaks(first.Token()+3, false)
				}
				breaks(first.Token(), true)
				lost, _ := errors.AsType[*lockagent.LostError](first.Cause())
				if lost == nil || lost.Reason != lockagent.LostBroken || lost.Operator != "olga" {
					t.Errorf("the first hold ended with %v", first.Cause())
				}
				second := granted(t, waiting)
				breaks(first.Token(), false)
				if !second.Held() {
					t.Errorf("the second hold ended with %v", second.Cause())
				}
				third := a.Acquire(background, "door", c.first)
				synctest.Wait()
				released := second.ReleaseAsync(background) // just before the break
				breaks(second.Token(), false)
				if err := await(t, "release", released); err != nil {
					t.Error(err)
				}
				if g := granted(t, third); !g.Held() {
					t.Errorf("the third hold ended with %v", g.Cause())
				}
				if n := len(w.of(lockagent.EventBroken)); n != 1 {
					t.Errorf("%d holds were broken", n)
				}
			})
		})
	}
}

func TestBreakHoldOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		g := granted(t, b.Acquire(background, "door", who("ann")))
		if r := await(t, "break", a.BreakHold("door", "", g.Token(), "")); r.Value ||
			!errors.Is(r.Err, lockagent.ErrNotHeld) {
			t.Errorf("the hold of another agent: %v, %v", r.Value, r.Err)
		}
		if r := await(t, "break", a.BreakHold("door", "", 0, "")); r.Value || !errors.Is(r.Err, lockagent.ErrBadOption) {
			t.Errorf("no token: %v, %v", r.Value, r.Err)
		}
		if !g.Held() {
			t.Errorf("it ended with %v", g.Cause())
		}
	})
}
