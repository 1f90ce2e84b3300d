package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
)

// kept measures what it costs to hold many locks for long. Peers and the floor hold
// only the smaller number.
func (b *bench) kept(ctx context.Context, name string, locks int) error {
	t := &table{
		Name:  name,
		Title: fmt.Sprintf("%d locks kept by one process", locks),
		Columns: []column{
			{Key: "seconds", Title: "for s"},
			{Key: "acquire", Title: "acquired in s"},
			{Key: "cpu", Title: "client cores"},
			{Key: "heap", Title: "heap bytes/lock"},
			{Key: "sent", Title: "commands/s"},
			{Key: "burst100ms", Title: "most in 100 ms, /s"},
			{Key: "burst1s", Title: "most in 1 s, /s"},
			{Key: "lost", Title: "lost"},
		},
		Notes: []string{
			"Heap is what is in use after a collection, less what was before the first lock, at which time the benchmark had " +
				"its names and its list already; what a contender returns for a lock counts as its own. " +
				"Commands are sampled every 100 ms. redsync and redislock renew nothing: for them the benchmark runs a goroutine " +
				"for each lock that extends it every 10 s. The floor renews 100 locks a call, evenly over 10 s. Each has a " +
				"process and a server of its own; lockagent and rueidislock are measured alone, the others, which do little, at " +
				"the same time.",
		},
	}
	b.results.Tables = append(b.results.Tables, t)
	found := make([]*series, len(contender.Kinds))
	failed := make([]error, len(contender.Kinds))
	var idle []func() // those that hardly do anything are measured together
	for i, kind := range contender.Kinds {
		ours := kind.Family == contender.Lockagent
		alike := kind.Name != contender.Floor && kind.Family == contender.Floor ||
			kind.Name == "redsync-best" || kind.Name == "redislock-best" // they differ in how they wait
		if alike || !ours && locks > b.plan.KeptFew || !b.wants(kind) {
			continue
		}
		keep := func(d time.Duration) { found[i], failed[i] = b.keep(ctx, kind, locks, d) }
		switch {
		case ours:
			keep(b.plan.KeptFor)
		case kind.Name == contender.Rueidislock: // it needs more than a core
			keep(b.plan.PeersKeptFor)
		default:
			idle = append(idle, func() { keep(b.plan.PeersKeptFor) })
		}
	}
	var together sync.WaitGroup
	for _, keep := range idle {
		together.Go(keep)
	}
	together.Wait()
	for i, kind := range contender.Kinds {
		if failed[i] != nil {
			return fmt.Errorf("%s: %w", kind.Name, failed[i])
		}
		if found[i] != nil {
			t.Rows = append(t.Rows, found[i].row(kind.Name))
		}
	}
	return nil
}

// keptReport is what a worker says when it has its locks, and again in the end.
type keptReport struct {
	Seconds float64 // to acquire them
	Failed  int
	Error   string

	CPU  float64 // seconds of processor time while they were kept
	Heap float64 // bytes for a lock
	Lost int
}

// keep measures one contender in a process and with a server of its own.
func (b *bench) keep(ctx context.Context, kind contender.Kind, locks int, d time.Duration) (*series, error) {
	s, err := startServer()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	w, err := startWorker(ctx, task{Role: "keep", Contender: kind.Name, Addr: s.Addr(), Locks: locks})
	if err != nil {
		return nil, err
	}
	defer w.quit() // giving all back can take longer than all else
	var got, end keptReport
	if err := w.hear(&got); err != nil {
		return nil, err
	}
	if err := w.say("measure"); err != nil {
		return nil, err
	}
	samples, err := s.sample(ctx, d, kind.Sends)
	if err != nil {
		return nil, err
	}
	if err := w.say("stop"); err != nil {
		return nil, err
	}
	if err := w.hear(&end); err != nil {
		return nil, err
	}
	found := newSeries()
	found.add("seconds", samples.seconds())
	found.add("acquire", got.Seconds)
	found.add("cpu", end.CPU/samples.seconds())
	found.add("heap", end.Heap)
	found.add("sent", samples.mean())
	found.add("burst100ms", samples.most(100*time.Millisecond))
	found.add("burst1s", samples.most(time.Second))
	found.add("lost", float64(end.Lost))
	if got.Failed > 0 {
		found.note = fmt.Sprintf("%d of %d not acquired: %s", got.Failed, locks, got.Error)
	}
	return found, nil
}

