package lockstate

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// read asks for shared grants.
func (r *rig) read(owners ...lockagent.Owner) {
	r.t.Helper()
	for _, o := range owners {
		r.request(Request{Owner: o, Mode: Shared})
	}
}

func TestReadersShareATenure(t *testing.T) {
	t.Run("each under a token of its own", func(t *testing.T) {
		r := newRig(t)
		r.read("ann", "bob")
		r.want("Requested ann", "Attempted 30s", "Requested bob", "Queued bob")
		if got := r.last(Attempted).Request.Mode; got != Shared {
			t.Errorf("asks in mode %d", got)
		}
		r.granted()
		r.want("Began", "Granted ann 101", "Granted bob 102 by hand-off")
		r.read("cid")
		r.want("Requested cid", "Granted cid 103 by hand-off")
	})
	t.Run("without any bound while nobody waits", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.HandOffTime = time.Second })
		r.read("ann")
		r.granted()
		for range 6 {
			r.pass(10 * time.Second)
			r.renewed(true)
		}
		r.skip()
		r.read("bob", "cid", "dan", "eve")
		r.want(
			"Requested bob", "Granted bob 102 by hand-off", "Requested cid", "Granted cid 103 by hand-off",
			"Requested dan", "Granted dan 104 by hand-off", "Requested eve", "Granted eve 105 by hand-off")
	})
	t.Run("until the last has gone", func(t *testing.T) {
		r := newRig(t)
		r.read("ann", "bob")
		r.granted()
		r.skip()
		r.release("ann")
		r.want("Ended ann", "Unlocked 1")
		r.release("bob")
		r.want("Ended bob", "Returning")
		if got := r.last(Returning).Floor; got != 102 {
			t.Errorf("tells of token %d, want 102", got)
		}
		r.returned(0)
		r.want("Returned", "Unlocked 2")
	})
	t.Run("and the store breaks it, for other agents may share the lock", func(t *testing.T) {
		r := newRig(t)
		r.read("ann", "bob")
		r.granted()
		r.skip()
		r.breakLock()
		r.want("AskBreak 1")
	})
	t.Run("and lose it together", func(t *testing.T) {
		r := newRig(t)
		r.read("ann", "bob")
		r.granted()
		r.skip()
		r.step(Broken{Tenure: r.asked, At: storeTime(r.now) + 1})
		r.want("Ended bob: broken", "Ended ann: broken", "Denied")
	})
	t.Run("which one gone session leaves to the others", func(t *testing.T) {
		r := newRig(t)
		r.read("ann+", "bob+", "ann+")
		r.granted()
		r.skip()
		r.ownerGone("ann+")
		r.want("Ended ann+: sessionclosed, 1 left", "Ended ann+: sessionclosed", "Unlocked 1")
	})
	t.Run("but not with a writer", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.read("bob")
		r.want("Requested bob", "Queued bob")
		r.release("ann")
		r.want("Ended ann", "Granted bob 102 by hand-off", "Unlocked 1", "Renewing 30s shared")
	})
	t.Run("which is checked after a reset before anybody joins", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.granted()
		r.step(StoreReset{})
		r.skip()
		r.read("bob")
		r.want("Requested bob", "Queued bob")
		r.renewed(true)
		r.want("Renewed", "Granted bob 102 by hand-off")
	})
}

func TestReaderWhoWouldNotWait(t *testing.T) {
	r := newRig(t)
	r.read("ann")
	r.granted()
	r.skip()
	try := Request{Owner: "bob", Mode: Shared, Try: true}
	r.request(try)
	r.want("Requested bob", "Granted bob 102 by hand-off")
	r.acquire("cid")
	r.skip()
	try.Owner = "dan"
	r.request(try)
	r.want("Requested dan", "Answered dan: held by ann for 28s")
}

