package lockstate

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// few is how many states of each variant make test explores, and walks how many walks it takes. make soak explores
// many.
const few, walks = 3000, 20

// collectSeldom has the garbage collector run less often until the test ends. An exploration makes
// much garbage beside the states that it keeps, and would spend a third of its time to look at them.
func collectSeldom(t *testing.T) {
	before := debug.SetGCPercent(400)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// The test explores every order of actions in a small world, up to a number of states. It goes
// breadth first, so the first violation that it finds is a shortest one.
func TestSmallWorld(t *testing.T) { explore(t, few) }

func explore(t *testing.T, most int) {
	collectSeldom(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			e := newExploration(v)
			e.run(most)
			if e.found != "" {
				t.Fatal(e.found)
			}
			t.Logf("%d states, %d steps; all that %d actions can lead to%s", len(e.nodes), e.steps, e.depth, e.whole())
		})
	}
}

// The test walks deep into the same worlds, at random. Everybody comes back many times, and there
// are many faults.
func TestLongWalksThroughTheSmallWorld(t *testing.T) { walk(t, walks) }

func walk(t *testing.T, times uint64) {
	collectSeldom(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v := v.longer(20)
			steps := 0
			for seed := range times {
				e := newExploration(v)
				e.walk(rand.New(rand.NewPCG(seed, 0)), 400)
				steps += e.steps
				if e.found != "" {
					t.Fatalf("seed %d: %s", seed, e.found)
				}
			}
			t.Logf("%d steps", steps)
		})
	}
}

// The search finds a store that breaks its contract. Otherwise it would be of no use.
func TestSmallWorldWithABadStore(t *testing.T) {
	for _, tt := range []struct {
		variant
		want string
	}{
		{
			variant{name: "that ends leases early", people: three, bad: func(m *storeModel) { m.early = 4 * tick }},
			"but the store's lease ends at",
		},
		{
			variant{
				name: "that forgets what was withdrawn", people: three, left: chances{lost: 1, cancels: 1},
				bad: func(m *storeModel) { m.forgetful = true },
			},
			"everybody has gone, but the store has a tenure",
		},
		{
			variant{name: "that wakes nobody", people: three, bad: func(m *storeModel) { m.silent, m.plain = true, true }},
			"waits for a lock that is free",
		},
		{
			variant{
				name: "that passes a lock on for less than it says", people: three,
				bad: func(m *storeModel) { m.stingy = 3 * tick },
			},
			"but the store's lease ends at",
		},
		{
			variant{name: "that gives tokens out twice", people: three, bad: func(m *storeModel) { m.recycles = true }},
			"is granted after",
		},
		{
			variant{
				name: "that has nobody stand by", people: spread, left: chances{order: 1},
				bad: func(m *storeModel) { m.alone = true },
			},
			"is the first in the queue, but sleeps",
		},
		{
			variant{
				name: "that does not tell its clocks apart", people: three, left: chances{order: 1, steps: 1},
				bad: func(m *storeModel) { m.nameless = true },
			},
			"but the store",
		},
		{
			variant{
				name: "that makes tenures shared without being asked", people: []person{three[0], readers[2]},
				left: chances{order: 1}, bad: func(m *storeModel) { m.shares = true },
			},
			"holds the lock alone in a tenure that is shared",
		},
		{
			variant{
				name: "that does not make a tenure shared", people: downgraded, left: chances{order: 1},
				bad: func(m *storeModel) { m.forgets = true },
			},
			"but the store keeps readers out",
		},
		{
			variant{
				name: "that grants more permits than there are", permits: 2, people: four,
				bad: func(m *storeModel) { m.excess = 1 },
			},
			"of 2 are in use",
		},
		{
			variant{
				name: "that wakes nobody for permits", permits: 2, people: four,
				bad: func(m *storeModel) { m.silent, m.plain = true, true },
			},
			"waits for permits that are free",
		},
		{
			variant{
				name: "that takes places at a fair lock", fair: true, people: three, left: chances{order: 1, unseats: 1},
				bad: discreetly,
			},
			"in which it has no place",
		},
		{
			variant{
				name: "that takes places at a fair lock, and tells one waiter", fair: true, people: three,
				left: chances{order: 1, unseats: 1}, bad: toOne,
			},
			"in which it has no place",
		},
		{
			variant{
				name: "that takes places at a semaphore", permits: 2, people: couple, left: chances{order: 1, unseats: 1},
				bad: discreetly,
			},
			"in which it has no place",
		},
		{
			variant{
				name: "that takes places at a semaphore, and tells one waiter", permits: 2, people: couple,
				left: chances{order: 1, unseats: 1}, bad: toOne,
			},
			"in which it has no place",
		},
		{
			variant{
				name: "that does not tell that a lock is wanted", people: threeTwice, ask: []int{0}, change: rests, bad: mutely,
			},
			"waits for a lock that rests",
		},
		// A late attempt of the same tenure, after its lease was extended.
		{
			variant{
				name: "that shortens a lease", people: []person{three[0], fixed[1]}, left: chances{lost: 1, order: 1},
				bad: func(m *storeModel) { m.shortens = true },
			},
			"but the store's lease ends at",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newExploration(tt.variant)
			e.run(20_000)
			if !strings.Contains(e.found, tt.want) {
				t.Errorf("among %d states found %q, want %q", len(e.nodes), e.found, tt.want)
			}
		})
	}
}

