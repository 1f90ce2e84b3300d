package actor

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// told returns the events that tell of holds which go on, and how often each owner has one.
func (w *witness) told() (all []lockagent.Event, times map[lockagent.Owner]int) {
	times = make(map[lockagent.Owner]int)
	for _, e := range w.of(lockagent.EventHolding) {
		times[e.Owner]++
		all = append(all, e)
	}
	return all, times
}

// Every ten minutes the log is told of each hold that goes on, of whatever kind, and nothing of one that is over.
func TestHoldsThatLastAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, store, w := time.Now(), memstore.New(), &witness{}
		a := start(t, Config{Store: store, Recorder: w})
		set := lockagent.PermitsRequest{Name: "seats", Kind: lockagent.Semaphore, Op: lockagent.TrySetPermits, N: 3}
		if r := <-a.Permits(background, set); r.Err != nil {
			t.Fatal(r.Err)
		}
		time.Sleep(7 * time.Second)
		short := granted(t, a.Acquire(background, "door", who("short")))
		kept := granted(t, a.Acquire(background, "gate", who("kept")))
		grants := []lockagent.Grant{ // whoever drops a grant gives it back
			granted(t, a.Acquire(background, "vault", Request{Owner: "fixed", Lease: 24 * time.Hour})),
			granted(t, a.Acquire(background, "hall", Request{Owner: "fair", Kind: lockagent.FairLock})),
			granted(t, a.Acquire(background, "seats", Request{Owner: "permits", Kind: lockagent.Semaphore, Permits: 2})),
		}
		read := Request{Owner: "reads", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
		grants = append(grants, granted(t, a.Acquire(background, "book", read)))
		time.Sleep(4 * time.Minute)
		released(t, short)
		read.Owner = "reads later"
		grants = append(grants, granted(t, a.Acquire(background, "book", read)))
		time.Sleep(31 * time.Minute)

		all, times := w.told()
		want := map[lockagent.Owner]int{"kept": 3, "fixed": 3, "fair": 3, "permits": 3, "reads": 3, "reads later": 3}
		if fmt.Sprint(times) != fmt.Sprint(want) {
			t.Errorf("told %v times, want %v", times, want)
		}
		begun := make(map[lockagent.Owner]lockagent.Event)
		for _, e := range w.of(lockagent.EventGranted) {
			begun[e.Owner] = e
		}
		seen := make(map[lockagent.Owner]time.Duration)
		for _, e := range all {
			if gap := e.Held - seen[e.Owner]; gap <= 0 || gap > tellEvery+longestSleep {
				t.Errorf("%s: told after %v, and then after %v", e.Owner, seen[e.Owner], e.Held)
			}
			seen[e.Owner] = e.Held
			if !e.Time.Equal(begun[e.Owner].Time.Add(e.Held)) {
				t.Errorf("%s: told at %v that it is held for %v", e.Owner, e.Time, e.Held)
			}
			now := storeNow(begin).Add(-time.Since(e.Time))
			trusted := 10*time.Second + time.Millisecond // kept leases are renewed every ten seconds
			if e.Fixed {
				trusted = time.Hour
			}
			if e.Confirmed < e.StoreTime || e.Confirmed > now || e.Confirmed < now.Add(-trusted) {
				t.Errorf("%s: confirmed at %d, and it is %d", e.Owner, e.Confirmed, now)
			}
			same := begun[e.Owner]
			if e.Owner == "reads later" {
				same.How = 0 // the token does not tell how the hold came about
			}
			same.Kind, same.Time, same.Waited, same.Held, same.Confirmed = e.Kind, e.Time, e.Waited, e.Held, e.Confirmed
			if e != same {
				t.Errorf("%s: told\n%+v\nwant, as when it was granted,\n%+v", e.Owner, e, same)
			}
		}
		released(t, kept)
		time.Sleep(time.Hour) // the lock rests for a moment, and then goes back
		if _, times := w.told(); times["kept"] != 3 || times["fixed"] != 9 {
			t.Errorf("told %v times when one hold was over for an hour", times)
		}
		runtime.KeepAlive(grants)
	})
}