// A tenure keeps its mode. A request of another mode gets a tenure with another number.
func TestTenureHasOneMode(t *testing.T) {
	t.Run("a reader may be served where a writer was asked for", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.read("bob")
		r.cancel("ann")
		r.skip()
		r.granted()
		r.want("Began", "Granted bob 101", "Renewing 30s shared")
	})
	t.Run("but not the other way round", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.acquire("bob")
		r.cancel("ann")
		r.skip()
		r.granted()
		r.want("Began", "Returning")
		r.returned(0)
		r.want("Returned", "Attempted 30s")
	})
	t.Run("one that was not begun is forgotten", func(t *testing.T) {
		r := newRig(t)
		r.read("ann")
		r.acquire("bob")
		first := r.asked
		r.busy(time.Minute)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Forgot", "Attempted 30s")
		if r.asked == first {
			t.Error("the number of a shared tenure is used for an exclusive one")
		}
	})
	t.Run("one that may have begun is withdrawn", func(t *testing.T) {
		for _, answer := range []func(*rig){
			func(r *rig) { r.attemptFails(errStore) },
			func(r *rig) { r.queued(time.Minute) },
		} {
			r := newRig(t)
			r.read("ann")
			r.acquire("bob")
			answer(r)
			r.skip()
			r.cancel("ann")
			r.want("Answered ann: timeout", "Withdrawing")
			r.returnedLate()
			r.want("Withdrawn", "Attempted 30s")
		}
	})
}

func TestReadersThatJoinDoNotKeepAWriterOut(t *testing.T) {
	short := func(c *Config) { c.HandOffTime, c.HandOffGrants = 5*time.Second, 60 }
	reading := func(t *testing.T, outsiders int) *rig {
		r := newRig(t, short)
		r.read("ann")
		r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now), Outsiders: outsiders}, nil)
		r.skip()
		return r
	}
	t.Run("who waits in the same agent", func(t *testing.T) {
		r := reading(t, 0)
		r.acquire("bob")
		r.read("cid")
		r.want("Requested bob", "Queued bob", "Requested cid", "Queued cid")
		r.release("ann")
		r.want("Ended ann", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1", "Attempted 2s")
		if got := r.last(Attempted).Request.Mode; got != Exclusive {
			t.Errorf("asks in mode %d", got)
		}
	})
	t.Run("who waits in another agent", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Wanted{Tenure: r.asked})
		r.want("Contested")
		r.step(Wanted{Tenure: r.asked})
		r.want()
		r.read("bob") // within the budget of the tenure
		r.want("Requested bob", "Granted bob 102 by hand-off")
		r.pass(5 * time.Second)
		r.read("cid")
		r.want("Requested cid", "Queued cid", "Renewing 30s shared")
		r.wanted()
		r.want("Renewed")
		r.pass(longestUnaware - 1)
		r.want()
		r.pass(1)
		r.want("Renewing 30s shared")
		r.cancel("cid") // nobody is kept out any more
		r.wanted()
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("who gives up while readers are kept out", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Wanted{Tenure: r.asked})
		r.pass(5 * time.Second)
		r.read("bob")
		r.skip()
		r.renewed(true)
		r.want("Renewed", "Granted bob 102 by hand-off")
	})
	t.Run("who comes while the store is asked about another one", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Wanted{Tenure: r.asked})
		r.pass(5 * time.Second)
		r.read("bob")
		r.skip()
		r.step(Wanted{Tenure: r.asked}) // the answer may be older
		r.step(Wanted{Tenure: r.asked})
		r.renewed(true)
		r.want("Contested", "Renewed")
		r.pass(longestUnaware)
		r.renewed(true)
		r.want("Renewing 30s shared", "Renewed", "Granted bob 102 by hand-off")
	})
	t.Run("unless a writer of the agent waits, too", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Wanted{Tenure: r.asked})
		r.acquire("bob")
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("who may have said so when nobody listened", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Missed{})
		r.want("Contested", "Doubted", "Renewing 30s shared")
		r.wanted()
		r.pass(5 * time.Second)
		r.skip()
		r.read("bob")
		r.want("Requested bob", "Queued bob", "Renewing 30s shared")
	})
	t.Run("who has given up", func(t *testing.T) {
		r := reading(t, 0)
		r.step(Wanted{Tenure: r.asked})
		r.pass(10 * time.Second)
		r.skip()
		r.renewed(true)
		r.read("bob")
		r.want("Renewed", "Requested bob", "Granted bob 102 by hand-off")
	})
	t.Run("who said so before the answer came", func(t *testing.T) {
		r := newRig(t, short)
		r.read("ann")
		r.step(Wanted{Tenure: r.asked})
		r.granted()
		r.pass(5 * time.Second)
		r.skip()
		r.read("bob")
		r.want("Requested bob", "Queued bob", "Renewing 30s shared")
	})
	t.Run("who waited when the tenure began", func(t *testing.T) {
		r := newRig(t, short)
		r.read("ann")
		r.acquireReplied(lockagent.AcquireReply{Granted: true, Token: 101, At: storeTime(r.now), Contested: true}, nil)
		r.pass(5 * time.Second)
		r.skip()
		r.read("bob")
		r.want("Requested bob", "Queued bob", "Renewing 30s shared")
	})
	t.Run("who is an outsider", func(t *testing.T) {
		r := reading(t, 1)
		r.pass(time.Second/2 - 1)
		r.read("bob")
		r.want("Requested bob", "Granted bob 102 by hand-off")
		r.pass(1)
		r.read("cid")
		r.want("Requested cid", "Queued cid", "Renewing 30s shared")
	})
	t.Run("who is an outsider, and came later", func(t *testing.T) {
		r := reading(t, 0)
		r.pass(5 * time.Second)
		r.read("bob")
		r.want("Requested bob", "Granted bob 102 by hand-off", "Renewing 30s shared")
		r.wanted()
		r.read("cid")
		r.want("Renewed", "Requested cid", "Queued cid")
	})
	t.Run("who is an outsider, and has gone", func(t *testing.T) {
		r := reading(t, 1)
		r.pass(10 * time.Second)
		r.skip()
		r.renewed(true)
		r.read("bob")
		r.want("Renewed", "Requested bob", "Granted bob 102 by hand-off")
	})
}

