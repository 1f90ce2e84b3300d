package actor

import (
	"sync"

	"github.com/lockagent/lockagent"
)

// returns tells a store with a grace period when the agent has come back to a new incarnation: when each lock was told
// of the reset, and each hold in doubt was renewed, or is over. Until then the store grants nothing new.
type returns struct {
	grace lockagent.Grace // nil if the store has none

	mu          sync.Mutex // guards what follows
	incarnation string     // to which the agent comes back
	round       int        // counts the incarnations
	open        int        // what is left to do: the broadcast, and the locks that were not told yet, or are in doubt
}

// begin begins the return to an incarnation.
func (r *returns) begin(incarnation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.incarnation, r.open = incarnation, 0
	r.round++
}

// add counts one thing more to do, and returns the round for which it counts.
func (r *returns) add() (round int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	return r.round
}

// done says that one thing is done. It does not count if the store has been reset once more.
func (r *returns) done(round int) {
	r.mu.Lock()
	incarnation := ""
	if round == r.round {
		if r.open--; r.open == 0 {
			incarnation = r.incarnation
		}
	}
	r.mu.Unlock()
	if incarnation != "" && r.grace != nil {
		r.grace.Reasserted(incarnation)
	}
}