// longer is the variant with all requests and chances so many times. But an agent is closed only
// once, because nothing happens after that.
func (v variant) longer(times int) variant {
	v.people = slices.Clone(v.people)
	for i := range v.people {
		v.people[i].leases = slices.Repeat(v.people[i].leases, times)
	}
	for _, n := range []*int{
		&v.left.lost, &v.left.refused, &v.left.order, &v.left.late, &v.left.broken, &v.left.resets, &v.left.ghosts,
		&v.left.crashes,
		&v.left.restart, &v.left.kills, &v.left.gone, &v.left.cancels, &v.left.outside, &v.left.unseats, &v.left.turns,
	} {
		*n *= times
	}
	return v
}

// exploration is the search through the worlds of a variant.
type exploration struct {
	v     variant
	keyer *keyer
	seen  map[uint64]bool
	nodes []node // all states that the search found
	edge  []place
	depth int // all states up to this depth were found
	steps int
	ended bool   // there are no more states
	found string // the violation, with the actions that led to it
}

// node says how a state was found.
type node struct {
	parent int32
	by     action
}

// place is a state from which the search goes on.
type place struct {
	w    *world
	node int32
}

func newExploration(v variant) *exploration {
	e := &exploration{v: v, keyer: newKeyer(), seen: make(map[uint64]bool)}
	w, _ := v.begin(nil)
	e.nodes = []node{{parent: -1}}
	e.edge = []place{{w, 0}}
	e.seen[e.keyer.key(w)] = true
	return e
}

// begin is the world in which the exploration of a variant begins, and the actions that led to
// it.
func (v *variant) begin(log func(string)) (*world, []action) {
	w := newWorld(v.people, v.left, v.change)
	if v.fair {
		w.makeFair()
	}
	if v.permits > 0 {
		w.makePermits(v.permits)
	}
	w.log = log
	if v.bad != nil {
		v.bad(&w.store)
	}
	var past []action
	do := func(d action) {
		if log != nil {
			log(w.describe(d))
		}
		w.do(d)
		past = append(past, d)
	}
	for _, p := range v.ask {
		do(action{kind: doAsk, a: uint8(p)})
		for d, ok := w.errand(); ok; d, ok = w.errand() {
			do(d)
		}
	}
	return w, past
}

func (e *exploration) whole() string {
	if e.ended {
		return ", and that is all there is"
	}
	return ""
}

func (e *exploration) run(most int) {
	for len(e.edge) > 0 {
		from := e.edge
		e.edge = nil
		for _, p := range from {
			for _, d := range p.w.actions() {
				if len(e.nodes) >= most || e.found != "" {
					return
				}
				e.visit(p, d)
			}
		}
		e.depth++
	}
	e.ended = true
}

func (e *exploration) visit(from place, d action) {
	w := from.w.clone()
	w.do(d)
	e.steps++
	if w.problem != "" {
		e.report(append(e.path(from.node), d), nil, w.problem)
		return
	}
	key := e.keyer.key(w)
	if e.seen[key] {
		return
	}
	e.seen[key] = true
	n := int32(len(e.nodes))
	e.nodes = append(e.nodes, node{from.node, d})
	e.edge = append(e.edge, place{w, n})
	// To go on to the end costs as much as many states, so the search does so only from some.
	if n%8 == 0 {
		e.finish(w, endings[n/8%int32(len(endings))], func() []action { return e.path(n) })
	}
}

func (e *exploration) walk(rnd *rand.Rand, length int) {
	w := e.edge[0].w.clone()
	var path []action
	for range length {
		choice := w.actions()
		if len(choice) == 0 {
			break
		}
		d := choice[rnd.IntN(len(choice))]
		if errand, busy := w.errand(); busy && rnd.IntN(2) == 0 { // otherwise too much time would pass
			d = errand
		}
		w.do(d)
		e.steps++
		path = append(path, d)
		if w.problem != "" {
			e.report(path, nil, w.problem)
			return
		}
	}
	for _, end := range endings {
		if e.found != "" {
			return
		}
		e.finish(w, end, func() []action { return path })
	}
}

// path is how a state was found.
func (e *exploration) path(n int32) []action {
	var back []action
	for ; n > 0; n = e.nodes[n].parent {
		back = append(back, e.nodes[n].by)
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

// report lists the actions that led to a violation.
func (e *exploration) report(path, ending []action, problem string) {
	var story strings.Builder
	log := func(line string) { fmt.Fprintln(&story, line) }
	w, _ := e.v.begin(log)
	log("      -- from here on anything may happen --")
	for i, d := range append(path, ending...) {
		if i == len(path) {
			log("      -- from here on everybody goes --")
		}
		log(w.describe(d))
		w = w.clone()
		if i >= len(path) {
			w.calm()
		}
		w.do(d)
	}
	e.found = problem + "\n" + story.String()
}
