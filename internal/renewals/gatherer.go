// Package renewals gathers renewals of leases, so that many locks cost a store few
// commands.
package renewals

import (
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// Most is how many locks one command renews. Redis serves nobody else
	// meanwhile, so it must not take long: this many are well below a millisecond.
	Most = 100

	// A renewal waits for company for at most MaxWait, and at most this part of its
	// lease.
	MaxWait      = 100 * time.Millisecond
	waitFraction = 30
)

// Call is one call of Renew.
type Call struct {
	Req  lockagent.RenewRequest
	Slot uint16 // of the lock; counts only if commands are by slot
	Done func(lockagent.RenewReply, error)
}

// Gatherer puts calls together into commands. Its exported fields are set before
// its first use. It is safe for concurrent use.
type Gatherer struct {
	// Send makes one command of at most [Most] calls, and answers them. It must not
	// block.
	Send func([]Call)
	// BySlot is true if a command can only have keys of one slot.
	BySlot bool

	mu       sync.Mutex // guards what follows
	gathered []Call
	due      time.Time   // when they are to be sent; set if there are any
	timer    *time.Timer // fires when due; nil before it is needed for the first time
	closed   bool
}

// Add takes a call. It is sent when there are enough, when one is urgent, or
// when the one that can wait the least has waited.
func (g *Gatherer) Add(c Call) {
	now := time.Now()
	due := now.Add(min(MaxWait, c.Req.Lease/waitFraction))
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		c.Done(lockagent.RenewReply{}, lockagent.ErrClosed)
		return
	}
	g.gathered = append(g.gathered, c)
	var full []Call
	switch {
	case len(g.gathered) >= Most, c.Req.Urgent:
		full = g.take()
	case len(g.gathered) == 1 || due.Before(g.due):
		g.due = due
		if g.timer == nil {
			g.timer = time.AfterFunc(due.Sub(now), g.flush)
		} else {
			g.timer.Reset(due.Sub(now))
		}
	}
	g.mu.Unlock()
	g.dispatch(full)
}

// take returns what was gathered. It expects mu to be held.
func (g *Gatherer) take() []Call {
	taken := g.gathered
	g.gathered = nil
	return taken
}

// flush sends what was gathered. The timer may fire late, when its renewals are
// gone and others have come: they are then sent early.
func (g *Gatherer) flush() {
	g.mu.Lock()
	taken := g.take()
	g.mu.Unlock()
	g.dispatch(taken)
}

func (g *Gatherer) dispatch(all []Call) {
	if len(all) == 0 {
		return
	}
	if !g.BySlot {
		g.Send(all)
		return
	}
	slices.SortFunc(all, func(a, b Call) int { return int(a.Slot) - int(b.Slot) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Slot == all[0].Slot {
			n++
		}
		g.Send(all[:n])
		all = all[n:]
	}
}

// Close answers the calls that wait, and all that come, with
// [lockagent.ErrClosed].
func (g *Gatherer) Close() {
	g.mu.Lock()
	g.closed = true
	waiting := g.take()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	for _, c := range waiting {
		c.Done(lockagent.RenewReply{}, lockagent.ErrClosed)
	}
}
