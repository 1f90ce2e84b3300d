package demo

import (
	"errors"
	"sync"

	"github.com/lockagent/lockagent"
)

// errStale is the answer to an operation whose token is older than one that was
// seen before.
var errStale = errors.New("demo: the token is older than one that was seen before")

// counters is the resource that the locks protect, near or far.
type counters interface {
	read(name lockagent.Name, token lockagent.Token) (int64, error)
	write(name lockagent.Name, token lockagent.Token, value int64) error
}

// resource keeps a counter for each lock. It is safe for concurrent use.
type resource struct {
	fenced bool // look at the tokens

	mu       sync.Mutex
	counters map[lockagent.Name]*Counter // guarded by mu
}

// Counter is what a lock protects.
type Counter struct {
	// Value is what was written last.
	Value int64 `json:"value"`
	// Writes is how many writes were accepted. It is greater than Value if
	// updates were lost, for each adds one to what it read.
	Writes int64 `json:"writes"`
	// Refused is how many reads and writes came with an old token.
	Refused int64 `json:"refused"`

	seen lockagent.Token // the greatest
}

// Lost is how many updates were overwritten by one that did not know of them.
func (c Counter) Lost() int64 { return c.Writes - c.Value }

func newResource(names []lockagent.Name, fenced bool) *resource {
	r := &resource{fenced: fenced, counters: make(map[lockagent.Name]*Counter)}
	for _, name := range names {
		r.counters[name] = &Counter{}
	}
	return r
}

func (r *resource) read(name lockagent.Name, token lockagent.Token) (value int64, err error) {
	err = r.use(name, token, func(c *Counter) { value = c.Value })
	return value, err
}

func (r *resource) write(name lockagent.Name, token lockagent.Token, value int64) error {
	return r.use(name, token, func(c *Counter) {
		c.Value = value
		c.Writes++
	})
}

func (r *resource) use(name lockagent.Name, token lockagent.Token, f func(*Counter)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counters[name]
	if r.fenced {
		if token < c.seen {
			c.Refused++
			return errStale
		}
		c.seen = token
	}
	f(c)
	return nil
}

// state returns the counters as they are now.
func (r *resource) state() map[lockagent.Name]Counter {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := make(map[lockagent.Name]Counter, len(r.counters))
	for name, c := range r.counters {
		state[name] = *c
	}
	return state
}
