package actor

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A crowd asks, and gives up before the store has answered. The store is not asked for those it has not heard of by then, so nobody waits behind
// them.
func TestACrowdThatGivesUpIsNotAskedFor(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.FairLock, lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTap(memstore.New())
				a := start(t, Config{Store: store})
				if kind != lockagent.FairLock {
					<-a.Permits(background, lockagent.PermitsRequest{Name: "door", Kind: kind, Op: lockagent.TrySetPermits, N: 1})
				}
				var calls []*op
				store.on("acquire", func(o *op) { calls = append(calls, o) })
				impatient, giveUp := context.WithCancel(background)
				const crowd = 200
				var all []<-chan lockagent.Grant
				for range crowd {
					all = append(all, a.Acquire(impatient, "door", Request{Owner: "ann", Kind: kind}))
				}
				patient := a.Acquire(background, "door", Request{Owner: "bob", Kind: kind})
				synctest.Wait()
				giveUp()
				for _, grants := range all {
					refused(t, grants, context.Canceled)
				}
				store.handle(nil)
				for _, o := range calls {
					o.run()
				}
				released(t, granted(t, patient))
				if n := store.count("acquire"); n > crowd/5 {
					t.Errorf("%d calls for %d requests that nobody wants, and one", n, crowd)
				}
			})
		})
	}
}
