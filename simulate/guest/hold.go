package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/simulate/plan"
)

// hold is what a client has between a grant and its end. The client may outlive its agent, as a client of a daemon
// does: then another life of the agent has the hold from then on.
type hold struct {
	world *world
	of    plan.Hold
	agent *agent // nil of an outsider, which has no grant
	grant lockagent.Grant

	// Of an outsider, and when the agent has died:
	until   time.Time     // the client trusts the hold until then
	settled chan struct{} // closed when another life has the hold, or none will
	over    bool          // none will
	lost    bool          // the client learned that from another life
}

// trusted reports whether the client may work at this moment.
func (h *hold) trusted() bool { return h.left() > 0 }

// left is for how long the client trusts the hold without another renewal.
func (h *hold) left() time.Duration {
	if h.agent == nil || h.agent.isDead() {
		return time.Until(h.until)
	}
	return h.grant.Remaining()
}

// look notes that the client trusts its hold, if so. It returns for how long.
func (h *hold) look() (left time.Duration) {
	if left = h.left(); left > 0 {
		h.of.Ending = h.world.since()
	}
	return left
}

func (h *hold) String() string {
	if h.agent == nil {
		return fmt.Sprintf("client %d, with Redisson, has the lock since %v and a lease for %v",
			h.of.Client, h.of.Granted, time.Until(h.until))
	}
	return fmt.Sprintf("client %d has the token %d since %v and trusts it for %v",
		h.of.Client, h.grant.Token(), h.of.Granted, h.grant.Remaining())
}

// keep notes a hold of a client, and drop forgets it.
func (a *agent) keep(h *hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = append(a.holds, h)
}

func (a *agent) drop(h *hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = slices.DeleteFunc(a.holds, func(other *hold) bool { return other == h })
}

// orphan is called just before the agent dies. If resumes, another life is to have the hold.
func (h *hold) orphan(resumes bool) {
	if h.settled == nil {
		h.until, h.settled = time.Now().Add(h.grant.Remaining()), make(chan struct{})
	}
	if !resumes {
		h.until, h.over = time.Time{}, true
		close(h.settled)
	}
}

// goesOn waits, after the death of the agent, until another life has the hold. It reports whether one has.
func (h *hold) goesOn() bool {
	if h.settled == nil {
		return false // it began when the agent died
	}
	<-h.settled
	return !h.over
}

// goOn gives the clients their holds of the life before, and takes up the requests that waited.
func (a *agent) goOn(resumed []actor.ResumedRequest) {
	a.mu.Lock()
	orphans := a.holds
	a.holds = nil
	a.mu.Unlock()
	waits := 0
	for _, r := range resumed {
		if r.Waits {
			waits++
			go newWorker(a, a.world.plan.Workers+waits).waitOn(&r)
			continue
		}
		g, held := <-r.Grant
		if !held {
			continue
		}
		i := slices.IndexFunc(
			orphans, func(h *hold) bool { return h.of.Lock == string(r.Name) && h.of.Token == uint64(r.Token) },
		)
		if i < 0 { // its client had not learned of it
			_ = g.Release(a.alive)
			continue
		}
		orphans[i].adopt(a, g)
		orphans = slices.Delete(orphans, i, i+1)
	}
	for _, h := range orphans {
		h.lose()
	}
}

// tellWait tells that the request got no hold.
func (h *hold) tellWait() {
	h.world.tellJSON('W', plan.Wait{Lock: h.of.Lock, Client: h.of.Client, Asked: h.of.Asked, Ended: h.world.since()})
}

// expire notes that the client trusted its hold for as long as it could.
func (h *hold) expire() {
	trusted := h.world.since() - max(0, time.Since(h.until))
	h.of.Ending = max(h.of.Granted, trusted-moment)
}

// adopt has another life go on with the hold.
func (h *hold) adopt(by *agent, g lockagent.Grant) {
	settled := h.settled
	h.agent, h.grant, h.settled = by, g, nil
	by.keep(h)
	close(settled)
}

// lose tells the client that no life has the hold.
func (h *hold) lose() {
	h.expire()
	h.until, h.over, h.lost = time.Time{}, true, true
	close(h.settled)
}
