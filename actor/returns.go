package actor

import (
	"sync"

	"github.com/lockagent/lockagent"
)

// returns tells a store with a grace period when the agent has come back to a new incarnation: when each lock was told
// of the reset, and each tenure in doubt that had holds was renewed, or is over. Until then the store grants nothing
// new.
type returns struct {
	grace lockagent.Grace // nil if the store has none

	mu           sync.Mutex // guards what follows
	incarnations []string   // to which the agent comes back
	round        int        // counts the beginnings
	taken        bool       // a broadcast of this round has begun
	open         int        // what is left to do: the broadcast, and the locks that were not told yet, or are in doubt
}

// begin begins the return to an incarnation. A return that is under way begins anew: each server of the store has an
// incarnation of its own. The broadcast is left to do, see take.
func (r *returns) begin(incarnation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.incarnations, r.open, r.taken = append(r.incarnations, incarnation), 1, false
	r.round++
}

// present is the present round.
func (r *returns) present() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round
}

// take returns the present round, and reports true to the first caller, who says done when the locks were told. A
// second reset may come before the broadcast of the first one begins. And a step of a clock is broadcast, and begins no
// return.
func (r *returns) take() (round int, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, r.taken = !r.taken, true
	return r.round, first
}

// add counts one thing more to do for a round, unless another return has begun since.
func (r *returns) add(round int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if round == r.round {
		r.open++
	}
}

// done says that one thing is done. It does not count if another return has begun since.
func (r *returns) done(round int) {
	r.mu.Lock()
	var incarnations []string
	if round == r.round {
		if r.open--; r.open == 0 {
			incarnations, r.incarnations = r.incarnations, nil
		}
	}
	r.mu.Unlock()
	if r.grace == nil {
		return
	}
	for _, incarnation := range incarnations {
		r.grace.Reasserted(incarnation)
	}
}