// All grants of a session are one hold. It is exclusive as long as one grant is.
func TestASessionIsToldAsOneHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{Store: store, Recorder: w})
		ask := Request{Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Exclusive, Session: true}
		write := granted(t, a.Acquire(background, "book", ask))
		time.Sleep(time.Minute)
		ask.Mode, ask.Lease = lockagent.Shared, 24*time.Hour
		granted(t, a.Acquire(background, "book", ask))
		time.Sleep(10 * time.Minute)
		released(t, write)
		time.Sleep(10 * time.Minute)
		grant := w.of(lockagent.EventGranted)[0]
		all, _ := w.told()
		if len(all) != 2 {
			t.Fatalf("told %+v", all)
		}
		for i, want := range []struct {
			mode  lockagent.Mode
			count int
			fixed bool
		}{{lockagent.Exclusive, 2, false}, {lockagent.Shared, 1, true}} {
			e := all[i]
			if e.Mode != want.mode || e.Count != want.count || e.Fixed != want.fixed || e.Token != grant.Token ||
				e.StoreTime != grant.StoreTime {
				t.Errorf("told %+v, want %+v of\n%+v", e, want, grant)
			}
		}
	})
}

// Whoever is granted the lock again and gives back the oldest grant in turn has one hold all the time.
func TestAHoldWhoseGrantsChangeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Store: memstore.New(), Recorder: w})
		ask := Request{Owner: "ann", Session: true}
		g := granted(t, a.Acquire(background, "gate", ask))
		for range 35 {
			time.Sleep(time.Minute)
			next := granted(t, a.Acquire(background, "gate", ask))
			released(t, g)
			g = next
		}
		if all, _ := w.told(); len(all) != 3 {
			t.Errorf("told %+v", all)
		}
		released(t, g)
	})
}

// A process that goes on with the holds of another one tells of them at its first tick, and then as often as any.
func TestResumedHoldsAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := leaving(t, Config{Store: store.Share(), Recorder: w})
		granted(t, a.Acquire(background, "gate", who("kept")))
		granted(t, a.Acquire(background, "vault", Request{Owner: "fixed", Lease: 24 * time.Hour}))
		time.Sleep(16 * time.Minute)
		n, sum := uint64(0), w.of(lockagent.EventGranted)
		for _, e := range sum {
			n += lockagent.HoldSum(e.Lock, e.Tenure, e.Token)
		}
		before, _ := w.told()

		later := &witness{}
		next := resuming(t, Config{Store: store, Recorder: later}, detached(t, a))
		claimed(t, next, "gate")
		claimed(t, next, "vault")
		if e := later.of(lockagent.EventAgentStarted)[0]; e.Count != 2 || e.Sum != n {
			t.Errorf("it goes on with %d holds of the sum %x, want 2 of %x", e.Count, e.Sum, n)
		}
		time.Sleep(longestSleep + time.Second)
		all, _ := later.told()
		if len(before) != 2 || len(all) != 2 {
			t.Fatalf("told %+v, and then %+v", before, all)
		}
		for _, e := range all {
			for _, was := range before {
				if was.Owner != e.Owner {
					continue
				}
				was.Time, was.Held, was.Confirmed, was.Lease = e.Time, e.Held, e.Confirmed, e.Lease
				if e != was {
					t.Errorf("told\n%+v\nwant, as before,\n%+v", e, was)
				}
			}
		}
	})
}

// deafRecorder wants nothing.
type deafRecorder struct{ *witness }

func (deafRecorder) Enabled(context.Context) bool { return false }

// Nobody makes an event for a recorder that wants none.
func TestHoldsAreNotToldToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		a := start(t, Config{Store: memstore.New(), Recorder: deafRecorder{w}})
		kept := granted(t, a.Acquire(background, "gate", who("kept")))
		time.Sleep(time.Hour)
		if all, _ := w.told(); len(all) > 0 {
			t.Errorf("told %+v", all)
		}
		runtime.KeepAlive(kept)
	})
}
