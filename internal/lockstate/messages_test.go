package lockstate

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestStandby(t *testing.T) {
	const remaining, late = 2 * time.Second, 101 * time.Millisecond
	asleep := func(t *testing.T) *rig {
		r := newRig(t)
		r.acquire("ann")
		r.queued(9 * time.Second)
		r.skip()
		return r
	}
	t.Run("looks again when the lease of the one in front is over", func(t *testing.T) {
		r := asleep(t)
		r.step(Standby{Tenure: r.asked, Remaining: remaining})
		r.want("Woke")
		r.alarmIn(remaining, remaining+late)
		r.pass(remaining + late)
		r.want("Attempted 30s")
	})
	t.Run("does not look later than it would have", func(t *testing.T) {
		r := asleep(t)
		r.pass(8 * time.Second)
		r.step(Standby{Tenure: r.asked, Remaining: remaining})
		r.want()
	})
	t.Run("asks again if it asks already", func(t *testing.T) {
		r := asleep(t)
		r.step(Woken{})
		r.step(Standby{Tenure: r.asked, Remaining: remaining})
		r.skip()
		r.queued(9 * time.Second)
		r.want("FoundBusy", "Attempted 30s")
	})
	t.Run("is nobody else", func(t *testing.T) {
		r := asleep(t)
		r.step(Standby{Tenure: r.asked - 1, Remaining: remaining})
		r.want()
		r.cancel("ann")
		r.skip()
		r.step(Standby{Tenure: r.asked, Remaining: remaining})
		r.want()
	})
}

func TestSleepWithAPlaceInTheQueue(t *testing.T) {
	r := newRig(t)
	r.acquire("ann")
	r.queued(time.Minute)
	r.alarmIn(queuedSleep, queuedSleep+101*time.Millisecond)
	r.step(Woken{})
	r.busy(time.Minute) // it has it no more
	r.alarmIn(unplacedSleep, unplacedSleep+101*time.Millisecond)
}

func TestSleepWithoutThePlaceThatWasAskedFor(t *testing.T) {
	r := newRig(t)
	r.acquire("ann")
	r.busy(time.Hour)
	r.alarmIn(time.Minute, time.Minute+101*time.Millisecond)
	r.step(Woken{})
	if !r.last(Attempted).Queue {
		t.Fatal("it did not ask for a place")
	}
	r.busy(time.Hour)
	r.alarmIn(unplacedSleep, unplacedSleep+101*time.Millisecond)
}

func TestAttemptAfterAnUnansweredOneAsksForAPlace(t *testing.T) {
	r := newRig(t)
	r.acquire("ann")
	r.attemptFails(errStore)
	r.pass(time.Second)
	if e := r.last(Attempted); !e.Queue || e.Now == 0 {
		t.Errorf("attempted %+v", e)
	}
}

// A call without an answer says nothing about what was in doubt before.
func TestDoubtOutlastsAnAttemptThatFails(t *testing.T) {
	for name, c := range map[string]func(*rig) Command{
		"broken": func(r *rig) Command { return Broken{Tenure: r.asked, At: storeTime(r.now)} },
		"missed": func(*rig) Command { return Missed{} },
		"reset":  func(*rig) Command { return StoreReset{} },
	} {
		for _, offered := range []bool{true, false} {
			t.Run(fmt.Sprint(name, offered), func(t *testing.T) {
				r := newRig(t)
				r.acquire("ann")
				r.queued(time.Minute)
				r.step(c(r))
				if offered {
					r.passed(r.now)
					r.skip()
					r.attemptFails(errStore)
					r.want("AttemptFailed", "Began", "Renewing 30s")
				} else {
					r.attemptFails(errStore)
					r.skip()
					r.passed(r.now)
					r.want("Began", "Renewing 30s")
				}
				r.renewed(true)
				r.want("Renewed", "Granted ann 101")
			})
		}
	}
	t.Run("but not one that is answered", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.step(Missed{})
		r.skip()
		r.granted()
		r.want("Began", "Granted ann 101")
	})
}

