package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A store that was in the memory of the process has forgotten everything, and yet the holds go on. Their tokens stay, and later
// ones are greater.
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
		second := granted(t, a.Acquire(background, "book", Request{Owner: "bob", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}))
		time.Sleep(2 * time.Second)
		n := killed(t, a, s)

		store := memstore.New()
		if err := n.Reassert(store); err != nil {
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

func inspectKind(t *testing.T, store lockagent.Store, name lockagent.Name, kind lockagent.LockKind) (i lockagent.Inspection) {
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
		next := resuming(t, Config{Store: store.Share(), Resumed: func(r ResumedGrant) (context.Context, Watcher) {
			if r.Tag == "first" {
				return ctx, nil
			}
			return nil, nil
		}}, killed(t, a, s))
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
