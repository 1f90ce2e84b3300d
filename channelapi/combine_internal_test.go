package channelapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/memstore"
)

// First and Await tell why a grant was taken back before they could receive it.
func TestTakenBackWhenTheContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, err := New(Config{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locks.Close() }()
		changedMind := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(t.Context())
		grant := locks.Lock("a").Acquire(ctx)
		// The context ends while First is about to ask for its second lock, and has
		// been granted the first.
		ending := acquireOption(func(*actor.Request) error {
			synctest.Wait()
			cancel(changedMind)
			synctest.Wait()
			return nil
		})
		i, g, err := First(ctx, locks.Lock("b").With(), locks.Lock("c").With(ending))
		if i != -1 || g.Held() {
			t.Errorf("First granted %d", i)
		}
		errs := err.(interface{ Unwrap() []error }).Unwrap()
		if len(errs) != 2 || !errors.Is(errs[0], changedMind) || !errors.Is(errs[1], changedMind) {
			t.Errorf("First: %q, want twice %v", errs, changedMind)
		}
		if _, err := Await(ctx, grant); !errors.Is(err, changedMind) {
			t.Errorf("Await: %v, want %v", err, changedMind)
		}
	})
}
