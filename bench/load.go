package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// patience is how long a wait for a lock may take before it has failed.
var patience = 10 * time.Second

// callsEnd is how long calls may go on after a load in which nobody waits for a
// lock. A cancelled call could leave its key behind, and disturb the next round.
const callsEnd = time.Second

// firstCycle is how much longer than its window a round is, at most, if no cycle has ended.
var firstCycle = 3 * time.Second

// load is what some goroutines do with locks for a while.
type load struct {
	goroutines int
	window     time.Duration
	name       func(goroutine, cycle int) string
	floorName  func(goroutine, cycle int) string // of the lock in its place that the floor takes; the other may rest
	inside     func()                            // while a lock is held; may be nil
	grace      time.Duration                     // for calls to end after the window, before their contexts do
	// every is the pace of each goroutine. Latencies then count from when a cycle
	// was due. With 0 a goroutine begins a cycle when it has ended the last one.
	every time.Duration
	// deadline, if it is not 0, is given to each cycle by a context of its own. Otherwise
	// a goroutine has one context for all its cycles.
	deadline time.Duration
	// do is whether a contender that is a Doer does the cycle by Do.
	do bool
}

// outcome is what came of a load. What ended after the window does not count.
type outcome struct {
	Seconds float64 `json:"seconds"`
	Cycles  []int64 `json:"cycles"` // of each goroutine
	Failed  int64   `json:"failed"`
	Error   string  `json:"error,omitempty"` // the first one
	// Of the calls of Lock, those included that the end of the window cut off.
	Waits *stat.Histogram `json:"waits"`
	Spans *stat.Histogram `json:"spans"` // of whole cycles
}

func (o *outcome) total() int64 {
	var n int64
	for _, c := range o.Cycles {
		n += c
	}
	return n
}

func (o *outcome) rate() float64 { return float64(o.total()) / o.Seconds }

// run puts the load on a contender. An error says that the contender let go of a
// lock it should have had, or that nothing worked at all.
func (l load) run(ctx context.Context, c contender.Contender) (*outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{
		load: l, contender: c, cycles: make([]int64, l.goroutines), begin: make(chan struct{}),
		something: make(chan struct{}),
	}
	var all sync.WaitGroup
	for g := range l.goroutines {
		all.Go(func() { r.goroutine(ctx, g) })
	}
	if s, ok := c.(*contender.Slowed); ok {
		s.Begin()
	}
	r.start = time.Now()
	close(r.begin)
	select {
	case <-time.After(l.window):
	case <-ctx.Done():
	}
	select { // on a machine that is busy with other things a short window may be too short
	case <-r.something:
	case <-time.After(firstCycle):
	case <-ctx.Done():
	}
	r.over.Store(true)
	elapsed := time.Since(r.start)
	rest := time.AfterFunc(l.grace, func() {
		r.section.Lock()
		defer r.section.Unlock()
		cancel()
	})
	all.Wait()
	rest.Stop()
	o := &outcome{
		Seconds: elapsed.Seconds(), Cycles: r.cycles, Failed: r.failed.Load(),
		Waits: r.waits.Histogram(), Spans: r.spans.Histogram(),
	}
	if err, _ := r.err.Load().(error); err != nil {
		o.Error = err.Error()
		if o.total() == 0 {
			return nil, fmt.Errorf("nothing was acquired: %w", err)
		}
	}
	return o, nil
}

type runner struct {
	load
	contender contender.Contender
	begin     chan struct{}
	something chan struct{} // closed when the first cycle is over, or has failed
	first     sync.Once
	start     time.Time
	over      atomic.Bool
	section   sync.RWMutex // keeps the context of a holder that is inside from ending, for some hold no longer than it
	cycles    []int64
	failed    atomic.Int64
	err       atomic.Value
	waits     stat.Recorder
	spans     stat.Recorder
}

func (r *runner) goroutine(ctx context.Context, g int) {
	// As that of a request that does several things.
	ctx, cancel := context.WithTimeout(ctx, r.window+patience)
	defer cancel()
	<-r.begin
	done := int64(0) // not in r.cycles, which has its neighbours in the same cache line
	for cycle := 0; !r.over.Load(); cycle++ {
		due := time.Now()
		if r.every > 0 {
			// Phases are spread, so that the goroutines are not one burst.
			phase := r.every * time.Duration(g) / time.Duration(r.goroutines)
			due = r.start.Add(phase + time.Duration(cycle)*r.every)
			time.Sleep(time.Until(due))
			if r.over.Load() {
				break
			}
		}
		ok, err := r.cycle(ctx, g, cycle, due)
		if r.over.Load() {
			break
		}
		if err != nil {
			r.failed.Add(1)
			r.err.CompareAndSwap(nil, fmt.Errorf("%w", err)) // of one type, as atomic.Value wants
		}
		if ok {
			done++
		}
		r.first.Do(func() { close(r.something) })
	}
	r.cycles[g] = done
}

func (r *runner) cycle(ctx context.Context, g, cycle int, due time.Time) (ok bool, err error) {
	if r.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.deadline)
		defer cancel() // after Unlock, for some hold a lock no longer than its context lives
	}
	if doer, ok := r.contender.(contender.Doer); ok && r.do {
		if err := doer.Do(ctx, r.name(g, cycle), r.work); err != nil {
			return false, err
		}
		if !r.over.Load() {
			r.spans.Record(g, time.Since(due))
		}
		return true, nil
	}
	held, err := r.contender.Lock(ctx, r.name(g, cycle))
	waited := time.Since(due)
	r.waits.Record(g, waited)
	if err != nil {
		return false, err
	}
	r.work()
	err = held.Unlock()
	if !r.over.Load() {
		r.spans.Record(g, time.Since(due))
	}
	return true, err
}

// work is what is done under a lock.
func (r *runner) work() {
	if r.inside == nil {
		return
	}
	r.section.RLock()
	defer r.section.RUnlock()
	if !r.over.Load() {
		r.inside()
	}
}
