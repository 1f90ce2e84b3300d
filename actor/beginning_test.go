package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// beginner is agent A with a store that it shares with agent B.
type beginner struct {
	a, b *Agent
	tap  *tap // of A
	all  *witness
	kind lockagent.LockKind // of the lock
}

// beginnings are the ways in which a hold begins. Each function brings about that A grants the lock to a request.
var beginnings = []struct {
	name  string
	how   lockagent.How // of a grant without Outlive; 0 if the event of the grant has none
	begin func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant
}{
	{"of a free lock", lockagent.ByStore, func(_ *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		return w.a.Acquire(background, "door", req)
	}},
	{"by a pass of the store", lockagent.ByStore, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		before := granted(t, w.b.Acquire(background, "door", of("bob", req)))
		c := w.a.Acquire(background, "door", req)
		time.Sleep(time.Second)
		asked := w.tap.count("acquire")
		released(t, before)
		synctest.Wait()
		if w.tap.count("acquire") != asked {
			t.Error("the store was asked once more")
		}
		return c
	}},
	{"by a hand-off", lockagent.ByHandOff, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		before := granted(t, w.a.Acquire(background, "door", of("bob", req)))
		c := w.a.Acquire(background, "door", req)
		synctest.Wait()
		released(t, before)
		return c
	}},
	{"by a rest", lockagent.ByRest, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		usually(t, w.a, of("bob", req))
		return w.a.Acquire(background, "door", req)
	}},
	{"beside other readers", lockagent.ByHandOff, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		w.kind = lockagent.ReadWriteLock
		req.Kind, req.Mode = w.kind, lockagent.Shared
		before := granted(t, w.a.Acquire(background, "door", of("bob", req)))
		c := w.a.Acquire(background, "door", req)
		synctest.Wait()
		if req.Outlive { // Shutdown would wait for the other reader
			released(t, before)
		}
		return c
	}},
	{"by a re-entry", 0, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		req.Session = true
		first := req
		first.Lease, first.Outlive, first.Granted = time.Minute, false, nil
		granted(t, w.a.Acquire(background, "door", first))
		return w.a.Acquire(background, "door", req)
	}},
	{"in the next process", lockagent.ByStore, func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
		granted(t, w.a.Acquire(background, "door", req))
		next := resuming(t, Config{Store: w.tap, Recorder: w.all}, w.a.Detach())
		w.a = next
		c := make(chan lockagent.Grant, 1)
		c <- claimed(t, next, "door")
		return c
	}},
}

// of is the request of another owner, with a kept lease.
func of(owner lockagent.Owner, req Request) Request {
	return Request{Owner: owner, Kind: req.Kind, Mode: req.Mode}
}

// leasePromises are what a grant with a fixed lease promises, however it began. Each function gets a grant of a request that was made
// with the lease.
var leasePromises = map[string]func(t *testing.T, w *beginner, g lockagent.Grant, lease time.Duration){
	"it lasts for its lease": func(t *testing.T, _ *beginner, g lockagent.Grant, lease time.Duration) {
		begin := time.Now()
		<-g.Done()
		lostBecause(t, g.Cause(), lockagent.LostExpired)
		if d := time.Since(begin); d < lease-3*time.Second || d > lease {
			t.Errorf("it ended after %v of a lease of %v", d, lease)
		}
	},
	"it can be extended": func(t *testing.T, w *beginner, g lockagent.Grant, lease time.Duration) {
		if err := g.Extend(background, 2*lease); err != nil {
			t.Fatal(err)
		}
		if left := inspectAs(t, w.tap.whole, "door", w.kind.OrPlain()).Remaining; left < 2*lease-2*time.Second {
			t.Errorf("the store has a lease of %v", left)
		}
	},
	"Close ends it": func(t *testing.T, w *beginner, g lockagent.Grant, _ time.Duration) {
		closed(t, w.a)
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		if inspectAs(t, w.tap.whole, "door", w.kind.OrPlain()).Held {
			t.Error("the store still has it")
		}
	},
	"Shutdown waits for it": func(t *testing.T, w *beginner, g lockagent.Grant, lease time.Duration) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(background, lease/2)
		defer cancel()
		if err := w.a.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != lease/2 {
			t.Errorf("Shutdown ended after %v: %v", time.Since(begin), err)
		}
		lostBecause(t, g.Cause(), lockagent.LostClosed)
	},
}

