package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
)

const orders lockagent.Name = "orders/42"

// The leases of these agents. Nodes that lost their data are away for longest.
const (
	shortLease = 3 * time.Second
	longest    = 5 * time.Second
)

// Agents contend for a lock in virtual time, while nodes hang, are cut off from some of
// the agents, and lose their data. A seed fixes the mischief, but not the order of goroutines: the runs
// of one seed differ.
func TestMischief(t *testing.T) {
	t.Parallel()
	mischief(t, 6)
}

func mischief(t *testing.T, seeds int) {
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { contend(t, uint64(seed)) })
		})
	}
}

func contend(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, rnd: rnd, memories: newMemories(3 + 2*rnd.IntN(2))}
	for _, m := range w.memories { // clocks differ, by up to some hours
		m.StepClock(time.Duration(rnd.Int64N(int64(5 * time.Hour >> rnd.IntN(40)))))
	}
	var agents []*client
	for range 4 {
		agents = append(agents, w.agent())
	}
	end := time.Now().Add(time.Minute)
	var all sync.WaitGroup
	for _, a := range agents {
		all.Go(func() { a.contend(end) })
	}
	for time.Now().Before(end) {
		time.Sleep(w.upTo(2 * time.Second))
		w.mischief(agents)
	}
	w.heal(agents)
	all.Wait()
	if w.grants == 0 {
		t.Errorf("no grants")
	}

	// Now everything works again, and everybody gets the lock.
	time.Sleep(longest + longest/100)
	for _, a := range agents {
		ctx, cancel := context.WithTimeout(context.Background(), shortLease+time.Second)
		if err := a.visit(ctx); err != nil {
			t.Errorf("an agent is not granted the lock when all is well: %v", err)
		}
		cancel()
	}
	for _, a := range agents {
		_ = a.locks.Close()
	}
	time.Sleep(longest) // for the leases of what nodes were granted when they did not answer
	for i, m := range w.memories {
		m.Inspect(t.Context(), orders, lockagent.PlainLock, func(seen lockagent.Inspection, err error) {
			if seen.Held || err != nil {
				t.Errorf("node %d at the end: %+v, %v", i, seen, err)
			}
		})
	}
	t.Logf("%d nodes, %d grants, %d acquires", len(w.memories), w.grants, w.asked)
}

// world is the servers, and what all agents see.
type world struct {
	t        *testing.T
	memories memories

	mu     sync.Mutex // guards what follows
	rnd    *rand.Rand
	resets int
	last   lockagent.Grant
	grants int
	asked  int // Acquires of all agents
}

func (w *world) upTo(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rnd.Int64N(int64(most>>w.rnd.IntN(8)))) + 1
}

func (w *world) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

// client is one agent, with its connections to the nodes.
type client struct {
	w      *world
	nodes  memories
	resume []func()
	locks  *channelapi.Locks
}

func (w *world) agent() *client {
	store, nodes := w.memories.opened(w.t, quorum.Config{LongestLease: longest})
	for _, n := range nodes {
		n.SetBound(time.Second)
	}
	a := &client{w: w, nodes: nodes, resume: make([]func(), len(nodes))}
	var err error
	a.locks, err = channelapi.New(channelapi.Config{
		Store: &majorityStore{store, w}, Lease: shortLease, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// mischief does something to some node, or mends it. Each agent may be cut off from any nodes, and any
// node may lose its data.
func (w *world) mischief(agents []*client) {
	a := agents[w.below(len(agents))]
	i := w.below(len(a.nodes))
	switch w.below(12) {
	case 0, 1:
		a.nodes[i].SetOutage(errors.New("cut off"))
	case 2, 3, 4:
		if a.resume[i] == nil {
			a.resume[i] = a.nodes[i].Hang()
		}
	case 5:
		w.mu.Lock()
		w.resets++
		w.mu.Unlock()
		w.memories[i].Reset()
	case 6: // all agents lose a node at once
		for _, a := range agents {
			a.nodes[i].SetOutage(errors.New("down"))
		}
	default:
		a.heal(w.below(len(a.nodes)))
		w.heal(agents[:w.below(len(agents))])
	}
}

func (w *world) heal(agents []*client) {
	for _, a := range agents {
		for i := range a.nodes {
			a.heal(i)
		}
	}
}

func (a *client) heal(i int) {
	a.nodes[i].SetOutage(nil)
	if a.resume[i] != nil {
		a.resume[i]()
		a.resume[i] = nil
	}
}

func (a *client) contend(end time.Time) {
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(context.Background(), a.w.upTo(20*time.Second))
		_ = a.visit(ctx)
		cancel()
		time.Sleep(a.w.upTo(time.Second))
	}
}

// visit waits for the lock, and holds it for a while or until it is lost.
func (a *client) visit(ctx context.Context) error {
	g, err := a.locks.Lock(string(orders)).Acquire(ctx)
	if err != nil {
		return err
	}
	a.w.enter(g)
	select {
	case <-g.Done():
	case <-time.After(a.w.upTo(6 * time.Second)):
	}
	_ = g.Release(context.Background())
	return nil
}

// enter is called by whoever was granted the lock. The holder before must have been told by then that its
// hold is over.
func (w *world) enter(g lockagent.Grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.Held() {
		return
	}
	if w.last.Held() {
		w.t.Errorf("token %d was granted while token %d was held", g.Token(), w.last.Token())
	}
	if g.Token() <= w.last.Token() {
		w.t.Errorf("token %d after %d", g.Token(), w.last.Token())
	}
	w.last = g
	w.grants++
}

// mostAsked is about four times as many Acquires as the busiest of many runs had. Agents that wake each other without a
// pause ask more often: time in a bubble stands still then.
const mostAsked = 5_000

// ask counts an Acquire, and reports whether it is one too many.
func (w *world) ask() (tooMany bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.asked == mostAsked {
		w.t.Errorf("%d acquires, the last at %v: the agents do not pause", w.asked, time.Now())
	}
	return w.asked >= mostAsked
}

// majorityStore looks into the memories whenever the quorum grants a tenure.
type majorityStore struct {
	*quorum.Store
	w *world
}

func (s *majorityStore) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	if s.w.ask() {
		done(lockagent.AcquireReply{}, lockagent.ErrClosed) // so that the run comes to its end
		return
	}
	resets := s.w.lossesUntilNow()
	s.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
		if reply.Granted && s.w.lossesUntilNow() == resets {
			if n := holding(s.w.memories, req); n <= len(s.w.memories)/2 {
				s.w.t.Errorf("granted %s with %d of %d nodes", req.Tenure, n, len(s.w.memories))
			}
		}
		done(reply, err)
	})
}

func (w *world) lossesUntilNow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resets
}

// holding is how many nodes have the tenure of a request.
func holding(all []*memstore.Store, req lockagent.AcquireRequest) (n int) {
	for _, m := range all {
		m.Inspect(context.Background(), req.Name, req.Kind, func(seen lockagent.Inspection, _ error) {
			if seen.Holder == req.Tenure.String() {
				n++
			}
		})
	}
	return n
}
