package lockstate

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestRequestThatWouldNotWait(t *testing.T) {
	t.Run("gets a free lock", func(t *testing.T) {
		r := newRig(t)
		r.try("ann")
		r.want("Requested ann", "Attempted 30s")
		r.granted()
		r.want("Began", "Granted ann 101")
	})
	t.Run("is told at once who holds the lock here, and for how long", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.pass(3 * time.Second)
		r.try("bob")
		r.want("Requested bob", "Answered bob: held by ann for 25s")
	})
	t.Run("is told of the grant that lasts longest", func(t *testing.T) {
		r := newRig(t)
		r.acquireFixed("ann+", 10*time.Second)
		r.granted()
		r.acquire("ann+")
		r.pass(4 * time.Second)
		r.renewed(true)
		r.skip()
		r.try("bob")
		left := r.s.tenure.deadline.Sub(r.now) // of the kept one; the fixed one has 5 s
		r.want("Requested bob", "Answered bob: held by ann+ for "+left.String())
	})
	t.Run("is told who holds it elsewhere", func(t *testing.T) {
		r := newRig(t)
		r.try("ann")
		r.skip()
		r.busy(7 * time.Second)
		r.want("FoundBusy", "Answered ann: held by other:7 for 7s", "Forgot")
	})
	t.Run("is told when the store is slower than the lease", func(t *testing.T) {
		for lease, want := range map[time.Duration]error{
			0: lockagent.ErrStoreUnavailable, 30 * time.Second: lockagent.ErrLeaseTooShort,
		} {
			r := newRig(t)
			r.request(Request{Owner: "ann", Try: true, Lease: lease})
			r.passLate(28 * time.Second)
			r.skip()
			r.granted()
			if e := r.last(Answered); e.Request.Owner != "ann" || !errors.Is(e.Err, want) {
				t.Errorf("%s with a lease of %v is answered %v, want %v", e.Request.Owner, lease, e.Err, want)
			}
		}
	})
	t.Run("makes an attempt of its own while others sleep", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(20 * time.Second)
		r.skip()
		r.try("bob")
		r.want("Requested bob", "Attempted 30s")
		r.busy(20 * time.Second)
		r.want("FoundBusy", "Answered bob: held by other:7 for 20s")
	})
	t.Run("makes it for whoever has waited longest", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.busy(20 * time.Second)
		r.skip()
		r.try("bob")
		r.skip()
		r.granted()
		r.want("Began", "Granted ann 101", "Answered bob: held by ann for 28s")
	})
	t.Run("that arrives during an attempt is not answered from before it", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.try("bob")
		r.skip()
		r.busy(7 * time.Second)
		r.want("FoundBusy", "Queued ann", "Attempted 30s")
		r.busy(7 * time.Second)
		r.want("FoundBusy", "Answered bob: held by other:7 for 7s")
	})
	t.Run("is told that the store cannot be reached", func(t *testing.T) {
		r := newRig(t)
		r.acquire("ann")
		r.attemptFails(errStore)
		r.skip()
		r.try("bob")
		r.want("Requested bob", "Attempted 30s")
		r.attemptFails(errStore)
		r.want("AttemptFailed", "Answered bob: unavailable")
	})
	t.Run("is not told of what no application can understand", func(t *testing.T) {
		r := newRig(t)
		r.try("ann")
		r.skip()
		r.attemptFails(lockagent.ErrWithdrawn)
		r.want("AttemptFailed", "Answered ann: internal", "Forgot")
	})
	t.Run("does not wait while the agent yields", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returned(1)
		r.skip()
		r.try("bob")
		r.want("Requested bob", "Attempted 2s")
	})
	t.Run("waits for a return under way, which is soon answered", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.try("bob")
		r.skip()
		r.returned(0)
		r.want("Returned", "Unlocked 1", "Attempted 2s")
	})
	t.Run("is told when the return under way fails", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann", "cid")
		r.breakLock()
		r.release("cid")
		r.try("bob")
		r.acquire("dan")
		r.skip()
		r.returnFails(errStore)
		r.want("ReleaseFailed", "Answered bob: unavailable", "Unlocked 2: unconfirmed")
	})
	t.Run("has a return that failed tried again at once", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.release("ann")
		r.returnFails(errStore)
		r.skip()
		r.try("bob")
		r.want("Requested bob", "Returning")
		r.returnFails(lockagent.ErrStoreUnavailable)
		r.want("ReleaseFailed", "Answered bob: unavailable")
	})
	t.Run("is answered when its context ends", func(t *testing.T) {
		r := newRig(t)
		r.try("ann")
		r.cancel("ann")
		r.want("Requested ann", "Attempted 30s", "Answered ann: timeout")
	})
}
