package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

func TestResumedRequestsThatNobodyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := leaving(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", who("ann")))
		granted(t, a.Acquire(background, "gate", Request{Owner: "eve", Lease: time.Hour}))
		n := detached(t, a)
		next := resuming(t, Config{Store: store.Share(), Claim: 20 * time.Second, Logger: quiet}, n)
		begin := time.Now()
		for _, name := range []lockagent.Name{"door", "gate"} {
			g := granted(t, b.Acquire(background, name, who("bob")))
			if waited := time.Since(begin); waited < 20*time.Second || waited > 21*time.Second {
				t.Errorf("%q: waited %v", name, waited)
			}
			released(t, g)
		}
		for _, r := range next.Resumed() {
			exhausted(t, r.Grant)
		}
	})
}

// A resumed hold is of the kind and the mode that it had, and has as many permits.
func TestResumedHoldsOfOtherKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		read := Request{
			Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared, Session: true, Tag: "page 3",
		}
		granted(t, a.Acquire(background, "book", read))
		set := lockagent.PermitsRequest{Name: "seats", Kind: lockagent.Semaphore, Op: lockagent.TrySetPermits, N: 3}
		if r := <-a.Permits(background, set); r.Err != nil {
			t.Fatal(r.Err)
		}
		granted(t, a.Acquire(background, "seats", Request{Owner: "bob", Kind: lockagent.Semaphore, Permits: 2}))

		time.Sleep(time.Second)
		next := resuming(t, Config{Store: store.Share()}, detached(t, a))
		for i, want := range []ResumedRequest{
			{
				Name: "book", Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared, Session: true,
				Tag: "page 3",
			},
			{Name: "seats", Owner: "bob", Kind: lockagent.Semaphore, Mode: lockagent.Exclusive, Permits: 2},
		} {
			got := next.Resumed()[i]
			if got.For < time.Second || got.For > 2*time.Second || got.Remaining+got.For != 28*time.Second {
				t.Errorf("held for %v, and %v remain", got.For, got.Remaining)
			}
			want.Token, want.Grant, want.For, want.Remaining = got.Token, got.Grant, got.For, got.Remaining
			if got != want {
				t.Errorf("resumed %+v, want %+v", got, want)
			}
		}
		claimed(t, next, "book")
		err := <-next.ReleaseMode(background, "book", "ann", lockagent.Exclusive)
		if !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("release of the write lock: %v", err)
		}
		if err := <-next.ReleaseMode(background, "book", "ann", lockagent.Shared); err != nil {
			t.Errorf("release of the read lock: %v", err)
		}
	})
}

// The locks are there before the agent listens: it would disown them otherwise.
func TestResumeBeforeListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := leaving(t, Config{Store: store.Share()})
		granted(t, a.Acquire(background, "door", who("ann")))
		n := detached(t, a)
		s := newTap(store.Share())
		before := ""
		s.news = func(hear func(lockagent.Message), m lockagent.Message) {
			before += s.kinds()
			hear(lockagent.Message{
				Kind: lockagent.MessageWanted, Name: "door",
				Tenure: lockagent.Tenure{Agent: n.ID, Number: n.Locks[0].Tenures[0].Number},
			})
			hear(m)
		}
		w := &witness{}
		next := resuming(t, Config{Store: s, Recorder: w}, n)
		g := claimed(t, next, "door")
		time.Sleep(9 * time.Minute)
		if before != "" || s.count("release") != 0 {
			t.Errorf("calls before it listened: %q, and all: %q", before, s.kinds())
		}
		released(t, g)
		closed(t, next)
		later := renewals(len(w.of(lockagent.EventRenewed)) - 2)
		w.tells(t, "agentstarted renewed renewed holding"+later+" released returned agentstopped")
	})
}

func renewals(n int) (story string) {
	for range n {
		story += " renewed"
	}
	return story
}

// If nobody knows how much time has passed, nothing is believed to be held.
func TestResumeAfterABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := leaving(t, Config{Store: store.Share()}), start(t, Config{Store: store})
		granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Hour}))
		n := detached(t, a)
		n.Taken.Boot = "another"
		var goesOn startedWith
		next := resuming(t, Config{Store: store.Share(), Recorder: &goesOn}, n)
		if r := next.Resumed(); len(r) != 0 || goesOn != 0 {
			t.Errorf("resumed %+v, and told of %d", r, goesOn)
		}
		released(t, granted(t, b.Acquire(background, "door", who("bob"))))
	})
}

func TestResumeChecksItsConfig(t *testing.T) {
	good := saved.Agent{Stay: saved.Stay{ID: "agent", Last: 7}}
	spoilt := good
	spoilt.ID = ""
	if _, err := Resume(Config{Store: memstore.New()}, spoilt); err == nil {
		t.Errorf("no agent: %v", err)
	}
	for _, cfg := range []Config{{Store: memstore.New(), ID: "other"}, {Store: memstore.New(), Label: "host"}, {}} {
		if _, err := Resume(cfg, good); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