// outlivePromises are what Outlive promises beyond that.
var outlivePromises = map[string]func(t *testing.T, w *beginner, g lockagent.Grant, lease time.Duration){
	"the death of its process leaves it": func(t *testing.T, _ *beginner, _ lockagent.Grant, _ time.Duration) {
		// No call reached the store since the grant.
	},
	"Close leaves it": func(t *testing.T, w *beginner, g lockagent.Grant, _ time.Duration) {
		closed(t, w.a)
		lostBecause(t, g.Cause(), lockagent.LostClosed)
	},
	"Shutdown does not wait for it": func(t *testing.T, w *beginner, g lockagent.Grant, _ time.Duration) {
		begin := time.Now()
		if err := w.a.Shutdown(background); err != nil || time.Since(begin) > time.Second {
			t.Errorf("Shutdown took %v: %v", time.Since(begin), err)
		}
		lostBecause(t, g.Cause(), lockagent.LostClosed)
	},
}

// Whatever the way to a grant, its lease means the same. A new way needs a row.
func TestBeginningsOfLeases(t *testing.T) {
	const lease = time.Hour
	rows := make(map[lockagent.How]bool)
	run := func(t *testing.T, check func(t *testing.T, w *beginner)) {
		synctest.Test(t, func(t *testing.T) {
			memory := memstore.New()
			w := &beginner{tap: newTap(memory), all: &witness{}, b: start(t, Config{Store: memory.Share()})}
			w.a = startResting(t, Config{Store: w.tap, Recorder: w.all})
			time.Sleep(time.Second) // an agent that has just begun has no habits
			check(t, w)
		})
	}
	for _, row := range beginnings {
		rows[row.how] = true
		t.Run(row.name, func(t *testing.T) {
			for promise, check := range leasePromises {
				t.Run(promise, func(t *testing.T) {
					run(t, func(t *testing.T, w *beginner) {
						g := granted(t, row.begin(t, w, Request{Owner: "ann", Lease: lease}))
						if how := w.howGranted(); how != row.how {
							t.Fatalf("it was granted by %q, want %q", how, row.how)
						}
						check(t, w, g, lease)
					})
				})
			}
			for promise, check := range outlivePromises {
				t.Run("Outlive/"+promise, func(t *testing.T) {
					run(t, func(t *testing.T, w *beginner) {
						stay := Request{Owner: "ann", Lease: lease, Outlive: true}
						stay.Granted = func() { w.tap.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) }) } // as if the process died now
						c := row.begin(t, w, stay)
						if row.how == 0 { // a session would have to wait for itself
							refused(t, c, lockagent.ErrBadOption)
							return
						}
						g := granted(t, c)
						check(t, w, g, lease)
						if left := inspectAs(t, w.tap.whole, "door", w.kind.OrPlain()).Remaining; left < lease-2*time.Second {
							t.Errorf("the store has a lease of %v", left)
						}
						w.tap.handle(nil)
					})
				})
			}
		})
	}
	for how := lockagent.ByStore; how.String() != ""; how++ {
		if !rows[how] {
			t.Errorf("no row begins by %q: add one, so that each promise is tried", how)
		}
	}
}

// howGranted is how the last grant of ann began.
func (w *beginner) howGranted() (how lockagent.How) {
	for _, e := range w.all.all() {
		if e.Owner == "ann" && (e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReentered) {
			how = e.How
		}
	}
	return how
}
