package lockstate

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// restRig is a rig whose tenures may rest, in a process that has run for a while.
func restRig(t *testing.T, change ...func(*Config)) *rig {
	r := newRig(
		t,
		append(
			[]func(*Config){func(c *Config) { c.Rest, c.HandOffTime = 100*time.Millisecond, 50*time.Millisecond }}, change...,
		)...,
	)
	r.now = Instant(time.Second)
	return r
}

const gap = 500 * time.Microsecond

// grant answers the last attempt as a store that lets tenures rest.
func (r *rig) grant() {
	r.t.Helper()
	first := r.token + 1
	r.token += lockagent.Token(1000)
	rests := r.last(Attempted).Rests
	r.acquireReplied(
		lockagent.AcquireReply{Granted: true, Token: first, At: storeTime(r.now), Incarnation: "one", Rests: rests}, nil,
	)
}

// cycle acquires and releases the lock through the store, and lets a gap pass.
func (r *rig) cycle(gap time.Duration) {
	r.t.Helper()
	r.acquire("ann")
	r.grant()
	r.release("ann")
	if r.s.phase == releasing {
		r.returned(0)
	}
	r.pass(gap)
	r.skip()
}

// rested makes a rig with a tenure that rests, for eight gaps of 500 µs.
func rested(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	return restedIn(t, Exclusive, change...)
}

// restedIn is rested for a tenure of a mode.
func restedIn(t *testing.T, mode Mode, change ...func(*Config)) *rig {
	t.Helper()
	r := restRig(t, change...)
	for range 30 { // the usual gap comes near
		if r.cycle(gap); r.s.Resting() {
			r.pass(100 * time.Millisecond)
			r.returned(0)
			r.pass(gap)
		}
	}
	r.s.habit = habit{streak: mostStreak, usually: gap, ended: r.now.add(-gap)}
	r.origin, r.events = clone(r.s), nil
	r.request(Request{Owner: "ann", Mode: mode})
	r.grant()
	r.skip()
	r.release("ann")
	r.want("Ended ann", "Rested", "Unlocked "+itoa(r.calls))
	return r
}

func itoa(c CallID) string { return strconv.FormatUint(uint64(c), 10) }

func TestRestBegins(t *testing.T) {
	t.Run("with the third tenure in a row", func(t *testing.T) {
		r := restRig(t)
		for n, want := range []bool{false, false, false, true} {
			r.acquire("ann")
			e := r.last(Attempted)
			if e.Rests != want || want && e.AskedLease != lockagent.PassLease {
				t.Errorf(
					"attempt %d asks for a tenure that may rest: %v, with a lease of %v; want %v", n+1, e.Rests, e.AskedLease, want,
				)
			}
			r.grant()
			r.release("ann")
			if want {
				break
			}
			r.returned(0)
			r.pass(gap)
		}
		if !r.s.Resting() {
			t.Error("the tenure does not rest")
		}
	})
	unrested := Request{Owner: "bob", NoRest: true}
	for name, tt := range map[string]func(*rig){
		"if gaps are longer than a rest": func(r *rig) { r.pass(101 * time.Millisecond) },
		"if another agent had the lock":  func(r *rig) { r.acquire("bob"); r.busy(time.Second); r.cancel("bob") },
		"if a release passes the lock on": func(r *rig) {
			r.request(unrested)
			r.grant()
			r.release("bob")
			r.step(ReleaseReplied{
				Tenure: r.asked, Reply: lockagent.ReleaseReply{Released: true, At: storeTime(r.now), Passed: true},
			})
		},
		"if outsiders wait": func(r *rig) {
			r.request(unrested)
			r.outside()
			r.release("bob")
			r.returned(0)
		},
		"if the store lets no tenure rest": nil,
	} {
		t.Run("not "+name, func(t *testing.T) {
			r := restRig(t)
			for range 3 {
				r.cycle(gap)
			}
			if tt != nil {
				tt(r)
			}
			r.acquire("ann")
			if tt != nil && r.last(Attempted).Rests {
				t.Error("the attempt asks for a tenure that may rest")
			}
			r.granted() // without Rests
			r.skip()
			r.release("ann")
			if r.s.Resting() {
				t.Error("the tenure rests")
			}
		})
	}
	for name, tt := range map[string]struct {
		request Request
		change  func(*Config)
	}{
		"for a fixed lease":               {request: Request{Lease: time.Second}},
		"for a request that forbids it":   {request: Request{NoRest: true}},
		"if the configuration forbids it": {change: func(c *Config) { c.Rest = 0 }},
	} {
		t.Run("not "+name, func(t *testing.T) {
			r := restRig(t)
			if tt.change != nil {
				tt.change(r.s.cfg)
			}
			for range 5 {
				r.cycle(gap)
			}
			if r.s.Resting() { // the cycles were of a kind that may
				r.pass(time.Second)
				r.returned(0)
				r.pass(gap)
			}
			tt.request.Owner = "ann"
			r.request(tt.request)
			if r.last(Attempted).Rests {
				t.Error("the attempt asks for a tenure that may rest")
			}
		})
	}
}