// While readers join a shared tenure, the agent asks the store now and then whether outsiders wait.
func TestReadersThatJoinHaveTheStoreAsked(t *testing.T) {
	reading := func(t *testing.T, joins ...lockagent.Owner) *rig {
		r := newRig(t)
		r.read("ann")
		r.granted()
		r.read(joins...)
		r.skip()
		return r
	}
	t.Run("but not for one reader", func(t *testing.T) {
		r := reading(t)
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("once, if nobody joins after that", func(t *testing.T) {
		r := reading(t, "bob")
		r.pass(longestUnaware - 1)
		r.want()
		r.pass(1)
		r.want("Renewing 30s shared")
		r.renewed(true)
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("at the same distance from each answer", func(t *testing.T) {
		r := reading(t, "bob")
		r.pass(longestUnaware)
		r.pass(5 * time.Second)
		r.read("cid") // whom the answer under way may not know of
		r.renewed(true)
		r.skip()
		r.pass(longestUnaware - 1)
		r.want()
		r.pass(1)
		r.want("Renewing 30s shared")
	})
	t.Run("unless it is known that somebody waits", func(t *testing.T) {
		r := reading(t, "bob")
		r.step(Wanted{Tenure: r.asked})
		r.alarmIn(10*time.Second, 10*time.Second)
	})
	t.Run("with the lease that they need", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "ann", Mode: Shared, Lease: time.Hour})
		r.granted()
		r.pass(time.Minute)
		r.skip()
		r.request(Request{Owner: "bob", Mode: Shared, Lease: time.Minute})
		r.want("Requested bob", "Granted bob 102 by hand-off until 1m58s", "Renewing 59m0s shared")
	})
	t.Run("again after a pause if it does not answer", func(t *testing.T) {
		r := reading(t, "bob")
		r.pass(longestUnaware)
		r.renewFails()
		r.alarmIn(500*time.Millisecond, time.Second)
	})
	t.Run("only if the tenure is shared", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "bob")
		r.release("ann")
		r.alarmIn(10*time.Second, 10*time.Second)
	})
}

