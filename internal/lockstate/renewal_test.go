package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestKeptLeaseIsRenewedWhenAThirdHasPassed(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	sent := r.now
	for range 5 {
		due := sent.add(10 * time.Second)
		r.alarmIn(due.Sub(r.now), due.Sub(r.now))
		r.pass(due.Sub(r.now) - 1)
		r.want()
		r.pass(1)
		r.want("Renewing 30s")
		sent = r.now
		r.pass(time.Second) // the call takes a second
		r.renewed(true)
		r.want("Renewed")
		if want := sent.add(28 * time.Second); r.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(r.s.tenure.deadline), time.Duration(want))
		}
	}
}

func TestRenewalTellsWhatTheStoreConfirmed(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.pass(11 * time.Second)
	r.renewed(true)
	e := r.last(Renewed)
	if e.Sent != Instant(10*time.Second) || e.Lease != 30*time.Second || e.StoreTime != storeTime(r.now) ||
		e.Tenure != r.asked {
		t.Errorf("tells %+v", e)
	}
}

func TestKeptLockHasRoomForItsHoldOnly(t *testing.T) {
	r := newRig(t)
	r.hold("ann", "bob", "cid")
	r.cancel("bob")
	r.cancel("cid")
	if cap(r.s.requests.slots) < 3 {
		t.Fatal("there is no room that could be let go")
	}
	r.pass(10 * time.Second)
	r.renewed(true)
	if n := cap(r.s.requests.slots); n != 1 {
		t.Errorf("room for %d", n)
	}
	r.acquire("bob")
	r.pass(10 * time.Second)
	r.renewed(true)
	if w := r.s.requests.head(); w == nil || w.Owner != "bob" {
		t.Errorf("%v waits, want bob", w)
	}
}

func TestFailedRenewal(t *testing.T) {
	t.Run("is not a loss: the hold goes on until its deadline, not less and not more", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		r.want("Renewing 30s")
		deadline, uncertain := Instant(28*time.Second), false
		for {
			r.renewFails()
			r.want("RenewFailed")
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
			if third := deadline.add(-deadline.Sub(0) / 3); at == third {
				uncertain = true
				r.want("BecameUncertain")
				at, _ = r.s.Alarm()
				r.pass(at.Sub(r.now))
			}
			if at == deadline {
				break
			}
			r.want("Renewing 30s")
		}
		r.want("Ended ann: deadline", "Returning")
		if !uncertain {
			t.Error("the hold did not become uncertain")
		}
	})
	t.Run("is tried again after a pause that grows to its bound", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(10 * time.Second)
		for i, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			r.renewFails()
			if got := r.last(RenewFailed).Failures; int(got) != i+1 {
				t.Errorf("failure %d is counted as %d", i+1, got)
			}
			r.alarmIn(pause/2, pause)
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
	})
	t.Run("is tried again sooner when the deadline is near", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.RetryMin = 20 * time.Millisecond })
		r.hold("ann")
		r.pass(10 * time.Second)
		for range 8 {
			r.renewFails()
			at, _ := r.s.Alarm()
			r.pass(at.Sub(r.now))
		}
		r.pass(27*time.Second - time.Duration(r.now))
		r.renewFails()
		r.alarmIn(10*time.Millisecond, 250*time.Millisecond)
		r.pass(250 * time.Millisecond)
		r.passLate(28*time.Second - time.Duration(r.now) - 1)
		r.renewFails()
		r.alarmIn(1, 1) // the deadline, before the least pause
	})
	t.Run("is forgotten when the next one is confirmed", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.pass(10 * time.Second)
		r.renewFails()
		r.pass(time.Second)
		r.renewed(true)
		sent := r.last(Renewed).Sent
		if want := sent.add(28 * time.Second); r.s.tenure.deadline != want {
			t.Errorf("trusted until %v, want %v", time.Duration(r.s.tenure.deadline), time.Duration(want))
		}
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1")
	})
}

func TestRenewalWithoutAnAnswerIsLostAtTheDeadline(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.pass(28*time.Second - 1)
	r.want("Renewing 30s", "BecameUncertain")
	r.pass(1)
	r.want("Ended ann: deadline", "Returning")
	r.renewed(true) // too late
	r.want()
}

func TestRenewalThatIsDeniedEndsTheHoldAtOnce(t *testing.T) {
	r := newRig(t)
	r.hold("ann+", "bob")
	r.acquire("ann+")
	r.pass(10 * time.Second)
	r.skip()
	first := r.asked
	r.renewed(false)
	r.want("Ended ann+: denied, 1 left", "Ended ann+: denied", "Denied", "Attempted 30s")
	if r.asked == first {
		t.Error("the number of a tenure that is over is used again")
	}
}

