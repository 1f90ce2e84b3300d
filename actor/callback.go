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
	if a.wild.Load() {
		e := *e
		a.apart("recorder", func() { a.cfg.Recorder.Record(ctx, e) })
		return
	}
	defer a.survive("recorder")
	a.cfg.Recorder.Record(ctx, *e)
}

// recording reports whether the recorder, which there is, wants an event with the context. If it panics, it may.
func (a *Agent) recording(ctx context.Context) (wanted bool) {
	if a.selective == nil || a.wild.Load() {
		return true
	}
	defer a.survive("recorder")
	wanted = true
	wanted = a.selective.Enabled(ctx)
	return wanted
}

// store is the identity of the store. A store without a history has none, and one that panics.
func (a *Agent) store() string {
	if a.layers.history == nil {
		return ""
	}
	defer a.survive("store")
	return a.layers.history.Identity()
}

// callback calls a function of the application, if there is one.
func (a *Agent) callback(whose string, f func()) {
	switch {
	case f == nil:
	case a.wild.Load():
		a.apart(whose, f)
	default:
		defer a.survive(whose)
		f()
	}
}

// apart calls code that is not the agent's own in another goroutine, which that code may end.
// This is expensive. So the agent begins with it after the first callback that ended its
// goroutine. The lock of that callback starts over, as after a panic.
func (a *Agent) apart(whose string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.survive(whose)
		f()
	}()
	<-done
}

// survive is deferred around code that is not the agent's own. It recovers from its panics.
func (a *Agent) survive(whose string) {
	if p := recover(); p != nil {
		a.complain(whose, p)
	}
}

// complain logs a panic.
func (a *Agent) complain(whose string, p any) {
	defer func() { _ = recover() }() // the logger may panic, too, and then there is nobody left to tell
	a.cfg.Logger.Error("lockagent: recovered from a panic", "of", whose, "panic", p, "stack", string(debug.Stack()))
}
