package faultproxy

import (
	"context"
	"sync"
	"time"
)

// lane is what befalls one direction of all connections.
type lane struct {
	mu      sync.Mutex // protects what follows
	delay   time.Duration
	changed chan struct{} // closed and replaced when delay changes
	drop    bool
	budget  int // bytes that still pass before a cut; negative if there will be none
}

func newLane() lane { return lane{changed: make(chan struct{}), budget: -1} }

func (l *lane) setDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lane) setDrop(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = on
}

func (l *lane) setBudget(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget = n
}

// hold waits until what arrived now may go on. It reports false if the
// connection ended first.
func (l *lane) hold(ended context.Context) bool {
	arrived := time.Now()
	for {
		l.mu.Lock()
		left, changed := l.delay-time.Since(arrived), l.changed
		l.mu.Unlock()
		if left <= 0 {
			return true
		}
		select {
		case <-time.After(left):
		case <-changed:
		case <-ended.Done():
			return false
		}
	}
}

// admit says how many of n bytes pass, whether the rest is swallowed in silence,
// and whether the connection is to be cut behind those that pass.
func (l *lane) admit(n int) (pass int, swallow, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.drop:
		return 0, true, false
	case l.budget < 0 || n == 0:
		return n, false, false
	case n < l.budget:
		l.budget -= n
		return n, false, false
	}
	pass, l.budget = l.budget, -1
	return pass, false, true
}
