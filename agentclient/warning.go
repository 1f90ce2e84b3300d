package agentclient

import lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"

// Wanted implements [lockagent.Hold]. The daemon tells of all who wait but for those who wait behind the hold in its
// queue: it does not know them.
func (h *hold) Wanted() <-chan struct{} {
	c := (*claim)(h)
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	c.askForWarnings()
	wanted := c.warnings.wanted.Channel()
	c.warn()
	return wanted
}

// Uncertain implements [lockagent.Hold]. The daemon tells that its renewals fail. Without the daemon nothing is
// renewed.
func (h *hold) Uncertain() <-chan struct{} {
	c := (*claim)(h)
	c.agent.mu.Lock()
	defer c.agent.mu.Unlock()
	c.askForWarnings()
	uncertain := c.warnings.uncertain.Channel()
	c.warn()
	return uncertain
}

// askForWarnings asks the daemon, once. A claim that is not confirmed is attached to, and asks then.
func (c *claim) askForWarnings() {
	if c.warns || c.stage != held {
		return
	}
	c.warns = true
	if c.confirmed {
		c.agent.push(&lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Warn{Warn: &lockagentv1.Warn{}}})
	}
}

// warn gives the warnings that are due, or withdraws that of an uncertain hold. The mutex must be held.
func (c *claim) warn() {
	if c.stage != held {
		return
	}
	w := &c.warnings
	if w.wanted.Asked() && (c.Wanted || c.queue != nil && c.queue.first == c && c.queue.rest.Len() > 0) {
		w.wanted.Set(true)
	}
	left := c.remaining()
	w.uncertain.Set(c.Uncertain || c.req.Lease == 0 && left < c.lease/3)
}
