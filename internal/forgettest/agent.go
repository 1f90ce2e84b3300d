package forgettest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Locks are the locks of one process, of whatever library.
type Locks interface {
	// Acquire waits for a lock until ctx ends. permits is how many of a semaphore are wanted.
	Acquire(ctx context.Context, kind Kind, name string, permits int) (Grant, error)
	// SetPermits sets how many permits there are, unless that is set.
	SetPermits(ctx context.Context, kind Kind, name string, permits int)
	Close()
}

// Grant is a lock that was granted.
type Grant interface {
	// Token is 0 if the library has none.
	Token() uint64
	// Done is closed when the holder learns that the lock is lost.
	Done() <-chan struct{}
	// Remaining is how long the holder may trust that it has the lock, without further news. It is 0 if it may not.
	Remaining() time.Duration
	// Release returns why the lock was lost before, or nothing.
	Release() (lost string)
}

// Open opens the locks of a process at a Redis URL.
type Open func(ctx context.Context, url string) (Locks, error)

// agentVariable has the task of a process that is an agent.
const agentVariable = "LOCKAGENT_TEST_FORGETS"

// task is what an agent has to know.
type task struct {
	Agent   int
	Library string
	URL     string
	Run     string // the end of the names of this run
	Kinds   []Kind
}

// account is what an agent has written down.
type account struct {
	Holds   []Hold
	Refused map[string]int
	Stuck   int // workers that did not end
}

// Child is for TestMain, and has the libraries by their names. In a process that [Case.Run] has started it does what an
// agent does, and ends the process. Otherwise it does nothing.
func Child(libraries map[string]Open) {
	text := os.Getenv(agentVariable)
	if text == "" {
		return
	}
	if err := runAgent(text, libraries); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAgent works until the standard input ends, and then says what it has written down.
func runAgent(text string, libraries map[string]Open) error {
	a := &agent{first: make(chan struct{}), refused: make(map[string]int)}
	if err := json.Unmarshal([]byte(text), &a.task); err != nil {
		return err
	}
	open, ok := libraries[a.task.Library]
	if !ok {
		return fmt.Errorf("no library %q", a.task.Library)
	}
	var err error
	if a.locks, err = open(context.Background(), a.task.URL); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := a.begin(ctx)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-a.first:
		fmt.Println("works")
		<-ended
	case <-ended: // so has the test
	}
	stop()
	says := account{Stuck: a.await(done)}
	a.mu.Lock()
	says.Holds, says.Refused = a.holds, a.refused
	a.mu.Unlock()
	if says.Stuck == 0 {
		a.locks.Close()
	}
	return json.NewEncoder(os.Stdout).Encode(says)
}

// agent is one process that takes locks.
type agent struct {
	task    task
	locks   Locks
	working atomic.Int64
	first   chan struct{} // closed when the first hold is over

	mu      sync.Mutex     // protects what follows
	holds   []Hold         // that are over
	refused map[string]int // requests, by the error
}

// begin starts the workers. They work until ctx ends. The channel is closed when all have ended.
func (a *agent) begin(ctx context.Context) <-chan struct{} {
	var all sync.WaitGroup
	work := func(f func()) {
		a.working.Add(1)
		all.Go(func() {
			defer a.working.Add(-1)
			f()
		})
	}
	for _, l := range loads {
		if !slices.Contains(a.task.Kinds, l.kind) {
			continue
		}
		if l.kind.counts() {
			work(func() { a.setPermits(ctx, l) })
		}
		for range l.workers {
			work(func() { a.work(ctx, l) })
		}
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// patience is how long a worker may take to end: longer than a release waits for a server that is away.
const patience = 20 * time.Second

// await returns how many workers have not ended.
func (a *agent) await(done <-chan struct{}) int {
	select {
	case <-done:
	case <-time.After(patience):
	}
	return int(a.working.Load())
}

// setPermits sets the number of permits again if the store has forgotten it, as programs do when they start.
func (a *agent) setPermits(ctx context.Context, l load) {
	for ctx.Err() == nil {
		a.locks.SetPermits(ctx, l.kind, l.lock+a.task.Run, totalPermits)
		rest(ctx, 200*time.Millisecond)
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// work is what a worker does. A request that is still under way at the end is written down, too.
func (a *agent) work(ctx context.Context, l load) {
	for rest(ctx, rand.N(l.pause[a.task.Agent])); ctx.Err() == nil; rest(ctx, rand.N(l.pause[a.task.Agent])) {
		h := Hold{
			Lock: l.lock, Kind: l.kind, Agent: a.task.Agent, Hot: l.hot,
			Weight: l.kind.weight(), Capacity: l.kind.capacity(), Asked: now(),
		}
		g, err := a.locks.Acquire(ctx, l.kind, l.lock+a.task.Run, h.Weight)
		if err == nil {
			h.Granted, h.Token = now(), g.Token()
			h.Ended, h.Lost = hold(ctx, g, h.Granted, l.hold[0]+rand.N(l.hold[1]-l.hold[0]))
			h.Released = now()
		}
		a.mu.Lock()
		if err == nil || ctx.Err() != nil {
			if len(a.holds) == 0 {
				close(a.first)
			}
			a.holds = append(a.holds, h)
		} else {
			a.refused[err.Error()]++
		}
		a.mu.Unlock()
	}
}

// hold keeps a lock for a time, or until it is lost. It returns when the holder no longer trusted its hold, and why the
// hold was lost. A process that did not run learns too late that its deadline has passed. So hold looks again and again
// when that will be. If the process did not run before the first look, nobody trusted the hold.
func hold(ctx context.Context, g Grant, granted Instant, d time.Duration) (ended Instant, lost string) {
	over := time.After(d)
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	deadline := granted
	look := func() (trusted bool) {
		before := now() // if the process does not run from here on, the deadline is too early, and not too late
		left := g.Remaining()
		if left > 0 {
			deadline = before + left
		}
		return left > 0
	}
	for holding := look(); holding; {
		select {
		case <-ticks.C:
			holding = look()
		case <-g.Done():
			holding = false
		case <-over:
			holding = false
		case <-ctx.Done():
			holding = false
		}
	}
	ended = now()
	if lost = g.Release(); lost != "" {
		ended = min(ended, deadline)
	}
	return ended, lost
}