// What a failover brings back, and what was left alone.
func TestTenureThatNobodyHas(t *testing.T) {
	t.Run("is released when it is wanted", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Wanted{Tenure: 77})
		r.want("Disowning 77")
		if got := r.last(Disowning).Floor; got != 101 {
			t.Errorf("tells of token %d, want 101", got)
		}
		r.step(DisownReplied{Tenure: 77})
		r.want()
	})
	t.Run("is released when the lock is passed to it", func(t *testing.T) {
		r := newRig(t)
		r.step(Passed{Tenure: 77, Token: 101})
		r.want("Disowning 77")
	})
	t.Run("is released when it has a place, and its turn is next", func(t *testing.T) {
		r := newRig(t)
		r.step(Standby{Tenure: 77})
		r.want("Disowning 77")
	})
	t.Run("is released when it is in the way, and the lock asked for again", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "this:77", Remaining: time.Minute}, nil)
		r.want("FoundBusy", "Disowning 77", "Queued ann")
		r.step(DisownReplied{Tenure: 77, Reply: lockagent.ReleaseReply{Released: true}})
		r.want("Woke", "Attempted 30s")
	})
	t.Run("is not why a request that does not wait is refused", func(t *testing.T) {
		ghost := lockagent.AcquireReply{Holder: "this:77", Remaining: time.Minute}
		for _, c := range []struct {
			what   string
			answer DisownReplied
			again  lockagent.AcquireReply
			err    error
			want   []string
		}{
			{
				"the ghost ends",
				DisownReplied{Reply: lockagent.ReleaseReply{Released: true}},
				lockagent.AcquireReply{Granted: true, Token: 101},
				nil,
				[]string{"Began", "Granted ann 101"},
			},
			{
				"the ghost has ended meanwhile",
				DisownReplied{},
				lockagent.AcquireReply{Holder: "other:7", Remaining: 7 * time.Second},
				nil,
				[]string{"FoundBusy", "Answered ann: held by other:7 for 7s", "Forgot"},
			},
			{
				"another ghost is behind",
				DisownReplied{Reply: lockagent.ReleaseReply{Released: true}},
				lockagent.AcquireReply{Holder: "this:78", Remaining: time.Minute},
				nil,
				[]string{"FoundBusy", "Disowning 78"},
			},
			{
				"the store cannot end the ghost",
				DisownReplied{Err: errStore},
				ghost,
				nil,
				[]string{"FoundBusy", "Disowning 77", "Answered ann: held by this:77 for 1m0s", "Forgot"},
			},
			{
				"the store does not answer any more",
				DisownReplied{Err: errStore},
				lockagent.AcquireReply{},
				errStore,
				[]string{"AttemptFailed", "Answered ann: unavailable", "Withdrawing"},
			},
		} {
			t.Run(c.what, func(t *testing.T) {
				r := newRig(t)
				r.try("ann")
				r.skip()
				r.acquireReplied(ghost, nil)
				r.want("FoundBusy", "Disowning 77")
				c.answer.Tenure = 77
				r.step(c.answer)
				r.want("Woke", "Attempted 30s")
				r.acquireReplied(c.again, c.err)
				r.want(c.want...)
			})
		}
	})
	t.Run("does not keep a later request that does not wait", func(t *testing.T) {
		ghost := lockagent.AcquireReply{Holder: "this:77", Remaining: time.Minute}
		r := newRig(t)
		r.acquire("ann")
		r.acquireReplied(ghost, nil)
		r.skip()
		r.try("bob")
		r.want("Requested bob") // bob goes on until the store has answered about the ghost
		r.step(DisownReplied{Tenure: 77, Err: errStore})
		r.want("Woke", "Attempted 30s")
		r.acquireReplied(ghost, nil)
		r.want("FoundBusy", "Disowning 77", "Answered bob: held by this:77 for 1m0s")
		r.step(DisownReplied{Tenure: 77, Reply: lockagent.ReleaseReply{Released: true}})
		r.want("Woke", "Attempted 30s")
	})
	t.Run("is looked at again after a pause if it could not be released", func(t *testing.T) {
		for _, c := range []DisownReplied{{Tenure: 77}, {Tenure: 77, Err: errStore}} {
			r := newRig(t)
			r.acquire("ann")
			r.acquireReplied(lockagent.AcquireReply{Holder: "this:77", Remaining: time.Minute}, nil)
			r.skip()
			r.step(c)
			r.want("Woke")
			r.alarmIn(500*time.Millisecond, time.Second)
		}
	})
	t.Run("is not one that is had, asked for or returned", func(t *testing.T) {
		r := newRig(t)
		wanted := func(events ...string) {
			t.Helper()
			r.skip()
			r.step(Wanted{Tenure: r.asked})
			r.want(events...)
		}
		r.acquire("ann")
		wanted("Contested")
		r.queued(time.Minute)
		r.passed(r.now)
		wanted() // it is known
		r.release("ann")
		wanted()
		r.returned(0)
		r.skip()
		r.step(Wanted{Tenure: r.asked}) // it is late
		r.want("Disowning 1")
	})
	t.Run("is left alone by a lock that was closed or detached", func(t *testing.T) {
		for _, end := range []Command{Close{}, Detach{}} {
			r := newRig(t)
			r.step(end)
			r.skip()
			r.step(Wanted{Tenure: 77})
			r.step(Passed{Tenure: 77, Token: 101})
			r.want()
		}
		r := newRig(t)
		r.acquire("ann")
		r.step(Close{})
		r.skip()
		r.acquireReplied(lockagent.AcquireReply{Holder: "this:77", Remaining: time.Minute}, nil)
		r.want("FoundBusy", "Forgot", "Quieted")
	})
	t.Run("is not one that waits, which was passed the lock without hearing of it", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.step(Wanted{Tenure: r.asked})
		r.want("Woke", "Contested", "Attempted 30s")
	})
	t.Run("is not one of another program", func(t *testing.T) {
		for _, holder := range []string{"", "other:77", "this:", "this:077", "this", "f3a1:77:write"} {
			r := newRig(t)
			r.acquire("ann")
			r.skip()
			r.acquireReplied(lockagent.AcquireReply{Holder: holder, Remaining: time.Minute}, nil)
			r.want("FoundBusy", "Queued ann")
		}
	})
}

