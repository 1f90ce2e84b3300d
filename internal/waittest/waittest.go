// Package waittest is for tests that wait for what happens in real time. How long it takes says nothing about the code
// on a machine that is busy, so no wait has a bound of its own. What never happens fails the test shortly before go
// test itself gives up, and then the stacks of all goroutines are on the standard error.
//
// # Usage
//
//	waittest.Until(t, "the agent to be in the queue", func() bool { return server.Do("ZCARD", queue) == int64(1) })
//	g := waittest.Receive(t, "the grant", lock.AcquireAsync(waittest.Context(t)))
//
// # Concurrency
//
// Any goroutine may call [Context], many at a time. As [testing.T.FailNow], only the goroutine of the test may call
// [Until] and [Receive]. In a bubble of testing/synctest, a wait lasts for a minute of its time at most.
package waittest

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
	"sync"
	"testing"
	"time"
)

// margin is how long before the end that go test sets the waits end: enough to print the stacks, to stop servers, and
// to print their logs on a busy machine.
const margin = 20 * time.Second

var errNever = errors.New("waittest: the time that go test has is over")

// inBubble is how long a wait lasts at most in a bubble of testing/synctest, where time is virtual.
const inBubble = time.Minute

// Context returns the context of the test. It also ends shortly before go test gives up. A benchmark has no such end.
// The context lasts as long as the test, so a loop makes one before it begins.
func Context(t testing.TB) context.Context {
	ctx, cancel := limited(t.Context(), t)
	t.Cleanup(cancel)
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errNever) {
			printStacks()
		}
	})
	return ctx
}

func limited(parent context.Context, t testing.TB) (context.Context, context.CancelFunc) {
	if time.Now().Year() < 2020 { // a bubble, in which time begins in the year 2000
		return context.WithTimeout(parent, inBubble)
	}
	timed, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return context.WithCancel(parent)
	}
	end, ok := timed.Deadline()
	if !ok { // go test -timeout 0
		return context.WithCancel(parent)
	}
	return context.WithDeadlineCause(parent, end.Add(-margin), errNever)
}

var printStacks = sync.OnceFunc(func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) })

// Until polls until a condition holds. What says in the error of a
// test that waits in vain what was waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := limited(context.Background(), t) // a test that cleans up waits, too
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			giveUp(ctx, t, what)
		}
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed. What is as for [Until].
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := limited(context.Background(), t) // a test that cleans up waits, too
	defer cancel()
	select {
	case value := <-from:
		return value
	case <-ctx.Done():
		giveUp(ctx, t, what)
		panic("not reached")
	}
}

func giveUp(ctx context.Context, t testing.TB, what string) {
	t.Helper()
	if errors.Is(context.Cause(ctx), errNever) {
		printStacks()
	}
	t.Fatalf("gave up waiting: %s", what)
}