// Readers on one agent come and go so that some of them always hold the lock.
func TestReadersThatNeverStopLetAWriterIn(t *testing.T) {
	for name, wait := range map[string]action{
		"of the same agent":  {kind: doAsk, a: 2},
		"of another agent":   {kind: doAsk, a: 3},
		"of another program": {kind: doOutsider},
	} {
		t.Run(name, func(t *testing.T) {
			leases := make([]time.Duration, 50)
			w := newWorld([]person{
				{"ann", 0, Shared, false, false, leases},
				{"bob", 0, Shared, false, false, leases},
				{"cid", 0, Exclusive, false, false, kept},
				{"dan", 1, Exclusive, false, false, kept},
			}, chances{order: 1000, outside: 1}, nil)
			freed := false
			w.log = func(line string) { freed = freed || strings.Contains(line, "Returned") }
			settle := func() {
				for d, ok := w.errand(); ok; d, ok = w.errand() {
					w.do(d)
				}
			}
			release := func(o lockagent.Owner) {
				for i := range w.agents[0].ledger.grants {
					if w.agents[0].ledger.grants[i].Owner == o {
						w.do(action{kind: doRelease, b: uint8(i)})
						break
					}
				}
				settle()
			}
			ask := func(p int) {
				if w.mayAsk(p) {
					w.do(action{kind: doAsk, a: uint8(p)})
				}
				settle()
			}
			ask(0)
			w.do(wait)
			settle()
			for range 20 {
				ask(1)
				release("ann")
				w.now = w.now.add(5 * tick)
				ask(0)
				release("bob")
				w.now = w.now.add(5 * tick)
				for i := range w.agents {
					w.tell(i, Tick{})
				}
				settle()
				if w.problem != "" {
					t.Fatal(w.problem)
				}
			}
			if served := w.last.exclusive > 0 || wait.kind == doOutsider && freed; !served {
				t.Error("the writer never had its turn")
			}
		})
	}
}

func TestReentryOfReaders(t *testing.T) {
	t.Run("is under the token of the owner, past a writer who waits", func(t *testing.T) {
		r := newRig(t)
		r.read("ann+", "bob+")
		r.granted()
		r.acquire("cid")
		r.skip()
		r.read("ann+")
		r.want("Requested ann+", "Reentered ann+ 101 x2")
		r.read("bob+")
		r.want("Requested bob+", "Reentered bob+ 102 x2")
		r.read("dan+")
		r.want("Requested dan+", "Queued dan+")
	})
	t.Run("lets a writer read too, and go on reading beside others", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		writes := r.ids["ann+"]
		r.read("ann+")
		r.read("bob")
		r.want("Requested ann+", "Reentered ann+ 101 x2", "Requested bob", "Queued bob")
		r.step(Release{ID: writes, Call: 1})
		r.want("Ended ann+, 1 left", "Unlocked 1", "Granted bob 102 by hand-off", "Renewing 30s shared")
	})
}

// A reader may depend on the longest lease of the readers beside it, but not on the lease of a
// reader that has gone.
func TestReadersDoNotInheritALongLease(t *testing.T) {
	r := newRig(t)
	r.request(Request{Owner: "ann", Mode: Shared, Lease: time.Hour})
	r.granted()
	r.read("bob")
	r.skip()
	r.release("ann")
	r.read("cid")
	r.want("Ended ann", "Unlocked 1", "Requested cid", "Queued cid")
	r.release("bob")
	r.want("Ended bob", "Returning")
}

func TestReaderWithAShortLeaseJoinsOneWithALongLease(t *testing.T) {
	for _, lease := range []time.Duration{0, time.Hour} {
		r := newRig(t)
		r.request(Request{Owner: "ann", Mode: Shared, Lease: lease})
		r.granted()
		r.skip()
		r.request(Request{Owner: "bob", Mode: Shared, Lease: time.Second})
		r.want("Requested bob", "Granted bob 102 by hand-off until 900ms")
	}
}
