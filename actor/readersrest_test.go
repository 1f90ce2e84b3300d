package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// usually has an owner use a lock a few times, so that its next tenure rests.
func usually(t *testing.T, a *Agent, req Request) {
	t.Helper()
	time.Sleep(time.Second) // an agent that has just begun has no habits
	for range 4 {
		released(t, granted(t, a.Acquire(background, "door", req)))
	}
}

// doorStatus is what an agent says of the door.
func doorStatus(t *testing.T, a *Agent) lockagent.Status {
	t.Helper()
	s := await(t, "status", a.Status("door", lockagent.ReadWriteLock))
	if s.Err != nil {
		t.Fatal(s.Err)
	}
	return s.Value
}

func TestATenureOfReadersRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		store := newTap(memory)
		a, b := startResting(t, Config{Store: store}), start(t, Config{Store: memory.Share()})
		usually(t, a, reads("ann"))
		if s := doorStatus(t, a); !s.Resting || !s.Locked { // readers of other agents might hold the lock
			t.Errorf("%+v: want the lock kept for readers", s)
		}
		calls := store.count("")
		for _, owner := range []string{"ann", "bob"} {
			released(t, granted(t, a.Acquire(background, "door", reads(owner))))
		}
		if n := store.count("") - calls; n != 0 {
			t.Errorf("%d calls for readers who come to a tenure that rests", n)
		}
		beside := granted(t, b.Acquire(background, "door", reads("cid")))
		if !doorStatus(t, a).Resting {
			t.Error("a reader of another agent ends the rest")
		}
		released(t, beside)

		writer := granted(t, b.Acquire(background, "door", writes("dan"))) // which waits for no timer
		if s := doorStatus(t, a); s.Resting || !s.Locked {
			t.Errorf("%+v: want the lock of a writer", s)
		}
		released(t, writer)
	})
}

// The agent gives the lock back to the store before the time of a rest, because another one asks for it.
func TestAWriterRecallsReadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		a, b := startResting(t, Config{Store: memory}), start(t, Config{Store: memory.Share()})
		usually(t, a, reads("ann"))
		asked := time.Now()
		released(t, granted(t, b.Acquire(background, "door", writes("dan"))))
		if waited := time.Since(asked); waited != 0 { // virtual time
			t.Errorf("the writer waited for %v", waited)
		}
	})
}

func TestAWritersTenureThatRestsServesReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		store := newTap(memory)
		a, b := startResting(t, Config{Store: store}), start(t, Config{Store: memory.Share()})
		usually(t, a, writes("ann"))
		if s := doorStatus(t, a); !s.Resting || s.Locked {
			t.Errorf("%+v: want a lock that nobody holds", s)
		}
		calls := store.count("")
		released(t, granted(t, a.Acquire(background, "door", reads("bob"))))
		released(t, granted(t, a.Acquire(background, "door", writes("ann"))))
		reader := granted(t, a.Acquire(background, "door", reads("bob")))
		if n := store.count("") - calls; n != 0 {
			t.Errorf("%d calls while the tenure rests", n)
		}
		beside := granted(t, b.Acquire(background, "door", reads("cid"))) // bob's tenure becomes shared
		if !reader.Held() {
			t.Error("the reader has lost the lock")
		}
		released(t, beside)
		released(t, reader)
	})
}

// A reader that forbids rests ends those of the tenure, so it passes no gate.
func TestAReaderThatForbidsRestsPassesNoGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := startResting(t, Config{Store: store})
		usually(t, a, reads("ann"))
		held := reading(t, a, "ann", "bob")
		req := passes("cid")
		req.NoRest = true
		held = append(held, a.Lock(background, "door", req))
		releases := store.count("release")
		for _, g := range held {
			unlocked(t, g)
		}
		if doorStatus(t, a).Resting || store.count("release") == releases {
			t.Error("the tenure rests")
		}
	})
}
