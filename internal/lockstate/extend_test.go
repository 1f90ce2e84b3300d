package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func (r *rig) extend(o lockagent.Owner, lease time.Duration) {
	r.t.Helper()
	r.step(Extend{ID: r.ids[o], Lease: lease})
}

// holdFixed makes the owner holder with a fixed lease.
func (r *rig) holdFixed(o lockagent.Owner, lease time.Duration) {
	r.t.Helper()
	r.acquireFixed(o, lease)
	r.granted()
	r.skip()
}

func TestExtend(t *testing.T) {
	t.Run("asks the store for more, and lasts as long as that confirms", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 10*time.Second)
		r.pass(5 * time.Second)
		r.extend("ann", 30*time.Second)
		r.want("Extended ann until 33s", "Renewing "+new(Config).leaseFor(28*time.Second).String())
		r.pass(time.Second)
		r.renewed(true)
		r.want("Renewed")
		if r.s.tenure.deadline < Instant(33*time.Second) {
			t.Errorf("trusted until %v only", time.Duration(r.s.tenure.deadline))
		}
		r.pass(27*time.Second - 1)
		r.want()
		r.pass(1)
		r.want("Ended ann: expired", "Returning")
	})
	t.Run("ends when it would have, if the store does not confirm it", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 10*time.Second)
		r.extend("ann", 30*time.Second)
		r.renewFails()
		r.skip()
		r.pass(9*time.Second - 1)
		r.skip()
		r.pass(1)
		r.want("Ended ann: deadline", "Returning")
	})
	t.Run("never ends earlier, and needs no store then", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 10*time.Second)
		r.extend("ann", time.Second)
		r.want("Extended ann until 9s")
	})
	t.Run("follows a renewal that is under way", func(t *testing.T) {
		r := newRig(t)
		r.holdFixed("ann", 10*time.Second)
		r.extend("ann", 20*time.Second)
		r.skip()
		r.extend("ann", 30*time.Second)
		r.want("Extended ann until 28s")
		r.renewed(true)
		r.want("Renewed", "Renewing 30s")
	})
	t.Run("leaves a hold alone that is over, kept or due to end", func(t *testing.T) {
		r := newRig(t)
		r.hold("ann")
		r.extend("ann", time.Minute)
		r.want()
		r.release("ann")
		r.extend("ann", time.Minute)
		r.returned(0)
		r.holdFixed("bob", 10*time.Second)
		r.now = r.now.add(9 * time.Second) // the tick is late
		r.extend("bob", time.Minute)
		r.want("Ended bob: expired", "Returning")
	})
}