func TestBroken(t *testing.T) {
	t.Run("ends every hold of the tenure at once", func(t *testing.T) {
		for _, lease := range []time.Duration{0, time.Hour} {
			r := newRig(t)
			r.request(Request{Owner: "ann+", Lease: lease})
			r.granted()
			r.request(Request{Owner: "ann+", Lease: lease})
			r.pass(time.Second)
			r.skip()
			r.step(Broken{Tenure: r.asked, At: storeTime(r.now)})
			r.want("Ended ann+: broken, 1 left", "Ended ann+: broken", "Denied")
			if e := r.last(Denied); e.Reason != lockagent.LostBroken || e.StoreTime != storeTime(r.now) || !e.Served {
				t.Errorf("tells %+v", e)
			}
			r.idle(true)
		}
	})
	t.Run("leaves the lock to whoever waits", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now) + 1})
		r.want("Ended ann: broken", "Denied", "Attempted 30s")
	})
	t.Run("is of no use to another tenure, or to none", func(t *testing.T) {
		r := newRig(t)
		r.step(Broken{})
		r.hold("ann")
		r.step(Broken{Tenure: r.asked + 1, At: storeTime(r.now)})
		r.want()
	})
	t.Run("is of no use if the tenure was confirmed since", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now) - 1})
		r.want()
	})
	t.Run("has the tenure withdrawn if it may have begun once more", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now)})
		r.want("Ended ann: broken", "Denied", "Withdrawing")
	})
	t.Run("has the answer to an attempt checked", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.skip()
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now)})
		r.granted()
		r.want("Doubted", "Began", "Renewing 30s")
	})
	t.Run("has the store asked if the pass is on its way", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now)})
		r.want("Doubted", "Attempted 30s")
	})
	t.Run("changes nothing for a tenure that is returned", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now) + 1})
		r.want()
	})
}

func TestMissedMessages(t *testing.T) {
	t.Run("may have told that the tenure is over, also one with a fixed lease", func(t *testing.T) {
		for _, lease := range []time.Duration{0, 20 * time.Second} {
			r := newRig(t)
			r.request(Request{Owner: "ann", Lease: lease})
			r.granted()
			r.skip()
			r.step(Missed{})
			if r.last(Doubted).Now != r.now || r.last(Renewing).Now != r.now {
				t.Error("the tenure is not checked")
			}
			r.skip()
			r.renewed(false)
			r.want("Ended ann: denied", "Denied")
		}
	})
	t.Run("may have passed the lock", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.queued(time.Minute)
		r.skip()
		r.step(Missed{})
		r.want("Doubted", "Attempted 30s")
		r.step(Missed{})
		r.queued(time.Minute) // this answer may be older
		r.want("Doubted", "FoundBusy", "Attempted 30s")
	})
	t.Run("mean nothing to a lock that is free", func(t *testing.T) {
		r := newRig(t)
		r.step(Missed{})
		r.want()
	})
}
