package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestRelease(t *testing.T) {
	t.Run("by the owner gives up the youngest grant", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		outer := r.ids["ann+"]
		r.acquire("ann+")
		r.skip()
		r.releaseOwner("ann+")
		r.want("Ended ann+, 1 left", "Unlocked 1")
		if got := r.last(Ended).Request.ID; got == outer {
			t.Error("the oldest grant was given up")
		}
	})
	t.Run("of a hold that counts as lost is that loss", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.calls++
		r.step(Release{ID: r.ids["ann"], Call: r.calls, Lost: lockagent.LostDeadline})
		r.want("Ended ann: deadline", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1")
	})
	t.Run("tells the owner if the tenure was over before", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.returnedLate()
		r.want("Returned, over before", "Unlocked 1: denied")
	})
	t.Run("by the owner leaves alone what the owner has not received", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		outer := r.ids["ann+"]
		r.acquire("ann+")
		inner := r.ids["ann+"]
		r.skip()
		r.releaseOwner("ann+", inner)
		r.want("Ended ann+, 1 left", "Unlocked 1")
		if got := r.last(Ended).Request.ID; got != outer {
			t.Error("a grant was given up that was not received")
		}
		r.releaseOwner("ann+", inner)
		r.want("Unlocked 2: not held")
	})
	t.Run("by a stranger is refused", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.releaseOwner("bob")
		r.want("Unlocked 1: not owner")
	})
	t.Run("of a request that still waits is refused", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.release("bob")
		r.want("Unlocked 1: not held")
	})
	t.Run("of what nobody holds is refused", func(t *testing.T) {
		r := newRig(t)
		r.releaseOwner("ann")
		r.step(Release{ID: 99, Call: 2})
		r.want("Unlocked 1: not held", "Unlocked 2: not held")
	})
	t.Run("twice before the store has answered is refused the second time", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.release("ann")
		r.want("Ended ann", "Returning", "Unlocked 2: not held")
		r.returned(0)
		r.want("Returned", "Unlocked 1")
	})
}

func TestReleaseTells(t *testing.T) {
	t.Run("that there was no hold", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.cancel("ann")
		r.granted()
		if got := r.last(Returning).Floor; got != 0 {
			t.Errorf("tells %d, want none", got)
		}
	})
	t.Run("whether an attempt was not answered", func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			r := newRig(t)
			r.acquire("ann")
			if lost {
				r.attemptFails(errStore)
				r.pass(time.Second)
			}
			r.granted()
			r.release("ann")
			if got := r.last(Returning).Unanswered; got != lost {
				t.Errorf("tells %t, want %t", got, lost)
			}
		}
	})
}

// The store says that there was nothing to release. Was it released before, or lost?
func TestReleaseThatFindsNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  string
	}{
		{"after a call without an answer was the second", 28*time.Second - 1, "Returned"},
		{"was too late if the first call was sent at the deadline", 28 * time.Second, "Returned, over before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.hold("ann")
			r.passLate(tt.after)
			r.release("ann")
			r.returnFails(errStore)
			r.skip()
			r.pass(time.Second)
			r.returnedLate()
			r.want("Returning", tt.want)
		})
	}
}

func TestReleaseIsInTimeOneInstantBeforeTheDeadline(t *testing.T) {
	r := newRig(t)
	r.hold("ann")
	r.passLate(28*time.Second - 1)
	r.release("ann")
	r.want("Ended ann", "Returning")
}