// outside grants the last attempt while an outsider waits.
func (r *rig) outside() {
	r.t.Helper()
	r.token += 1000
	r.acquireReplied(
		lockagent.AcquireReply{
			Granted: true, Token: r.token, At: storeTime(r.now), Outsiders: 1, Rests: r.last(Attempted).Rests,
		},
		nil,
	)
}

func TestRest(t *testing.T) {
	t.Run("grants without the store", func(t *testing.T) {
		r := rested(t)
		r.pass(gap)
		token := r.last(Granted).Token
		r.acquire("bob")
		if e := r.last(Granted); e.How != lockagent.ByRest || e.Token != token+1 {
			t.Errorf("granted %+v, want it by rest, with the token %d", e, token+1)
		}
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Rested", "Unlocked "+itoa(r.calls))
	})
	t.Run("ends after the gaps that it bridges", func(t *testing.T) {
		r := rested(t)
		r.alarmIn(gapsOfRest*gap, gapsOfRest*gap)
		r.pass(gapsOfRest * gap)
		r.want("Returning")
	})
	t.Run("lasts for a while even if the gaps are tiny", func(t *testing.T) {
		r := restRig(t)
		for range 10 {
			r.cycle(0)
		}
		if !r.s.Resting() {
			t.Fatal("no rest")
		}
		r.alarmIn(shortestRest, shortestRest)
	})
	t.Run("ends when its time has passed, though the lock is in use", func(t *testing.T) {
		r := rested(t)
		for range 99 {
			r.pass(time.Millisecond)
			r.acquire("bob")
			r.release("bob")
		}
		r.skip()
		r.pass(time.Millisecond)
		r.want("Returning")
	})
	for who, mode := range map[string]Mode{"holders": Exclusive, "readers": Shared} {
		t.Run("of "+who+" ends, and then those go first whom the release woke", func(t *testing.T) {
			r := restedIn(t, mode)
			r.pass(gapsOfRest * gap)
			r.request(Request{Owner: "bob", Mode: mode})
			r.want("Returning", "Requested bob", "Queued bob")
			r.returned(1)
			r.want("Returned")
			r.alarmIn(time.Second, time.Second)
			r.pass(time.Second)
			r.want("Attempted 2s")
		})
	}
	t.Run("does not begin after its time", func(t *testing.T) {
		r := rested(t)
		r.acquire("bob")
		r.pass(100 * time.Millisecond)
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("serves more holds than a budget has", func(t *testing.T) {
		r := rested(t) // the budget has 3
		for range 20 {
			r.acquire("bob", "cid")
			r.release("bob")
			r.release("cid")
			r.pass(10 * time.Microsecond)
		}
		if !r.s.Resting() {
			t.Error("the tenure went back")
		}
	})
	for name, tt := range map[string]struct {
		command Command
		want    []string
	}{
		"the lock is wanted":         {Wanted{}, []string{"Contested", "Returning"}},
		"messages were missed":       {Missed{}, []string{"Contested", "Doubted", "Returning"}},
		"the store was reset":        {StoreReset{}, []string{"Doubted", "Returning"}},
		"the agent is closed":        {Close{}, []string{"Closed", "Returning"}},
		"an operator broke it":       {Broken{At: 1 << 50}, []string{"Denied"}},
		"the lock is somebody's new": {displaced{at: 1 << 50}, []string{"Denied"}},
	} {
		t.Run("ends when "+name, func(t *testing.T) {
			r := rested(t)
			switch c := tt.command.(type) {
			case Wanted:
				tt.command = Wanted{Tenure: r.s.tenure.number}
			case Broken:
				c.Tenure = r.s.tenure.number
				tt.command = c
			}
			r.step(tt.command)
			r.want(tt.want...)
		})
	}
	t.Run("does not end for another tenure's sake", func(t *testing.T) {
		r := rested(t)
		r.step(Wanted{Tenure: r.s.tenure.number + 1000}) // a ghost
		r.want("Disowning " + itoa(CallID(r.s.tenure.number+1000)))
	})
	t.Run("ends with a hold that lasts", func(t *testing.T) {
		r := rested(t)
		r.acquire("bob")
		r.pass(time.Second)
		if e := r.last(Renewing); e.AskedLease != 30*time.Second {
			t.Errorf("renewed for %v, want the lease of the watchdog", e.AskedLease)
		}
		r.renewed(true)
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("ends with a request that forbids it", func(t *testing.T) {
		r := rested(t)
		r.request(Request{Owner: "bob", NoRest: true})
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("is over for another process", func(t *testing.T) {
		r := rested(t)
		s := Resume("orders", r.s.cfg, r.s.Snapshot(), 0, r.now)
		if s.phase != releasing || !s.leaving.withdraws {
			t.Errorf("phase %d, want the tenure withdrawn", s.phase)
		}
	})
	t.Run("is no hold", func(t *testing.T) {
		r := rested(t)
		if owner, _, count, _ := r.s.Hold(); owner != "" || count != 0 || r.s.Idle() {
			t.Errorf("held by %q, %d times; idle: %v", owner, count, r.s.Idle())
		}
		r.step(Release{Owner: "ann", Call: 1000})
		r.want("Unlocked 1000: not held")
	})
}

func TestRecall(t *testing.T) {
	t.Run("lets the budget of hand-offs run from then", func(t *testing.T) {
		r := rested(t) // 3 grants and 50 ms
		r.acquire("bob", "cid", "dan", "eve", "fay")
		r.pass(80 * time.Millisecond)
		r.step(Wanted{Tenure: r.s.tenure.number})
		r.pass(10 * time.Millisecond)
		r.release("bob")
		r.release("cid")
		r.release("dan")
		r.skip()
		r.release("eve")
		r.want("Ended eve", "Returning")
	})
	t.Run("bounds the time, too", func(t *testing.T) {
		for after, want := range map[time.Duration]string{
			49 * time.Millisecond: "Granted", 50 * time.Millisecond: "Returning",
		} {
			r := rested(t)
			r.acquire("bob", "cid")
			r.pass(90 * time.Millisecond)
			r.step(Wanted{Tenure: r.s.tenure.number})
			r.passLate(after)
			r.skip()
			r.release("bob")
			if kind := r.events[len(r.events)-2].Kind; want == "Granted" && kind != Granted {
				t.Errorf("after %v: %v, want %s", after, r.seen, want)
			}
			if kind := r.events[len(r.events)-1].Kind; want == "Returning" && kind != Returning {
				t.Errorf("after %v: %v, want %s", after, r.seen, want)
			}
		}
	})
	t.Run("may come before the answer", func(t *testing.T) {
		r := restRig(t)
		for range 3 {
			r.cycle(gap)
		}
		r.acquire("ann")
		if !r.last(Attempted).Rests {
			t.Fatal("the attempt does not ask for a tenure that may rest")
		}
		r.step(Wanted{Tenure: r.asked})
		r.grant()
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Returning")
		if got := r.s.habit.needed; got != 2*leastStreak {
			t.Errorf("the next rest comes after %d tenures, want it put off", got)
		}
	})
	t.Run("puts the next rest off, longer each time", func(t *testing.T) {
		r := restRig(t)
		var gaps []int // tenures between two recalls
		for range 5 {
			for n := 0; ; n++ {
				if r.cycle(gap); r.s.Resting() {
					gaps = append(gaps, n)
					break
				}
			}
			r.step(Wanted{Tenure: r.s.tenure.number})
			r.returned(1)
			r.pass(2 * time.Second)
		}
		want := []int{3, 5, 9, 17, 33} // the first tenure after a pause is in no row
		for i := range want {
			if gaps[i] != want[i] {
				t.Fatalf("a tenure rests after %v others, want %v", gaps, want)
			}
		}
	})
	t.Run("is forgotten when rests pay", func(t *testing.T) {
		r := restRig(t)
		r.s.habit.needed = 64
		r.origin = clone(r.s)
		rests := 0
		for range 200 {
			if r.cycle(gap); !r.s.Resting() {
				continue
			}
			rests++
			r.acquire("bob")
			r.release("bob")
			r.pass(200 * time.Millisecond)
			r.returned(0)
		}
		if got := r.s.habit.needed; got > leastStreak {
			t.Errorf("after %d rests a row of %d is needed, want no more than %d", rests, got, leastStreak)
		}
	})
}

// An operator who breaks a lock finds it free. Nobody gets it from the agent in which it rested.
func TestBreakEndsARest(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared} {
		t.Run(fmt.Sprintf("in mode %d", mode), func(t *testing.T) {
			r := restedIn(t, mode)
			r.skip()
			r.breakLock()
			r.want("Contested", "AskBreak "+itoa(r.calls), "Returning")
			r.acquire("bob")
			r.want("Requested bob", "Queued bob")
			r.returnedLate()
			r.want("Returned, over before", "Attempted 2s")
		})
	}
	t.Run("that was to come after a hold", func(t *testing.T) {
		r := rested(t)
		r.acquire("bob")
		r.skip()
		r.breakLock()
		r.want("Contested", "Ended bob: broken", "Returning")
	})
	t.Run("that was to come after readers", func(t *testing.T) {
		r := restedIn(t, Shared)
		r.read("bob")
		r.skip()
		r.breakLock()
		r.want("Contested", "AskBreak "+itoa(r.calls))
		r.release("bob")
		r.want("Ended bob", "Returning")
	})
	t.Run("that was to come after a hold, by the token", func(t *testing.T) {
		r := rested(t)
		r.acquire("bob")
		token := r.last(Granted).Token
		r.skip()
		r.breakHold(token)
		r.want("Contested", "Ended bob: broken", "Returning")
	})
	t.Run("but is no recall of one that is over", func(t *testing.T) {
		r := rested(t)
		r.pass(r.s.cfg.Rest)
		r.skip()
		r.breakLock()
		r.step(Missed{})
		r.step(Vacate{})
		r.want("AskBreak "+itoa(r.calls), "Doubted")
	})
	t.Run("but not for a hold that has ended", func(t *testing.T) {
		r := rested(t)
		r.breakHold(1)
		r.want("Unlocked " + itoa(r.calls) + ": not held")
	})
}

// A request of this agent that uses the name as another kind of lock ends a rest.
func TestVacateEndsARest(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared} {
		r := restedIn(t, mode)
		r.skip()
		r.step(Vacate{})
		r.want("Contested", "Returning")
	}
}

// A request that does not wait goes on for a moment when it meets a tenure that may rest in another agent.
func TestTryMeetsARest(t *testing.T) {
	meet := func(t *testing.T) *rig {
		r := restRig(t)
		r.try("ann")
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: time.Second, HolderRests: true}, nil)
		r.want("FoundBusy")
		return r
	}
	t.Run("and gets the lock", func(t *testing.T) {
		r := meet(t)
		if !r.s.Listening() {
			t.Error("no subscription to wake-ups")
		}
		r.pass(time.Millisecond)
		r.step(Woken{})
		r.want("Woke", "Attempted 30s")
		r.grant()
		r.want("Began", "Granted ann 101")
	})
	t.Run("and is refused when somebody holds the lock", func(t *testing.T) {
		r := meet(t)
		r.alarmIn(recallTime, recallTime)
		r.pass(recallTime)
		r.want("Attempted 30s")
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: 28 * time.Second, HolderRests: true}, nil)
		r.want("FoundBusy", "Answered ann: held by other:7 for 28s", "Forgot")
	})
	t.Run("and is refused at once by a holder that cannot rest", func(t *testing.T) {
		r := meet(t)
		r.step(Woken{})
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "third:1", Remaining: time.Second}, nil)
		r.want("FoundBusy", "Answered ann: held by third:1 for 1s", "Forgot")
	})
	t.Run("and goes on as long when another holder may rest", func(t *testing.T) {
		r := meet(t)
		r.pass(15 * time.Millisecond)
		r.step(Woken{})
		r.acquireReplied(lockagent.AcquireReply{Holder: "third:1", Remaining: time.Second, HolderRests: true}, nil)
		r.alarmIn(recallTime, recallTime)
	})
	t.Run("and does not sleep because another request of its agent does", func(t *testing.T) {
		r := restRig(t)
		r.acquire("bob")
		r.acquireReplied(
			lockagent.AcquireReply{Holder: "other:7", Remaining: 30 * time.Second, Queued: true, HolderRests: true}, nil,
		)
		r.pass(time.Millisecond)
		r.try("ann")
		r.alarmIn(recallTime-time.Millisecond, recallTime-time.Millisecond)
		r.cancel("ann")
		r.alarmIn(time.Second, queuedSleep+queuedSleep/100)
	})
	t.Run("and does not contend afterwards", func(t *testing.T) {
		r := meet(t)
		r.step(Woken{})
		r.grant()
		r.release("ann")
		r.returned(0)
		if r.s.Listening() {
			t.Error("there is still a subscription")
		}
	})
	t.Run("and does not yield", func(t *testing.T) {
		r := restRig(t)
		r.acquire("bob")
		r.grant()
		r.release("bob")
		r.returned(1) // others were woken, so this agent keeps away for a second
		r.try("ann")
		r.acquireReplied(lockagent.AcquireReply{Holder: "other:7", Remaining: time.Second, HolderRests: true}, nil)
		r.skip()
		r.step(Woken{})
		r.want("Woke", "Attempted 2s")
	})
}
