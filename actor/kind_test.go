package actor

import (
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
		time.Sleep(2 * a.cfg.Idle) // until nobody uses the name
		released(t, granted(t, a.Acquire(background, "door", fairly("bob"))))
	})
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
