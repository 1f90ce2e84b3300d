package redisstore

import (
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// clocks is what the store remembers of the servers' clocks, so that none goes back that
// has lost its own memory. There is one clock, or one for each slot.
type clocks struct {
	mu     sync.Mutex // guards what follows
	bySlot map[uint16]script.Past
}

func (c *clocks) past(slot uint16) script.Past {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bySlot[slot]
}

// note takes note of a time that was told, and of the token with which a tenure began, or 0.
// Another incarnation may not have the tokens that were given before.
func (c *clocks) note(slot uint16, incarnation string, at lockagent.StoreTime, began lockagent.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	past := c.bySlot[slot]
	past.In(incarnation)
	past.Note(at, began)
	if c.bySlot == nil {
		c.bySlot = make(map[uint16]script.Past)
	}
	c.bySlot[slot] = past
}

// past is what scripts are told of the past, and the epoch of the incarnation in it.
func (s *Store) past(slot uint16) (past script.Past, epoch uint64) {
	past = s.clocks.past(slot)
	incarnation, epoch := s.incarnations.known()
	past.In(incarnation)
	return past, epoch
}
