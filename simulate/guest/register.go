package main

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/simulate/plan"
)

// register is what a lock protects. It knows who is at work, and refuses what comes with an old token.
type register struct {
	world *world
	lock  plan.Lock

	mu    sync.Mutex // guards what follows
	holds []*hold    // of those at work
	last  lockagent.Token
}

// enter begins the work of a client. It tells of everybody who may work at the same moment, and must not.
func (r *register) enter(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = slices.DeleteFunc(r.holds, func(other *hold) bool { return !other.trusted() })
	if h.look() <= 0 {
		return
	}
	permits := h.of.Permits
	for _, other := range r.holds {
		permits += other.of.Permits
		if !r.lock.Counted() && !(h.of.Shared && other.of.Shared) {
			r.overlap(other, h)
		}
	}
	if r.lock.Counted() && permits > r.lock.Permits {
		r.overlap(r.holds[0], h)
	}
	r.holds = append(r.holds, h)
}

// leave ends the work of a client, just before it releases the lock.
func (r *register) leave(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = slices.DeleteFunc(r.holds, func(other *hold) bool { return other == h })
}

// write writes with the token of a hold, if it has one. Whoever is trusted must not be refused.
func (r *register) write(h *hold) {
	if r.lock.Counted() || h.of.Shared || h.agent == nil || h.agent.isDead() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	token := h.grant.Token()
	if h.look() > 0 && token < r.last {
		r.world.breach(plan.Breach{
			What: plan.Fell, Lock: r.lock.Name, From: h.of.Granted,
			Text: fmt.Sprintf("client %d writes with the token %d after %d", h.of.Client, token, r.last),
		})
	}
	r.last = max(r.last, token)
}

// overlap tells that two holds are trusted at this moment.
func (r *register) overlap(older, newer *hold) {
	r.world.breach(plan.Breach{
		What: plan.Overlap, Lock: r.lock.Name, From: older.of.Granted, Outsider: older.agent == nil || newer.agent == nil,
		Text: fmt.Sprintf("%v, while %v", newer, older),
	})
}
