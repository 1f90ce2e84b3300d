package transport

import (
	"context"
	"fmt"
	"runtime/debug"
)

// consult calls a function of the application, which may panic, end its goroutine, or ignore its context. Each of these
// is an error of the attempt to connect. The function runs in a goroutine of its own, so nobody waits for one that
// hangs for longer than ctx goes on. No more functions run at a time than d.asked has room for: those that hang do not
// pile up. whose says in the error which function it is.
func consult[T any](ctx context.Context, d *dialer, whose string, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	late := fmt.Errorf("%s did not answer in time", whose)
	select {
	case d.asked <- struct{}{}:
	case <-ctx.Done():
		return none, late
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-d.asked }()
		a := answer{err: fmt.Errorf("%s ended its goroutine", whose)}
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("%s panicked: %v", whose, p)
				d.log.Error("lockagent: recovered from a panic", "of", whose, "panic", p, "stack", string(debug.Stack()))
			}
			answers <- a
		}()
		a.value, a.err = f()
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, late
	}
}
