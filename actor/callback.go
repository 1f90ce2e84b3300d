package actor

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/lockagent/lockagent"
)

// record gives an event to the recorder, if there is one.
func (a *Agent) record(ctx context.Context, e *lockagent.Event) {
	if a.cfg.Recorder == nil {
		return
	}
	e.Agent = a.cfg.ID
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Store = a.store()
	returned := false
	defer a.survive("recorder", &returned)
	a.cfg.Recorder.Record(ctx, *e)
	returned = true
}

// recording reports whether the recorder, which there is, wants an event with the context. If it panics, it may.
func (a *Agent) recording(ctx context.Context) (wanted bool) {
	if a.selective == nil {
		return true
	}
	returned := false
	defer a.survive("recorder", &returned)
	wanted = true
	wanted = a.selective.Enabled(ctx)
	returned = true
	return wanted
}

// store is the identity of the store. A store without a history has none, and one that panics.
func (a *Agent) store() string {
	if a.layers.history == nil {
		return ""
	}
	returned := false
	defer a.survive("store", &returned)
	id := a.layers.history.Identity()
	returned = true
	return id
}

// callback calls a function of the application, if there is one.
func (a *Agent) callback(whose string, f func()) {
	if f == nil {
		return
	}
	returned := false
	defer a.survive(whose, &returned)
	f()
	returned = true
}

// survive is deferred around code that is not the agent's own, and recovers from its panics. Such code must not end
// its goroutine: see [goroutineEnded].
func (a *Agent) survive(whose string, returned *bool) {
	if *returned {
		return
	}
	if p := recover(); p != nil {
		a.complain(whose, p)
		return
	}
	goroutineEnded(whose)
}

// goroutineEnded ends the process, because code that is not the agent's own has called [runtime.Goexit] in the middle
// of a step: nothing recovers from that, and the state of the lock is lost with the goroutine. The panic is in a
// goroutine that nobody can recover in. The present one goes no further.
func goroutineEnded(whose string) {
	go panic("lockagent: " + whose + " ended the goroutine of a lock by runtime.Goexit, as FailNow of a test does; " +
		"the agent cannot go on: return instead, and in a test call Error")
	select {}
}

// complain logs a panic.
func (a *Agent) complain(whose string, p any) {
	defer func() { _ = recover() }() // the logger may panic, too, and then there is nobody left to tell
	a.cfg.Logger.Error("lockagent: recovered from a panic", "of", whose, "panic", p, "stack", string(debug.Stack()))
}