func TestAnswerToARenewalThatNobodyAskedForIsOfNoUse(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.renewed(false)
	r.want()
}

// The store had the tenure all the time, so nothing was lost.
func TestLateTickAfterTheAnswerOfARenewalFindsTheHoldWell(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.pass(10 * time.Second)
	r.skip()
	r.passLate(18 * time.Second)
	r.renewed(true)
	r.want("Renewed", "Renewing 30s")
}

// Whatever the lease, a renewal comes between a sixth and a third of it.
func TestRenewalsAreInTime(t *testing.T) {
	for _, lease := range []time.Duration{
		lockagent.MinLease, time.Second, lockagent.PassLease, 31 * time.Second, time.Hour,
	} {
		for _, margin := range []time.Duration{0, lease / 2} {
			cfg := rigConfig()
			cfg.Watchdog, cfg.Margin, cfg.Scatter = lease, margin, lease/6
			for number := range uint64(3 * beats) {
				s := New("orders", &cfg)
				m := Moment{Now: Instant(number) * 12_345_678, Fresh: number + 1}
				var asked uint64
				step := func(c Command) {
					s.Step(c, m, func(e *Event) {
						if e.Kind == Attempted {
							asked = e.Tenure
						}
					})
				}
				step(Acquire{Request: Request{Owner: "ann"}})
				step(AcquireReplied{Tenure: asked, Reply: lockagent.AcquireReply{Granted: true, Token: 1}})
				if after := s.renewalDue().Sub(m.Now); after < lease/3-lease/6 || after > lease/3 {
					t.Fatalf("lease %v, margin %v: the renewal is due after %v", lease, margin, after)
				}
			}
		}
	}
}

// Locks that were acquired together are not renewed together for ever, and neither are locks
// that were checked together after a reset. But each instant serves many locks. A late renewal
// does not put off the next one.
func TestRenewalsAreScattered(t *testing.T) {
	const tenures, third, late = 200, 10 * time.Second, 30 * time.Millisecond
	cfg := rigConfig() // a lease of 30 s
	cfg.Scatter = 5 * time.Second
	due := make(map[string]map[Instant]int)
	for number := range uint64(tenures) {
		s := New("orders", &cfg)
		m := Moment{Now: Instant(number % 7), Fresh: number + 1}
		var asked uint64
		step := func(c Command) {
			s.Step(c, m, func(e *Event) {
				if e.Kind == Attempted {
					asked = e.Tenure
				}
			})
		}
		renewed := func() { step(RenewReplied{Tenure: asked, Reply: lockagent.RenewReply{Held: true}}) }
		scattered := func(when string) {
			t.Helper()
			at := s.renewalDue()
			if after := at.Sub(m.Now); after <= third-cfg.Scatter || after > third {
				t.Fatalf("%s: the renewal is due after %v, want at most %v less than %v", when, after, cfg.Scatter, third)
			}
			if due[when] == nil {
				due[when] = make(map[Instant]int)
			}
			due[when][at]++
			m.Now = at.add(late)
			step(Tick{})
			renewed()
			if next := s.renewalDue(); next != at.add(third) {
				t.Fatalf("%s: the next renewal is due after %v, want %v", when, next.Sub(at), third)
			}
		}
		step(Acquire{Request: Request{Owner: "ann"}})
		step(AcquireReplied{Tenure: asked, Reply: lockagent.AcquireReply{Granted: true, Token: 1}})
		scattered("acquired together")
		m.Now = Instant(17 * time.Second)
		step(StoreReset{})
		renewed()
		scattered("after a reset")
	}
	for when, at := range due {
		if len(at) < beats*9/10 || len(at) > beats {
			t.Errorf("%s: %d tenures are renewed at %d instants, want about %d", when, tenures, len(at), beats)
		}
	}
}

// An instant of the clock may be below 0 after a resumption.
func TestBeatsBeforeTheClockBegan(t *testing.T) {
	for number := range uint64(20) {
		tn := tenure{number: number}
		for at := Instant(-1000); at < 1000; at += 7 {
			b := tn.beat(at, 500)
			if b > at || at.Sub(b) >= 500 || tn.beat(b, 500) != b || tn.beat(b-1, 500) != b-500 {
				t.Fatalf("tenure %d: the beat before %d is %d", number, at, b)
			}
		}
	}
}
