package queue

import (
	"cmp"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// RenewalDelay is how soon after a renewal an EventAlive tells of it.
	RenewalDelay = time.Second

	// staleReplies is how long after a reset answers of the store may still arrive that it gave before.
	staleReplies = 10 * time.Second

	// maxDrift is by which part the store's clock may run slower than ours.
	maxDrift = 1000 // one second in so many
)

// Pulse gathers what an EventAlive says, and knows when one is due. It has no clock: now is
// the time since any fixed instant.
type Pulse struct {
	Every time.Duration
	Next  time.Duration // when the next is due
	Beats bool          // the agent runs: it recorded something, and not yet that it stopped

	store     string // identity
	holds     int
	sum       uint64 // of these holds: see [lockagent.HoldSum]
	confirmed lockagent.StoreTime
	over      lockagent.StoreTime // all leases that were renewed are over then
	lease     time.Duration       // that the agent keeps, if it has said so

	shown  lockagent.StoreTime // what the store's clock showed, or 0
	seen   time.Duration       // at that instant or later
	ignore time.Duration       // store times that arrive before this instant may be of another clock
}

// See takes notice of a fact. It reports whether the next EventAlive is due earlier than before.
func (p *Pulse) See(now time.Duration, e *lockagent.Event) (earlier bool) {
	if !p.Beats && e.Kind != lockagent.EventAgentStopped {
		p.Beats, p.Next = true, now+p.Every
		earlier = true
	}
	if e.Store != "" {
		p.store = e.Store
	}
	switch e.Kind {
	case lockagent.EventAgentStarted:
		p.holds, p.sum = e.Count, e.Sum
	case lockagent.EventGranted:
		p.holds++
		p.sum += lockagent.HoldSum(e.Lock, e.Tenure, e.Token)
		if e.How == lockagent.ByStore { // a hand-off has an older time
			p.read(now, cmp.Or(e.Confirmed, e.StoreTime))
		}
	case lockagent.EventRenewed:
		if now >= p.ignore {
			p.confirmed = max(p.confirmed, e.StoreTime)
			p.over = max(p.over, e.StoreTime.Add(e.Lease))
		}
		p.read(now, e.StoreTime)
		if soon := now + RenewalDelay; soon < p.Next {
			p.Next, earlier = soon, true
		}
	case lockagent.EventReturned:
		p.read(now, e.Returned)
	case lockagent.EventAlive:
		p.lease = max(p.lease, e.Lease)
		p.read(now, e.StoreTime)
	case lockagent.EventStoreReset:
		p.confirmed, p.over, p.ignore = 0, 0, 0
		p.read(now, e.Reset.Before)
		p.ignore = now + staleReplies
	case lockagent.EventAgentStopped:
		p.Beats = false
	default:
		// An operator who breaks the lock of another agent ends no hold here.
		if e.Kind.EndsHold() && e.Count == 0 && e.Token != 0 && p.holds > 0 {
			p.holds--
			p.sum -= lockagent.HoldSum(e.Lock, e.Tenure, e.Token)
		}
	}
	return earlier
}

// read notes what the store's clock showed when it gave an answer. The latest answer counts
// and not the greatest time: so a clock that was set back is noticed at once.
func (p *Pulse) read(now time.Duration, t lockagent.StoreTime) {
	if t != 0 && now >= p.ignore {
		p.shown, p.seen = t, now
	}
}

// Due reports whether an EventAlive should be recorded.
func (p *Pulse) Due(now time.Duration) bool { return p.Beats && now >= p.Next }

// Beat returns the EventAlive that is due.
func (p *Pulse) Beat(now time.Duration, wall time.Time) lockagent.Event {
	p.Next = now + p.Every
	e := lockagent.Event{
		Kind: lockagent.EventAlive, Time: wall, Store: p.store,
		Count: p.holds, Sum: p.sum, Confirmed: p.confirmed, Lease: p.lease,
	}
	if p.confirmed != 0 {
		e.Lease = max(e.Lease, p.over.Sub(p.confirmed))
	}
	if p.shown != 0 {
		passed := now - p.seen
		e.StoreTime = p.shown.Add(passed - passed/maxDrift)
	}
	return e
}
