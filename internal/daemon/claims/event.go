package claims

import (
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
)

// Event is what becomes of a claim: a [Queued], [Granted], [Renewed], [Uncertain], [Warning], [Draining]
// or [Ended].
type Event interface{ event() }

// Queued says that the claim waits.
type Queued struct {
	Claim, Secret string
	Ahead         int    // claims that wait for the lock since before this one
	Holder        string // who has the lock, if that is known: a claim, a session, or what the store knows
}

// Granted says that the claim holds its lock.
type Granted struct {
	Claim, Secret string
	Kind          lockagent.LockKind
	Grant         lockagent.Grant
	Deadline      Deadline
	Waited        time.Duration
	Holds         int // how many holds the client may make of it, one after the other; 0 is 1
}

// Renewed says that the deadline may be later than before. It is not earlier.
type Renewed struct{ Deadline Deadline }

// Uncertain says that a renewal has failed. The deadline stands.
type Uncertain struct{ Err error }

// Warning says what [lockagent.Grant.Wanted] and [lockagent.Grant.Uncertain] tell from now on.
type Warning struct{ Wanted, Uncertain bool }

// Draining says that the daemon ends soon.
type Draining struct{ Left time.Duration }

// Ended is the last event.
type Ended struct {
	// Cause is nil if the claim was released. If it was granted before, Cause is a [*lockagent.LostError], and
	// otherwise the error of the request.
	Cause error
}

func (Queued) event()    {}
func (Granted) event()   {}
func (Renewed) event()   {}
func (Uncertain) event() {}
func (Warning) event()   {}
func (Draining) event()  {}
func (Ended) event()     {}

// Deadline is an instant of [bootclock.Now].
type Deadline time.Duration

// deadline is until when a grant can be trusted. It reads the clock first. So it is too early rather than too late.
func deadline(g lockagent.Grant) Deadline {
	now := bootclock.Now()
	return Deadline(now + g.Remaining())
}
