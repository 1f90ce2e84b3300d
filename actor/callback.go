package actor

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/lockagent/lockagent"
)

// record hands an event to the recorder, if there is one. A recorder that panics
// costs nobody a lock.
func (a *Agent) record(ctx context.Context, e *lockagent.Event) {
	if a.cfg.Recorder == nil {
		return
	}
	e.Agent = a.cfg.ID
	e.Time = time.Now()
	if a.wild.Load() {
		e := *e
		a.apart("recorder", func() { a.cfg.Recorder.Record(ctx, e) })
		return
	}
	defer a.survive("recorder")
	a.cfg.Recorder.Record(ctx, *e)
}

// callback calls a function of the application.
func (a *Agent) callback(whose string, f func()) {
	if a.wild.Load() {
		a.apart(whose, f)
		return
	}
	defer a.survive(whose)
	f()
}

// apart calls code that is not the agent's own in a goroutine that the code may end. That is
// dear, so the agent begins with it when it has met a callback that does so. The lock that met
// it starts over, as after a panic.
func (a *Agent) apart(whose string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.survive(whose)
		f()
	}()
	<-done
}

// survive is deferred around code that is not the agent's own. It ends a panic
// there.
func (a *Agent) survive(whose string) {
	if p := recover(); p != nil {
		a.complain(whose, p)
	}
}

// complain logs a panic.
func (a *Agent) complain(whose string, p any) {
	defer func() { _ = recover() }() // of the logger: nobody is left to be told
	a.cfg.Logger.Error("lockagent: recovered from a panic", "of", whose, "panic", p, "stack", string(debug.Stack()))
}
