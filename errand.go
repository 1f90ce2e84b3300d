package lockagent

import (
	"context"
	"sync"
)

// Errand is a context for a call whose caller is going to wait for the outcome and for
// nothing else. A [Store] may leave in it what it would otherwise have a goroutine of
// its own do, such as an exchange with a server, and the caller does it with
// [Errand.Finish] instead of sleeping meanwhile: that saves two switches of goroutines,
// which is a good part of what a call costs that nobody contends with.
//
// Make one with [NewErrand] for each call; the zero Errand is of no use. It is safe for
// concurrent use. A store in which something was left may keep all other calls waiting
// until Finish: it has to follow the call, in the same goroutine and with nothing in
// between.
type Errand struct {
	context.Context

	mu   sync.Mutex                   // guards what follows
	run  func(caller context.Context) // what was left
	over bool
}

type errandKey struct{}

// NewErrand returns an errand with the values of ctx. Whoever makes one calls Finish
// right after the call for which it was made.
func NewErrand(ctx context.Context) *Errand { return &Errand{Context: ctx} }

// Value implements [context.Context].
func (e *Errand) Value(key any) any {
	if key == (errandKey{}) {
		return e
	}
	return e.Context.Value(key)
}

// LeaveToCaller leaves run to be done by whoever made the call that ctx came with. It
// reports false if nobody is going to, and has left nothing then. It is for stores.
//
// run is given the context that the errand was made with. When that ends the caller has
// no use for the outcome any more, and run returns soon. It takes a bounded time in any case.
func LeaveToCaller(ctx context.Context, run func(caller context.Context)) bool {
	e, _ := ctx.Value(errandKey{}).(*Errand)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.run != nil {
		return false
	}
	e.run = run
	return true
}

// Finish does what was left, if anything, and lets nothing more be left.
func (e *Errand) Finish() {
	e.mu.Lock()
	run := e.run
	e.run, e.over = nil, true
	e.mu.Unlock()
	if run != nil {
		run(e.Context)
	}
}
