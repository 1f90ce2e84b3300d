package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// A hold that is to outlive its process is granted when the store has its lease, and not before.
func TestOutlive(t *testing.T) {
	stay := func(o lockagent.Owner) Request { return Request{Owner: o, Lease: time.Hour, Outlive: true} }
	t.Run("after a pass it waits for a renewal", func(t *testing.T) {
		r := newRig(t)
		r.request(stay("ann"))
		r.queued(time.Second)
		r.skip()
		r.pass(time.Second)
		r.passed(r.now)
		r.want("Began", "Renewing 1h0m0s")
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed", "Granted ann 101 until 59m59s")
	})
	t.Run("if the renewal fails, the store is asked again", func(t *testing.T) {
		r := newRig(t)
		r.request(stay("ann"))
		r.queued(time.Second)
		r.pass(time.Second)
		r.passed(r.now)
		r.skip()
		r.renewFails()
		r.want("RenewFailed", "Returning")
		r.returned(0)
		r.want("Returned", "Attempted 1h0m0s")
	})
	t.Run("if it is not wanted any more, the next one gets the lock", func(t *testing.T) {
		r := newRig(t)
		r.request(stay("ann"))
		r.acquire("bob")
		r.queued(time.Second)
		r.pass(time.Second)
		r.passed(r.now)
		r.skip()
		r.cancel("ann")
		r.want("Answered ann: timeout", "Returning") // the store may have the long lease
	})
	t.Run("it is not handed off", func(t *testing.T) {
		r := newRig(t)
		r.hold("bob")
		r.request(stay("ann"))
		r.skip()
		r.release("bob")
		r.want("Ended bob", "Returning")
		r.returned(0)
		r.want("Returned", "Unlocked 1", "Attempted 1h0m0s")
		r.granted()
		r.want("Began", "Granted ann 104 until 59m58s")
	})
	t.Run("beside another reader it waits for a renewal", func(t *testing.T) {
		r := newRig(t)
		r.request(Request{Owner: "bob", Mode: Shared})
		r.granted()
		reader := stay("ann")
		reader.Mode = Shared
		r.skip()
		r.request(reader)
		r.want("Requested ann", "Queued ann", "Renewing 1h0m0s shared")
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed", "Granted ann 102 by hand-off until 59m58s")
	})
	t.Run("a session cannot wait for itself", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann+")
		r.request(stay("ann+"))
		r.want("Requested ann+", "Answered ann+: "+errOutliveAgain.Error())
	})
}
