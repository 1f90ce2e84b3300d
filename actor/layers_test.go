package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// bare is a store without layers: the interface has six methods.
type bare struct{ lockagent.Store }

// Without a queue nothing is passed, and nothing rests. Two agents take turns by wake-ups, before any lease is over.
func TestTurnsOverAStoreWithoutLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		one, two := start(t, Config{Store: bare{memory.Share()}}), start(t, Config{Store: bare{memory.Share()}})
		begin := time.Now()
		g := granted(t, one.Acquire(background, "door", Request{Owner: "a"}))
		for range 10 {
			next := two.Acquire(background, "door", Request{Owner: "b"})
			synctest.Wait()
			released(t, g)
			g = granted(t, next)
			if !g.Held() {
				t.Fatalf("not held: %v", g.Err())
			}
			one, two = two, one
		}
		released(t, g)
		if inspect(t, memory, "door").Held {
			t.Error("the lock rests")
		}
		if passed := time.Since(begin); passed >= DefaultLease {
			t.Errorf("ten turns took %v", passed)
		}
		closed(t, one)
		closed(t, two)
	})
}

func TestCallsThatNeedALayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Store: bare{memstore.New()}, Recorder: w})
		g := granted(t, a.Acquire(background, "door", Request{Owner: "a"}))
		seats := lockagent.PermitsRequest{Name: "seats", Kind: lockagent.Semaphore, Op: lockagent.ReadPermits}
		for what, err := range map[string]error{
			"Break":   (<-a.Break("door", lockagent.PlainLock, "olga")).Err,
			"Status":  (<-a.Status("door", lockagent.PlainLock)).Err,
			"Permits": (<-a.Permits(background, seats)).Err,
			"Latch":   (<-a.Latch(background, lockagent.LatchRequest{Name: "gate"})).Err,
		} {
			if told, ok := errors.AsType[*lockagent.OptionError](err); !ok || told.Option != "Config.Store" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if !g.Held() {
			t.Error("the call that could not be made broke the lock")
		}
		if broken := <-a.BreakHold("door", lockagent.PlainLock, g.Token(), "olga"); broken.Err != nil || !broken.Value {
			t.Errorf("a hold of the agent itself needs no store to be broken: %+v", broken)
		}
		closed(t, a)
		for _, e := range w.all() {
			if e.Store != "" || e.Kind == lockagent.EventAlive {
				t.Errorf("%+v: the store has no identity, and no time to tell", e)
			}
		}
	})
}

// An agent that goes on with the work of another one has to know that nobody else does.
func TestResumeNeedsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		a := leaving(t, Config{Store: memory.Share()})
		granted(t, a.Acquire(background, "door", Request{Owner: "a", Lease: time.Minute}))
		n := detached(t, a)
		if _, err := Resume(Config{Store: bare{memory.Share()}}, n); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("resumed over a store without messages: %v", err)
		}
	})
}
