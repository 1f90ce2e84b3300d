package redisstore

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// maxRenewals is how many locks one command renews. Redis serves nobody else
	// meanwhile, so it must not take long: this many are well below a millisecond.
	maxRenewals = 100

	// A renewal waits for company for at most maxGather, and at most this part of
	// its lease.
	maxGather      = 100 * time.Millisecond
	gatherFraction = 30
)

// renewal is one call of Renew.
type renewal struct {
	req  lockagent.RenewRequest
	slot uint16
	done func(lockagent.RenewReply, error)
}

// renewals gathers renewals, so that many locks cost few commands.
type renewals struct {
	// send renews at most maxRenewals locks of one slot.
	send func([]renewal)
	// bySlot is true if a command can only have keys of one slot.
	bySlot bool

	mu       sync.Mutex // guards what follows
	gathered []renewal
	due      time.Time   // when they are to be sent; set if there are any
	timer    *time.Timer // fires when due; nil before it is needed for the first time
	closed   bool
}

// add takes a renewal. It is sent when there are enough, when one is urgent, or
// when the one that can wait the least has waited.
func (r *renewals) add(n renewal) {
	now := time.Now()
	due := now.Add(min(maxGather, n.req.Lease/gatherFraction))
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		n.done(lockagent.RenewReply{}, lockagent.ErrClosed)
		return
	}
	r.gathered = append(r.gathered, n)
	var full []renewal
	switch {
	case len(r.gathered) >= maxRenewals, n.req.Urgent:
		full = r.take()
	case len(r.gathered) == 1 || due.Before(r.due):
		r.due = due
		if r.timer == nil {
			r.timer = time.AfterFunc(due.Sub(now), r.flush)
		} else {
			r.timer.Reset(due.Sub(now))
		}
	}
	r.mu.Unlock()
	r.dispatch(full)
}

// take returns what was gathered. It expects mu to be held.
func (r *renewals) take() []renewal {
	taken := r.gathered
	r.gathered = nil
	return taken
}

// flush sends what was gathered. The timer may fire late, when its renewals are
// gone and others have come: they are then sent early.
func (r *renewals) flush() {
	r.mu.Lock()
	taken := r.take()
	r.mu.Unlock()
	r.dispatch(taken)
}

func (r *renewals) dispatch(all []renewal) {
	if len(all) == 0 {
		return
	}
	if !r.bySlot {
		r.send(all)
		return
	}
	slices.SortFunc(all, func(a, b renewal) int { return int(a.slot) - int(b.slot) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].slot == all[0].slot {
			n++
		}
		r.send(all[:n])
		all = all[n:]
	}
}

// close answers the renewals that wait.
func (r *renewals) close() {
	r.mu.Lock()
	r.closed = true
	waiting := r.take()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	for _, n := range waiting {
		n.done(lockagent.RenewReply{}, lockagent.ErrClosed)
	}
}
