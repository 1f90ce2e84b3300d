package actor

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// counter is told how many holds a grant serves.
type counter struct {
	NopWatcher
	holds int
}

func (c *counter) Granted(n int) { c.holds = n }

// A grant may serve several holds, one after the other: their tokens are nobody else's, and the log tells how many they
// are.
func TestAGrantThatServesSeveralHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Store: memstore.New(), Recorder: w, HandOffGrants: 10})
		ann, bob := &counter{}, &counter{}
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Holds: 8, Watch: ann}))
		next := a.Acquire(background, "door", Request{Owner: "bob", Holds: 8, Watch: bob})
		released(t, g)
		h := granted(t, next)
		if h.Token() != g.Token()+8 || ann.holds != 8 || bob.holds != 2 { // what is left of the budget
			t.Errorf("token %d after %d, for %d and %d holds", h.Token(), g.Token(), bob.holds, ann.holds)
		}
		released(t, h)
		last := granted(t, a.Acquire(background, "door", who("cid")))
		if last.Token() <= h.Token()+1 {
			t.Errorf("token %d after %d", last.Token(), h.Token()+1)
		}
		released(t, last)
		for kind, want := range map[lockagent.EventKind][]int{
			lockagent.EventGranted:  {8, 2, 0},
			lockagent.EventReleased: {8, 2, 0},
		} {
			for i, e := range w.of(kind) {
				if e.Holds != want[i] {
					t.Errorf("%v %d tells of %d holds, want %d", kind, i, e.Holds, want[i])
				}
			}
		}
	})
}

func TestRequestsThatServeOneHold(t *testing.T) {
	a := start(t, Config{Store: memstore.New()})
	for _, r := range []Request{
		{Session: true},
		{Kind: lockagent.FairLock},
		{Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared},
	} {
		r.Owner, r.Holds = "ann", 2
		g := <-a.Acquire(background, "door", r)
		if bad, ok := errors.AsType[*lockagent.OptionError](g.Err()); !ok || bad.Option != "holds" {
			t.Errorf("%+v: %v", r, g.Err())
		}
	}
}
