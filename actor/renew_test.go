package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func TestHeldForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		for range 12 {
			time.Sleep(time.Hour)
			if !g.Held() || !inspect(t, s.whole, "door").Held {
				t.Fatalf("lost: %v", g.Cause())
			}
		}
		// A call per ten seconds, not more.
		if n := s.count("renew"); n < 12*360-1 || n > 12*360+1 {
			t.Errorf("%d renewals in 12 hours", n)
		}
		released(t, g)
		if o := s.overlaps(); len(o) != 0 {
			t.Error(o)
		}
	})
}

func TestFixedLeaseIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Hour}))
		time.Sleep(time.Hour)
		synctest.Wait()
		lostBecause(t, g.Cause(), lockagent.LostExpired)
		if n := s.count("renew"); n != 0 {
			t.Errorf("%d renewals", n)
		}
	})
}

// A fixed lease that is handed the rest of a shorter tenure has it made longer.
func TestFixedLeaseAfterHandOff(t *testing.T) {
	for _, lease := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, lockagent.MaxLease} {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			a := start(t, Config{Store: s, HandOffTime: time.Hour})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			c := a.Acquire(background, "door", Request{Owner: "bob", Lease: lease})
			time.Sleep(20 * time.Second)
			released(t, g)
			h := granted(t, c)
			synctest.Wait()
			want := lease - min(lease/10, 2*time.Second)
			if got := h.Remaining(); got != want {
				t.Errorf("%v: remaining %v, want %v", lease, got, want)
			}
			time.Sleep(want - 1)
			if !h.Held() || !inspect(t, s.whole, "door").Held {
				t.Errorf("%v: lost before: %v", lease, h.Cause())
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			lostBecause(t, h.Cause(), lockagent.LostExpired)
		})
	}
}

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
			if e := u[0]; e.Owner != "ann" || e.Token != g.Token() || e.Remaining != 18*time.Second || e.Err == "" || e.Tenure == 0 {
				t.Errorf("%+v", e)
			}
			// Tries grow rarer: 20ms, 40ms, ... 1s, for 18 seconds.
			if n := s.count("renew"); n < 15 || n > 60 {
				t.Errorf("%d renewals tried", n)
			}
			s.handle(nil)
		})
	})

	t.Run("for a while", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			w := &witness{}
			a := start(t, Config{Store: s, Recorder: w})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			for range 10 {
				s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
				time.Sleep(15 * time.Second)
				s.handle(nil)
				time.Sleep(15 * time.Second)
				if !g.Held() {
					t.Fatal(g.Cause())
				}
			}
			if n := len(w.of(lockagent.EventUncertain)); n != 10 {
				t.Errorf("%d uncertain events", n)
			}
			released(t, g)
		})
	})

	// Renewals are executed, but their replies are lost: the agent must not trust
	// them, and must not be trusted for longer either.
	t.Run("replies lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			a := start(t, Config{Store: s})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			s.on("renew", func(o *op) { o.lose() })
			begin := time.Now()
			<-g.Done()
			if d := time.Since(begin); d != 28*time.Second {
				t.Errorf("lost after %v", d)
			}
			lostBecause(t, g.Cause(), lockagent.LostDeadline)
			synctest.Wait()
			if inspect(t, s.whole, "door").Held {
				t.Error("the tenure was not returned")
			}
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

	t.Run("a renewal without an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTap(memstore.New())
			a := start(t, Config{Store: s})
			g := granted(t, a.Acquire(background, "door", who("ann")))
			var kept keeper
			s.on("renew", kept.keep)
			begin := time.Now()
			<-g.Done()
			if d := time.Since(begin); d != 28*time.Second {
				t.Errorf("lost after %v", d)
			}
			for _, o := range kept.take() {
				o.run() // late: it belongs to a tenure that was returned
			}
			s.handle(nil)
			synctest.Wait()
			if inspect(t, s.whole, "door").Held {
				t.Error("a late renewal brought the tenure back")
			}
			released(t, granted(t, a.Acquire(background, "door", who("bob"))))
		})
	})
}

func TestStoreSaysNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		next := a.Acquire(background, "door", who("bob"))
		time.Sleep(time.Second)
		s.news = func(func(lockagent.Message), lockagent.Message) {} // nobody hears of the break
		s.whole.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
		begin := time.Now()
		<-g.Done()
		if d := time.Since(begin); d != 9*time.Second {
			t.Errorf("lost after %v, want at the next renewal", d)
		}
		lostBecause(t, g.Cause(), lockagent.LostDenied)
		h := granted(t, next)
		if h.Token() <= g.Token() {
			t.Errorf("token %d after %d", h.Token(), g.Token())
		}
		released(t, h)
		w.tells(t, `agentstarted granted queued
			lost returned granted released returned`)
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

func TestRenewalThatTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.on("renew", func(o *op) { o.fail(lockagent.ErrNotPermitted) })
		<-g.Done()
		if !errors.Is(g.Cause(), lockagent.ErrLost) {
			t.Error(g.Cause())
		}
		if n := s.count("renew"); n > 60 {
			t.Errorf("%d renewals tried", n)
		}
	})
}

// A release does not wait for a renewal that is under way, which comes to nothing.
func TestReleaseDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		var kept keeper
		s.on("renew", kept.keep)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		released(t, g)
		h := granted(t, a.Acquire(background, "door", who("bob")))
		for _, o := range kept.take() {
			o.run()
		}
		s.handle(nil)
		synctest.Wait()
		if !h.Held() {
			t.Error(h.Cause())
		}
		released(t, h)
		if inspect(t, s.whole, "door").Held {
			t.Error("the late renewal brought the tenure back")
		}
	})
}
