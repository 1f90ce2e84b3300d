package redisstore

import (
	"sync"

	"github.com/lockagent/lockagent"
)

// maxContended bounds the memory for locks that are never released.
const maxContended = 1024

// contended knows for which locks others wait: those of which a message has told since their last
// release. If it forgets a lock, a pass of that lock takes a moment longer. The zero value is empty.
type contended struct {
	mu    sync.Mutex // guards names
	names map[lockagent.Name]bool
}

func (c *contended) note(m lockagent.Message) {
	if m.Kind != lockagent.MessageWanted && m.Kind != lockagent.MessagePassed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil || len(c.names) >= maxContended {
		c.names = make(map[lockagent.Name]bool)
	}
	c.names[m.Name] = true
}

// take reports whether others wait for a lock that is about to be released, and forgets the lock.
func (c *contended) take(name lockagent.Name) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := c.names[name]
	delete(c.names, name)
	return waited
}
