package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func TestStoreAway(t *testing.T) {
	t.Run("until the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			w := &witness{}
			a := start(t, Config{Store: s, Recorder: w})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			begin := time.Now()
			<-g.Done()
			if d := time.Since(begin); d != 28*time.Second {
				t.Errorf("lost after %v, want the lease less two seconds", d)
			}
			lostBecause(t, g.Cause(), lockagent.LostDeadline)
			if i := inspect(t, s.whole, "door"); !i.Held || i.Remaining != 2*time.Second {
				t.Errorf("the store's lease ended before: %+v", i)
			}
			synctest.Wait()
			u := w.of(lockagent.EventUncertain)
			if len(u) != 1 {
				t.Fatalf("%d uncertain events", len(u))
			}
			if e := u[0]; e.Owner != "ann" || e.Token != g.Token() || e.Remaining != 18*time.Second || e.Err == "" ||
				e.Tenure == 0 {
				t.Errorf("%+v", e)
			}
			// Tries grow rarer: 20ms, 40ms, ... 1s, for 18 seconds.
			if n := s.count("renew"); n < 15 || n > 60 {
				t.Errorf("%d renewals tried", n)
			}
			s.handle(nil)
		})
	})

	// A renewal that takes long is trusted from when it was sent.
	t.Run("replies late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			a := start(t, Config{Store: s})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			var kept keeper
			s.on("renew", kept.keep)
			time.Sleep(20 * time.Second) // sent at 10
			for _, o := range kept.take() {
				o.run()
			}
			synctest.Wait()
			if got := g.Remaining(); got != 18*time.Second {
				t.Errorf("remaining %v, want 28s from when it was sent, 10s ago", got)
			}
			s.handle(nil)
			for _, o := range kept.take() {
				o.run()
			}
			time.Sleep(time.Minute)
			if !g.Held() {
				t.Error(g.Cause())
			}
			released(t, g)
			if o := s.overlaps(); len(o) != 0 {
				t.Error(o)
			}
		})
	})
}

func TestStoreReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := newTap(store)
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		other := start(t, Config{Store: store.Share()})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		elsewhere := granted(t, other.Acquire(background, "gate", who("carl")))
		waiting := a.Acquire(background, "gate", who("ann"))
		time.Sleep(time.Second)
		begin := time.Now()
		store.Reset()
		<-g.Done() // checked at once
		synctest.Wait()
		if d := time.Since(begin); d != 0 {
			t.Errorf("lost after %v", d)
		}
		lostBecause(t, g.Cause(), lockagent.LostDenied)
		<-elsewhere.Done()
		h := granted(t, waiting) // tries at once
		if d := time.Since(begin); d != 0 {
			t.Errorf("granted after %v", d)
		}
		if r := w.of(lockagent.EventStoreReset); len(r) != 1 || r[0].Reset.From == r[0].Reset.To || r[0].Reset.Reason == "" {
			t.Errorf("reset: %+v", r)
		}
		released(t, h)
	})
}

// Tokens grow although the store has forgotten them and its clock was set back.
func TestTokensGrowOverReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		released(t, g)
		store.Reset()
		h := granted(t, a.Acquire(background, "door", who("ann")))
		if h.Token() <= g.Token() {
			t.Errorf("token %d after %d", h.Token(), g.Token())
		}
		released(t, h)
	})
}
