package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// abandoned measures requests whose context is cancelled at a random moment, and
// what they leave behind.
func (b *bench) abandoned(ctx context.Context) error {
	t := &table{
		Name:  "abandoned",
		Title: "Abandoned requests: context cancelled at a random moment of an acquire, 64 goroutines with a lock each",
		Columns: []column{
			{Key: "completed", Title: "completed/s, none cancelled"},
			{Key: "abandoned", Title: "abandoned/s"},
			{Key: "x", Title: "abandoned x completed", Spread: true},
			{Key: "beside", Title: "completed beside them/s"},
			{Key: "keys", Title: "keys left"},
			{Key: "goroutines", Title: "goroutines left"},
			{Key: "failed", Title: "failed"},
		},
		Notes: []string{
			"A round without cancelling is followed by one in which each acquire is cancelled after a random part of the " +
				"median wait of the first; in both, each request makes a context and a timer. Those that were granted in spite " +
				"of it are completed, with their release; those whose error is not that of the context have failed. redsync says " +
				"of all of them that it failed to acquire the lock, and not why. " +
				"Keys and goroutines are looked at when at most 3 s have passed. Keys of lockagent's clock, and of its notes " +
				"about locks, are not locks; the notes expire. No lock of lockagent rests, because a request for one that does " +
				"is over before it can be abandoned.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	for _, kind := range contender.Kinds {
		if !kind.Waits || !b.wants(kind) {
			continue
		}
		name := kind.Name
		if name == contender.Lockagent {
			kind = contender.Unrested
		}
		found, err := b.abandonedBy(ctx, kind, b.rounds(kind))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.Rows = append(t.Rows, found.row(name))
	}
	return nil
}

func (b *bench) abandonedBy(ctx context.Context, kind contender.Kind, rounds int) (*series, error) {
	s, err := startServer()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	c, err := b.open(ctx, kind, s)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	found := newSeries()
	for round := range rounds {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// What a round left behind is not in the way of the next.
		name := func(g int) string { return fmt.Sprintf("bench/%d/%d", round, g) }
		collect()
		completing := abandon{window: b.plan.Window, name: name}.run(ctx, c.Contender)
		before := runtime.NumGoroutine()
		collect()
		abandoning := abandon{window: b.plan.Window, name: name, within: completing.waits.At(50)}.run(ctx, c.Contender)
		found.add("completed", completing.completed)
		found.add("abandoned", abandoning.abandoned)
		found.add("x", abandoning.abandoned/completing.completed)
		found.add("beside", abandoning.completed)
		found.add("failed", float64(completing.failed+abandoning.failed))
		if err := cmp.Or(completing.err, abandoning.err); err != nil {
			found.note = err.Error()
		}
		keys, goroutines, err := s.left(before)
		if err != nil {
			return nil, err
		}
		found.add("keys", float64(keys))
		found.add("goroutines", float64(goroutines))
	}
	return found, nil
}

// left waits a while until no locks and no more goroutines than before are left, and
// returns what is.
func (s *server) left(goroutines int) (keys, more int, err error) {
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if keys, err = s.locks("bench/"); err != nil {
			return 0, 0, err
		}
		more = max(0, runtime.NumGoroutine()-goroutines)
		if keys == 0 && more == 0 || time.Now().After(end) {
			return keys, more, nil
		}
	}
}

// locks counts the keys of locks whose names have that part.
func (s *server) locks(part string) (int, error) {
	reply, err := s.watches[0].Do("KEYS", "*"+part+"*")
	if err != nil {
		return 0, err
	}
	keys, _ := reply.([]any)
	n := 0
	for _, key := range keys {
		if name, _ := key.(string); !strings.HasPrefix(name, "lockagent_") {
			n++
		}
	}
	return n, nil
}

// abandon is requests that are given up at a random moment within some time, or
// never if that is 0.
type abandon struct {
	window, within time.Duration
	name           func(goroutine int) string
}

type abandonOutcome struct {
	completed, abandoned float64 // per second
	failed               int64
	err                  error // the first of those that failed
	waits                *stat.Histogram
}

func (a abandon) run(ctx context.Context, c contender.Contender) abandonOutcome {
	var completed, abandoned, failed atomic.Int64
	var first atomic.Pointer[error] // of those that failed
	var over atomic.Bool
	var waits stat.Recorder
	var all sync.WaitGroup
	if s, ok := c.(*contender.Slowed); ok {
		s.Begin()
	}
	begin := time.Now()
	for g := range 64 {
		name := a.name(g)
		all.Go(func() {
			for !over.Load() {
				err := a.once(ctx, c, g, name, &waits)
				switch {
				case over.Load():
				case err == nil:
					completed.Add(1)
				case errors.Is(err, errAbandoned):
					abandoned.Add(1)
				default:
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	time.Sleep(a.window)
	over.Store(true)
	seconds := time.Since(begin).Seconds()
	all.Wait()
	o := abandonOutcome{
		completed: float64(completed.Load()) / seconds, abandoned: float64(abandoned.Load()) / seconds,
		failed: failed.Load(), waits: waits.Histogram(),
	}
	if err := first.Load(); err != nil {
		o.err = *err
	}
	return o
}

var errAbandoned = errors.New("given up when the context had ended")

// once acquires the lock and releases it. The error is errAbandoned if it was the end of
// the context that prevented it.
func (a abandon) once(ctx context.Context, c contender.Contender, g int, name string, waits *stat.Recorder) error {
	ctx, cancel := context.WithTimeout(ctx, patience) // a library may need a deadline
	defer cancel()
	after := patience
	if a.within > 0 {
		after = rand.N(a.within)
	}
	timer := time.AfterFunc(after, cancel)
	defer timer.Stop()
	begin := time.Now()
	held, err := c.Lock(ctx, name)
	waits.Record(g, time.Since(begin))
	switch {
	case err == nil:
		return held.Unlock()
	case a.within > 0 && ofContext(ctx, err):
		return errAbandoned
	}
	return err
}

// ofContext reports whether an error says that a context has ended, which it has.
func ofContext(ctx context.Context, err error) bool {
	return ctx.Err() != nil &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx)))
}