// A process was suspended beyond the deadline of its hold. Whatever it is told first when it runs again, the hold was
// over by its own clock: an audit takes any other reason for a hold that outlived its lease.
func TestTheClockWasFirst(t *testing.T) {
	for name, tells := range map[string]func(r *rig) Command{
		"a message of a break": func(r *rig) Command {
			return Broken{Tenure: r.asked, At: storeTime(r.now), Operator: "olga"}
		},
		"a break":             func(*rig) Command { return Break{Call: 1, Operator: "olga"} },
		"a break of the hold": func(r *rig) Command { return Break{Call: 1, Token: r.last(Granted).Token, Operator: "olga"} },
		"a renewal that is denied": func(r *rig) Command {
			return RenewReplied{Tenure: r.asked, Reply: lockagent.RenewReply{At: storeTime(r.now)}}
		},
		"a grant of another tenure": func(r *rig) Command {
			return displaced{at: storeTime(r.now), until: storeTime(r.now)}
		},
		"the end of a session":     func(*rig) Command { return OwnerGone{Owner: "ann", Call: 1} },
		"a grant that nobody took": func(r *rig) Command { return Unclaimed{ID: r.last(Granted).Request.ID} },
		"a release": func(r *rig) Command {
			return Release{Call: 1, ID: r.last(Granted).Request.ID, Owner: "ann"}
		},
		"the time":                   func(*rig) Command { return Tick{} },
		"the end of all locks of it": func(*rig) Command { return Close{} },
		"a message that was lost":    func(*rig) Command { return Missed{} },
		"a reset of the store":       func(*rig) Command { return StoreReset{} },
		"a wish of another agent":    func(r *rig) Command { return Wanted{Tenure: r.asked} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.hold("ann")
			r.pass(10 * time.Second) // the renewal is under way
			r.passLate(20 * time.Second)
			r.step(tells(r))
			if e := r.last(Ended); e.Reason != lockagent.LostDeadline || e.Operator != "" {
				t.Errorf("it ended by %v, of operator %q", e.Reason, e.Operator)
			}
		})
	}
}

func TestReleaseThatTheStoreDoesNotConfirm(t *testing.T) {
	t.Run("is told as unconfirmed once, and tried again", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		tenure := r.asked
		r.release("ann")
		r.skip()
		r.returnFails(errStore)
		r.want("ReleaseFailed", "Unlocked 1: unconfirmed")
		r.alarmIn(500*time.Millisecond, time.Second)
		r.pass(time.Second)
		r.want("Returning")
		if r.asked != tenure {
			t.Errorf("returns tenure %d, want %d", r.asked, tenure)
		}
		r.returnFails(errStore)
		r.want("ReleaseFailed")
		r.alarmIn(time.Second, 2*time.Second)
		r.pass(2 * time.Second)
		r.returned(0)
		r.want("Returning", "Returned")
		r.idle(true)
	})
	t.Run("is left alone when the lease has run out", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(5 * time.Second)
		r.release("ann")
		r.skip()
		end := r.now.add(30 * time.Second)
		for r.now < end {
			r.returnFails(errStore)
			at, ok := r.s.Alarm()
			if !ok {
				t.Fatal("nothing is tried any more")
			}
			if at == end {
				r.skip()
			}
			r.pass(at.Sub(r.now))
		}
		r.want("Dropped")
		r.idle(true)
	})
	t.Run("is left alone when the longest lease that may be in the store has run out", func(t *testing.T) {
		// The first attempt and its renewal may have taken effect.
		for name, start := range map[string]func(r *rig){
			"of an attempt": func(r *rig) {
				r.acquireFixed("ann", time.Hour)
				r.acquire("bob")
				r.attemptFails(errStore)
				r.cancel("ann")
				r.pass(time.Second)
				r.attemptFails(errStore)
				r.cancel("bob")
			},
			"of an attempt before the one that was granted": func(r *rig) {
				r.acquireFixed("ann", time.Hour)
				r.acquire("bob")
				r.attemptFails(errStore)
				r.cancel("ann")
				r.pass(time.Second)
				r.granted()
				r.release("bob")
			},
			"of a renewal": func(r *rig) {
				r.hold("ann")
				r.acquireFixed("bob", time.Hour)
				r.release("ann")
				r.renewFails()
				r.release("bob")
			},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				start(r)
				for r.now < Instant(59*time.Minute) {
					if r.s.leaving.inFlight {
						r.returnFails(errStore)
					}
					r.skip()
					at, ok := r.s.Alarm()
					if !ok {
						t.Fatalf("given up at %v", time.Duration(r.now))
					}
					r.pass(at.Sub(r.now))
				}
				r.pass(2 * time.Minute)
			})
		}
	})
	t.Run("is left alone at once if that is definite", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.skip()
		r.returnFails(lockagent.ErrNotPermitted)
		r.want("Dropped", "Unlocked 1: not permitted")
		r.idle(true)
	})
	t.Run("makes the next request wait", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returnFails(errStore)
		r.skip()
		r.acquire("bob")
		r.want("Requested bob", "Queued bob")
		r.pass(time.Second)
		r.returned(0)
		r.want("Returning", "Returned", "Attempted 2s")
	})
}

