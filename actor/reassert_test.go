package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// A store that was in the memory of the process has forgotten everything, and yet the holds go on. Their tokens stay,
// and later ones are greater.
func TestReassert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := mortal(t, memstore.New(), Config{})
		kinds := map[lockagent.Name]Request{
			"door":  {Owner: "ann"},
			"fair":  {Owner: "ann", Kind: lockagent.FairLock},
			"book":  {Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared},
			"short": {Owner: "ann", Lease: time.Second},
			"fixed": {Owner: "ann", Lease: time.Minute},
		}
		before := make(map[lockagent.Name]lockagent.Token)
		for name, req := range kinds {
			before[name] = granted(t, a.Acquire(background, name, req)).Token()
		}
		second := granted(t, a.Acquire(background, "book", Request{
			Owner: "bob", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared,
		}))
		time.Sleep(2 * time.Second)
		n := killed(t, a, s)

		store := memstore.New()
		if err := n.Reassert(store, DefaultLease, 0); err != nil {
			t.Fatal(err)
		}
		for name, req := range kinds {
			if held := inspectKind(t, store, name, req.Kind).Held; held != (name != "short") {
				t.Errorf("%s: held is %v", name, held)
			}
		}
		next := resuming(t, Config{Store: store}, n)
		time.Sleep(20 * time.Second)
		for _, r := range next.Resumed() {
			g := <-r.Grant
			if r.Name == "short" {
				continue
			}
			want := before[r.Name]
			if r.Owner == "bob" {
				want = second.Token()
			}
			if g.Token() != want || !g.Held() {
				t.Errorf("%s: token %d of %d, held is %v: %v", r.Name, g.Token(), want, g.Held(), g.Cause())
			}
			released(t, g)
		}
		for name, req := range kinds {
			req.Owner = "eve"
			if g := granted(t, next.Acquire(background, name, req)); g.Token() <= before[name] {
				t.Errorf("%s: token %d after %d", name, g.Token(), before[name])
			}
		}
	})
}

func inspectKind(
	t *testing.T, store lockagent.Operator, name lockagent.Name, kind lockagent.LockKind,
) (i lockagent.Inspection) {
	t.Helper()
	store.Inspect(background, name, kind.OrPlain(), func(found lockagent.Inspection, err error) {
		if err != nil {
			t.Error(err)
		}
		i = found
	})
	return i
}

// Whoever goes on with the requests of another process can end their waits, one by one.
func TestResumedWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, s := mortal(t, store, Config{})
		b := start(t, Config{Store: store.Share()})
		far := granted(t, b.Acquire(background, "door", who("far")))
		for _, tag := range []string{"first", "second"} {
			_ = a.Acquire(background, "door", Request{Owner: "ann", Session: true, Tag: tag})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(background)
		next := resuming(t, Config{
			Store: store.Share(), Resumed: func(r ResumedRequest) (context.Context, Watcher, lockagent.Who) {
				if r.Tag == "first" {
					return ctx, nil, lockagent.Who{}
				}
				return nil, nil, lockagent.Who{}
			},
		}, killed(t, a, s))
		synctest.Wait()
		r := next.Resumed()
		if len(r) != 2 || r[0].Tag != "first" || r[1].Tag != "second" {
			t.Fatalf("resumed %+v", r)
		}
		silent(t, "first", r[0].Grant)
		cancel()
		synctest.Wait()
		refused(t, r[0].Grant, context.Canceled)
		released(t, far)
		released(t, granted(t, r[1].Grant))
	})
}

// stale is an agent whose journal took nothing after the first grants. The agent went on to renew "door" for longer
// than its lease.
func stale(t *testing.T, store *memstore.Store) saved.Agent {
	t.Helper()
	a, s := mortal(t, store, Config{})
	granted(t, a.Acquire(background, "door", who("ann")))
	granted(t, a.Acquire(background, "book", Request{
		Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared,
	}))
	granted(t, a.Acquire(background, "fixed", Request{Owner: "ann", Lease: DefaultLease}))
	n := a.cfg.Journal.(*chronicle).leaves(t)
	time.Sleep(DefaultLease + DefaultLease/2)
	killed(t, a, s)
	return n
}

// A deadline in a journal is a lower bound: the agent may have renewed a hold without the journal. The store knows. A
// fixed lease is not renewed, so its end is known.
func TestConfirmAsksForHoldsThatAreOverInTheJournal(t *testing.T) {
	for name, tt := range map[string]struct {
		until time.Duration // the store answers
		down  time.Duration // of the daemon
		held  bool
	}{
		"at once":                     {held: true},
		"when the store answers":      {until: 5 * time.Second, held: true},
		"the store says no":           {down: 2 * DefaultLease},
		"the store says no at last":   {down: 2 * DefaultLease, until: 5 * time.Second},
		"the store never says a word": {until: 2 * DefaultLease},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				n := stale(t, store)
				time.Sleep(tt.down)
				s, begin := newTap(store.Share()), time.Now()
				s.on("renew", func(o *op) {
					if time.Since(begin) < tt.until {
						o.fail(lockagent.ErrStoreUnavailable)
					} else {
						o.run()
					}
				})
				n.Confirm(background, s, DefaultLease, 0)
				if s.count("release") != 0 || s.count("acquire") != 0 {
					t.Errorf("calls %q", s.kinds())
				}
				if passed := time.Since(begin); passed > DefaultLease+time.Second {
					t.Errorf("it took %v", passed)
				}
				next := resuming(t, Config{Store: s}, n)
				for _, r := range next.Resumed() {
					want := tt.held && r.Name != "fixed"
					if held := r.Remaining > DefaultLease/2; held != want {
						t.Errorf("%s: %v remain", r.Name, r.Remaining)
					}
					if g, ok := <-r.Grant; ok && g.Held() != want {
						t.Errorf("%s: held is %v", r.Name, g.Held())
					}
				}
				time.Sleep(10 * time.Second)
				if held := inspectKind(t, store, "door", "").Held; held != tt.held {
					t.Errorf("the store has it: %v", held)
				}
			})
		})
	}
}

// A hold with more than half of its lease left is not asked for twice.
func TestConfirmAsksForNothingFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, s := mortal(t, store, Config{})
		granted(t, a.Acquire(background, "door", who("ann")))
		n := killed(t, a, s)
		s = newTap(store.Share())
		n.Confirm(background, s, DefaultLease, 0)
		if s.kinds() != "" {
			t.Errorf("calls %q", s.kinds())
		}
		n.Taken.Boot = "another"
		time.Sleep(time.Hour)
		n.Confirm(background, s, DefaultLease, 0)
		if s.kinds() != "" {
			t.Errorf("calls after a boot: %q", s.kinds())
		}
	})
}

// A store in memory ended with the agent, so nobody can have been granted what the agent held without the journal.
func TestReassertBeginsHoldsThatAreOverInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := stale(t, memstore.New())
		store := memstore.New()
		if err := n.Reassert(store, DefaultLease, 0); err != nil {
			t.Fatal(err)
		}
		if left := inspectKind(t, store, "door", "").Remaining; left != DefaultLease {
			t.Errorf("the store has it for %v", left)
		}
		next := resuming(t, Config{Store: store}, n)
		for _, r := range next.Resumed() {
			g, ok := <-r.Grant
			if held := ok && g.Held(); held != (r.Name != "fixed") {
				t.Errorf("%s: held is %v", r.Name, held)
			}
		}
	})
}
