package webui

import (
	"sync"
	"time"
)

// cache remembers for a moment what takes long to read. So many readers cost as much as one.
type cache[T any] struct {
	mu   sync.Mutex // guards kept
	kept map[string]*cached[T]
}

type cached[T any] struct {
	mu    sync.Mutex // guards what follows; held while somebody reads
	until time.Time
	value T
}

const (
	maxCached = 64
	fresh     = 2 * time.Second // for which something is kept at least
)

// get returns what is kept under a key, or reads it.
func (c *cache[T]) get(key string, read func() T) T {
	c.mu.Lock()
	e := c.kept[key]
	if e == nil {
		if c.kept == nil || len(c.kept) >= maxCached {
			c.kept = make(map[string]*cached[T])
		}
		e = new(cached[T])
		c.kept[key] = e
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if began := time.Now(); began.After(e.until) {
		e.value = read()
		e.until = time.Now().Add(max(fresh, share*time.Since(began)))
	}
	return e.value
}