func TestReplyToNothing(t *testing.T) {
	for name, c := range map[string]Command{
		"acquire": AcquireReplied{Tenure: 77, Reply: lockagent.AcquireReply{Granted: true, Token: 9}},
		"renew":   RenewReplied{Tenure: 77},
		"release": ReleaseReplied{Tenure: 77},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.step(c)
			r.want()
			r.acquire("ann")
			r.want("Requested ann", "Attempted 30s")
			r.step(c)
			r.want()
			r.busy(time.Minute)
			r.want("FoundBusy", "Queued ann")
			r.step(c)
			r.want()
			r.step(Woken{})
			r.want("Woke", "Attempted 30s")
			r.granted()
			r.want("Began", "Granted ann 101")
			r.step(c)
			r.want()
			r.pass(10 * time.Second)
			r.want("Renewing 30s")
			r.step(c)
			r.want()
			r.release("ann")
			r.want("Ended ann", "Returning")
			r.step(c)
			r.want()
		})
	}
}

func TestBreak(t *testing.T) {
	t.Run("ends every grant of the hold and is answered when the store has confirmed it", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.acquire("ann+")
		r.skip()
		r.breakLock()
		r.want("Ended ann+: broken, 1 left", "Ended ann+: broken", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1")
	})
	t.Run("of a lock that is not held here is for the store", func(t *testing.T) {
		r := newRig(t)
		r.breakLock()
		r.acquire("ann")
		r.breakLock()
		r.want("AskBreak 1", "Requested ann", "Attempted 30s", "AskBreak 2")
	})
}

func TestBreakOfOneHold(t *testing.T) {
	t.Run("ends every grant with the token, and hands the lock off", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+", "bob")
		r.acquire("ann+")
		r.skip()
		r.breakHold(101)
		r.want("Ended ann+: broken, 1 left", "Ended ann+: broken", "Granted bob 102 by hand-off", "Unlocked 1")
	})
	t.Run("ends no hold that was granted meanwhile", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.release("ann")
		r.skip()
		r.breakHold(101)
		r.want("Unlocked 2: not held")
	})
	t.Run("leaves the other readers alone", func(t *testing.T) {
		r := newRig(t)
		r.read("ann", "bob")
		r.granted()
		r.skip()
		r.breakHold(101)
		r.want("Ended ann: broken", "Unlocked 1")
		r.breakHold(101)
		r.want("Unlocked 2: not held")
	})
	t.Run("knows all tokens of a grant for several holds, and no others", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "ann", Holds: 3})
		r.granted()
		r.skip()
		r.breakHold(104)
		r.want("Unlocked 1: not held")
		r.breakHold(103)
		r.want("Ended ann: broken", "Returning")
	})
	t.Run("of a lock that is not held here changes nothing in the store", func(t *testing.T) {
		r := newRig(t)
		r.breakHold(101)
		r.want("Unlocked 1: not held")
	})
	t.Run("ends one permit", func(t *testing.T) {
		r := newPermitsRig(t)
		for i := range 2 {
			r.wants("ann", 1)
			r.granted(i+1, lockagent.Token(i+7))
		}
		r.seen = nil
		r.step(Break{Call: 1, Token: 7})
		r.want("Ended ann: broken", "Returning")
		r.seen = nil
		r.step(Break{Call: 2, Token: 9})
		r.want("Unlocked 2: not held")
	})
	t.Run("of a latch is of nothing", func(t *testing.T) {
		r := newLatchRig(t)
		r.expect(Break{Call: 9, Token: 101}, Unlocked)
	})
}

func TestOwnerGone(t *testing.T) {
	t.Run("ends what the owner holds and waits for", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+", "bob+", "ann", "cid+")
		r.acquire("ann+")
		r.skip()
		r.ownerGone("ann+")
		r.want("Ended ann+: sessionclosed, 1 left", "Ended ann+: sessionclosed", "Granted bob+ 102 by hand-off", "Unlocked 1")
	})
	t.Run("answers all its requests", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob+", "cid", "bob+")
		r.ownerGone("bob+")
		r.want("Answered bob+: session closed", "Answered bob+: session closed", "Unlocked 1")
	})
	t.Run("is answered when the store has confirmed the release", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.ownerGone("ann+")
		r.want("Ended ann+: sessionclosed", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1")
	})
	t.Run("is answered at once for a stranger", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.ownerGone("bob+")
		r.want("Unlocked 1")
	})
	t.Run("while the lock is asked for has it returned", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann+")
		r.skip()
		r.ownerGone("ann+")
		r.want("Answered ann+: session closed", "Unlocked 1")
		r.granted()
		r.want("Began", "Returning")
	})
}
