package redisstore

import (
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
)

// wakes are those who wait for locks to be passed on to them.
type wakes struct {
	// listen subscribes to what is passed on to the store. That is done for as long as
	// somebody waits.
	listen func() (cancel func())

	mu     sync.Mutex // guards what follows
	cancel func()
	byName map[lockagent.Name][]*wake
}

// wake is one call of Subscribe.
type wake struct {
	name lockagent.Name
	call func(*lockagent.Pass)
}

func newWakes(listen func() (cancel func())) *wakes {
	return &wakes{listen: listen, byName: make(map[lockagent.Name][]*wake)}
}

func (w *wakes) add(name lockagent.Name, call func(*lockagent.Pass)) *wake {
	added := &wake{name, call}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byName) == 0 {
		w.cancel = w.listen()
	}
	w.byName[name] = append(slices.Clip(w.byName[name]), added)
	return added
}

func (w *wakes) remove(gone *wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.byName[gone.name], gone) {
		return
	}
	left := slices.DeleteFunc(slices.Clone(w.byName[gone.name]), func(other *wake) bool { return other == gone })
	if w.byName[gone.name] = left; len(left) == 0 {
		delete(w.byName, gone.name)
	}
	if len(w.byName) == 0 {
		w.cancel()
	}
}

// of returns those who wait for a lock.
func (w *wakes) of(name lockagent.Name) []*wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byName[name]
}
