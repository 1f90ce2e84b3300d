// Package errand lets a caller who waits for an outcome do the work that leads to it.
//
// A call of a store is asynchronous: another goroutine makes the exchange with the
// server. A caller who would only sleep meanwhile can make it instead. That saves two
// switches of goroutines, which is a good part of what a call costs that nobody contends
// with. Package actor offers to do so with [New], and stores accept with [Leave].
package errand

import (
	"context"
	"sync"
)

// Errand is a context for one call whose caller waits for the outcome, whatever happens.
// So it is only for callers whose own context never ends. Make one with [New]; the zero
// Errand is of no use. It is safe for concurrent use.
type Errand struct {
	context.Context

	mu   sync.Mutex // guards what follows
	work func()
	over bool
}

type key struct{}

// New returns an errand with the values of ctx, for one call. The caller calls [Errand.Finish] or [Errand.Take] right
// after the call: the store may keep other calls waiting until then.
func New(ctx context.Context) *Errand { return &Errand{Context: ctx} }

// Value implements [context.Context].
func (e *Errand) Value(k any) any {
	if k == (key{}) {
		return e
	}
	return e.Context.Value(k)
}

// Leave leaves work to the caller of the call that ctx came with. It reports false if
// there is no such caller, or if something was left already. work takes a bounded time.
func Leave(ctx context.Context, work func()) bool {
	e, _ := ctx.Value(key{}).(*Errand)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.work != nil {
		return false
	}
	e.work = work
	return true
}

// Take returns the work that was left, or nil. Nothing more can be left afterwards. The caller
// does the work at once: the store may keep other calls waiting until then.
func (e *Errand) Take() (work func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	work, e.work, e.over = e.work, nil, true
	return work
}

// Finish does the work that was left, if any, and was not taken.
func (e *Errand) Finish() {
	if work := e.Take(); work != nil {
		work()
	}
}
