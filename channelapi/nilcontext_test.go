package channelapi_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

// A call with a nil context panics in the goroutine of its caller, and has no effect.
func TestNilContext(t *testing.T) {
	locks, err := channelapi.New(channelapi.Config{Store: memstore.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	var none context.Context
	lock, semaphore, latch := locks.Lock("door"), locks.Semaphore("seats"), locks.Latch("start")
	work := func(context.Context, channelapi.Grant) error { return nil }
	works := func(context.Context, []channelapi.Grant) error { return nil }
	for what, call := range map[string]func(){
		"Acquire":      func() { _, _ = lock.Acquire(none) },
		"AcquireAsync": func() { lock.AcquireAsync(none) },
		"TryAcquire":   func() { _, _ = lock.TryAcquire(none) },
		"Do":           func() { _ = lock.Do(none, work) },
		"DoAsync":      func() { lock.DoAsync(none, work) },
		"Turns":        func() { lock.Turns(none) },
		"All":          func() { _, _ = channelapi.All(none, lock) },
		"AllAsync":     func() { channelapi.AllAsync(none, lock) },
		"First":        func() { _, _ = channelapi.First(none, lock) },
		"FirstAsync":   func() { channelapi.FirstAsync(none, lock) },
		"DoAll":        func() { _ = channelapi.DoAll(none, works, lock) },
		"DoAllAsync":   func() { channelapi.DoAllAsync(none, works, lock) },
		"Status":       func() { _, _ = lock.Status(none) },
		"Break":        func() { _, _ = lock.Break(none, "olga") },
		"semaphore":    func() { semaphore.AcquireAsync(none, 1) },
		"set permits":  func() { _, _ = semaphore.TrySetPermits(none, 1) },
		"await":        func() { latch.AwaitAsync(none) },
		"set a latch":  func() { latch.SetAsync(none, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			call()
		}()
	}
	g, err := lock.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