// samples are how many commands had been sent at some moments.
type samples []sample

type sample struct {
	at   time.Time
	sent int64
}

// sample watches the server for a while.
func (s *server) sample(ctx context.Context, d time.Duration, also []string) (samples, error) {
	const interval = 100 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var taken samples
	for end := time.Now().Add(d); ; {
		counts, err := s.counts()
		if err != nil {
			return nil, err
		}
		taken = append(taken, sample{time.Now(), counts.Sent(also...)})
		if time.Now().After(end) {
			return taken, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s samples) seconds() float64 { return s[len(s)-1].at.Sub(s[0].at).Seconds() }

// mean is how many commands were sent in a second.
func (s samples) mean() float64 { return float64(s[len(s)-1].sent-s[0].sent) / s.seconds() }

// most is the greatest rate, in commands per second, over any time of about d.
func (s samples) most(d time.Duration) float64 {
	most := 0.0
	first := 0
	for i := range s {
		for first+1 < i && s[i].at.Sub(s[first+1].at) >= d-d/10 {
			first++
		}
		if i > first {
			most = max(most, float64(s[i].sent-s[first].sent)/s[i].at.Sub(s[first].at).Seconds())
		}
	}
	return most
}

// keepWorker acquires locks and keeps them until it is killed.
func keepWorker(ctx context.Context, t *task, parent *conversation) error {
	c, err := t.open(ctx)
	if err != nil {
		return err
	}
	names := make([]string, t.Locks)
	for i := range names {
		names[i] = "bench/" + strconv.Itoa(i)
	}
	lock := c.Lock
	switch c := c.(type) {
	case *contender.FloorClient:
		lock = c.LockAsOne
	case contender.Keeper:
		lock = c.Keep
	}
	held := make([]contender.Held, t.Locks)
	before := heap()
	begin := time.Now()
	report := acquireAll(ctx, names, held, lock)
	report.Seconds = time.Since(begin).Seconds()
	if floor, ok := c.(*contender.FloorClient); ok {
		go renewEvenly(ctx, floor, names)
	}
	if err := parent.say(report); err != nil {
		return err
	}
	if err := parent.hear(new(string)); err != nil {
		return err
	}
	cpu := cpuSeconds()
	if err := parent.hear(new(string)); err != nil {
		return err
	}
	report.CPU = cpuSeconds() - cpu
	report.Heap = (heap() - before) / float64(t.Locks)
	for _, h := range held {
		if h != nil && h.Lost() {
			report.Lost++
		}
	}
	if err := parent.say(report); err != nil {
		return err
	}
	_ = parent.hear(new(string)) // until it is killed
	runtime.KeepAlive(held)
	return nil
}

// heap is how many bytes are in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what pools hold is let go by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// acquireAll acquires locks, many at a time.
func acquireAll(
	ctx context.Context, names []string, held []contender.Held, lock func(context.Context, string) (contender.Held, error),
) keptReport {
	const goroutines = 256
	var next atomic.Int64
	var failed atomic.Int64
	var mu sync.Mutex
	var first error // guarded by mu
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				h, err := lockPatiently(ctx, names[i], lock)
				if err != nil {
					failed.Add(1)
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					continue
				}
				held[i] = h
			}
		})
	}
	all.Wait()
	report := keptReport{Failed: int(failed.Load())}
	if first != nil {
		report.Error = first.Error()
	}
	return report
}

// lockPatiently gives up after some time, for there are contenders that can wait for a
// free lock for ever. The context lives on if the lock was had, because some hold it
// no longer than that.
func lockPatiently(
	ctx context.Context, name string, lock func(context.Context, string) (contender.Held, error),
) (contender.Held, error) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(patience, cancel).Stop()
	return lock(ctx, name)
}

// renewEvenly renews all locks in every third of their lease, 100 in a call.
func renewEvenly(ctx context.Context, floor *contender.FloorClient, names []string) {
	const batch = 100
	batches := (len(names) + batch - 1) / batch
	next := 0
	for range time.Tick(10 * time.Second / time.Duration(batches)) {
		begin := next * batch
		if _, err := floor.Extend(ctx, names[begin:min(begin+batch, len(names))], contender.OneToken); err != nil {
			return // the server is gone
		}
		next = (next + 1) % batches
	}
}
