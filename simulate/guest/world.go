package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// world is all there is in a run.
type world struct {
	plan   plan.Plan
	began  time.Time
	traces bool
	random *rand.Rand // only for the servers
	clock  clock      // of the first server

	mu      sync.Mutex // guards what follows
	out     *bufio.Writer
	redis   *redis    // nil while there is none
	stands  time.Time // until then the server does nothing
	parties []party
	copies  map[int]*redis // made for the failovers, by the number of the fault

	registers map[string]*register
}

func newWorld(p plan.Plan, out *bufio.Writer, traces bool) *world {
	w := &world{
		plan: p, began: time.Now(), traces: traces, random: rand.New(rand.NewPCG(p.Seed, 2)), out: out,
		copies: make(map[int]*redis), parties: make([]party, p.Parties()), registers: make(map[string]*register),
	}
	w.clock = clock{since: w.began, rate: p.Drift}
	w.redis = newRedis(w.random, w.clock)
	if p.Commands {
		w.redis.records = &recorder{world: w, told: make(map[string]bool)}
	}
	for _, l := range p.Locks {
		w.registers[l.Name] = &register{world: w, lock: l}
	}
	return w
}

// since is how long the run lasts.
func (w *world) since() time.Duration { return time.Since(w.began) }

// tell writes a line.
func (w *world) tell(kind byte, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.WriteByte(kind)
	_ = w.out.WriteByte(' ')
	_, _ = w.out.WriteString(line)
	_ = w.out.WriteByte('\n')
}

// breach tells of what must not happen.
func (w *world) breach(b plan.Breach) {
	b.At = w.since()
	w.note("%s of %s: %s", b.What, b.Lock, b.Text)
	w.tellJSON('B', b)
}

func (w *world) tellJSON(kind byte, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.tell(kind, string(text))
}

func (w *world) note(format string, args ...any) {
	if w.traces {
		w.tell('T', fmt.Sprintf("%-12v ", w.since())+fmt.Sprintf(format, args...))
	}
}

func (w *world) server() *redis {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.redis
}

func (w *world) frozen() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stands
}

// party returns the life that a party has now. The agents come first.
func (w *world) party(i int) party {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parties[i]
}

// lock returns a lock of the plan.
func (w *world) lock(name string) plan.Lock {
	return w.plan.Locks[slices.IndexFunc(w.plan.Locks, func(l plan.Lock) bool { return l.Name == name })]
}

// run is the whole run: work among faults, and then a last round without any, in which each lock is granted to
// everybody who uses it.
func (w *world) run() {
	for i := range w.plan.Agents {
		w.start(i, newAgent(w, i, nil, false))
	}
	if w.plan.Outsiders > 0 {
		w.start(w.plan.Agents, newOutsider(w, 0))
	}
	for i, f := range w.plan.Faults {
		if f.Copies() {
			go func() {
				time.Sleep(max(0, f.At-f.Lag-w.since()))
				w.copy(i)
			}()
		}
		go func() {
			time.Sleep(f.At - w.since())
			w.note("fault: %v", f)
			w.inflict(i, f)
		}()
	}
	end := w.plan.Work
	for _, f := range w.plan.Faults {
		end = max(end, f.End())
	}
	time.Sleep(end + time.Millisecond - w.since())
	w.note("the last round")
	w.lastRound()
}

// start starts a life of a party.
func (w *world) start(i int, p party) {
	w.mu.Lock()
	w.parties[i] = p
	w.mu.Unlock()
	go p.live()
}

// lastRound has each party get each lock that it uses. Locks of the dead are free when their leases are over.
func (w *world) lastRound() {
	var all sync.WaitGroup
	for i := range w.plan.Parties() {
		all.Go(w.party(i).finish)
	}
	all.Wait()
}
