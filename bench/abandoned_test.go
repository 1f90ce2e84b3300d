package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// lockFunc is a contender of which only Lock matters.
type lockFunc func(context.Context) (contender.Held, error)

func (f lockFunc) Lock(ctx context.Context, _ string) (contender.Held, error) { return f(ctx) }
func (lockFunc) Close()                                                       {}

// heldWith is a lock whose Unlock returns err.
type heldWith struct{ err error }

func (h heldWith) Unlock() error { return h.err }
func (heldWith) Lost() bool      { return false }

// Only what the end of the context prevented is abandoned.
func TestWhatIsAbandoned(t *testing.T) {
	const never = time.Duration(math.MaxInt64) // a random part of it does not pass in a second
	broken := errors.New("broken")
	ended := func(wrap string) lockFunc {
		return func(ctx context.Context) (contender.Held, error) {
			<-ctx.Done()
			return nil, fmt.Errorf(wrap, context.Cause(ctx))
		}
	}
	after := func(h contender.Held, err error) lockFunc {
		return func(context.Context) (contender.Held, error) {
			time.Sleep(time.Second)
			return h, err
		}
	}
	for name, c := range map[string]struct {
		lock                         lockFunc
		within                       time.Duration
		completed, abandoned, failed bool
	}{
		"the end of the context":  {lock: ended("%w"), within: time.Second, abandoned: true},
		"the same in other words": {lock: ended("lock: %w"), within: time.Second, abandoned: true},
		"the same in words only":  {lock: ended("lock: %v"), within: time.Second, failed: true},
		"another error after the end": {
			lock: func(ctx context.Context) (contender.Held, error) { <-ctx.Done(); return nil, broken }, within: time.Second,
			failed: true,
		},
		"another error before the end":   {lock: after(nil, broken), within: time.Hour, failed: true},
		"a context that has not ended":   {lock: after(nil, context.Canceled), within: never, failed: true},
		"nobody gives up":                {lock: ended("%w"), failed: true},
		"granted":                        {lock: after(heldWith{}, nil), within: time.Hour, completed: true},
		"granted and not given back":     {lock: after(heldWith{broken}, nil), within: time.Hour, failed: true},
		"granted and given back in vain": {lock: after(heldWith{context.Canceled}, nil), within: time.Hour, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := abandon{window: 2 * patience, within: c.within, name: func(int) string { return "bench" }}
				o := a.run(t.Context(), c.lock)
				if o.completed > 0 != c.completed || o.abandoned > 0 != c.abandoned || o.failed > 0 != c.failed ||
					(o.err != nil) != c.failed {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

// The cause of a context's end need not be an error of package context.
func TestCausesAreOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	tired := errors.New("tired")
	if ofContext(ctx, tired) {
		t.Error("an error is of a context that goes on")
	}
	cancel(tired)
	if !ofContext(ctx, fmt.Errorf("lock: %w", tired)) || !ofContext(ctx, context.Canceled) ||
		ofContext(ctx, errors.New("broken")) {
		t.Error("an error is taken for that of a context, or is not")
	}
	var waits stat.Recorder
	cause := lockFunc(func(ctx context.Context) (contender.Held, error) { return nil, context.Cause(ctx) })
	if err := (abandon{within: time.Hour}).once(ctx, cause, 0, "bench", &waits); !errors.Is(err, errAbandoned) {
		t.Errorf("%v, want errAbandoned", err)
	}
}
