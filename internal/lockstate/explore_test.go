package lockstate

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// few is how many states of each variant make test explores, and walks how many walks it takes. make soak explores
// many.
const few, walks = 3000, 20

// variant is a world to explore: its people, the faults that may happen, and the requests that
// were made before the exploration begins.
type variant struct {
	name   string
	people []person
	left   chances
	change func(*Config)
	ask    []int             // the people who asked before, each after the one before got an answer
	bad    func(*storeModel) // nil, or makes the store a bad one
	fair   bool              // the lock is fair

	permits int // of a semaphore; 0 if it is a lock
}

var (
	kept      = []time.Duration{0}
	keptTwice = []time.Duration{0, 0}

	// Two owners on one agent, one on the other.
	three = []person{{"ann", 0, Exclusive, false, false, kept}, {"bob", 0, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, false, kept}}
	// The same, and each comes back once.
	threeTwice = []person{{"ann", 0, Exclusive, false, false, keptTwice}, {"bob", 0, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, false, keptTwice}}
	// A session that holds the lock twice.
	session = []person{{"ann", 0, Exclusive, true, false, keptTwice}, {"bob", 0, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, false, kept}}
	// Fixed leases: shorter than the watchdog's, and longer.
	fixed = []person{{"ann", 0, Exclusive, false, false, []time.Duration{20 * tick}}, {"bob", 0, Exclusive, false, false, []time.Duration{60 * tick}}, {"cid", 1, Exclusive, false, false, kept}}
	// Fixed leases that outlive their processes, after holds that do not.
	outlive = []person{
		{"ann", 0, Exclusive, false, false, []time.Duration{0, outliving}},
		{"bob", 0, Exclusive, true, false, []time.Duration{0, outliving}},
		{"cid", 1, Exclusive, false, false, []time.Duration{outliving}},
	}
	// A reader whose lease outlives its process, beside others, with a writer elsewhere.
	outliveBeside = []person{
		{"ann", 0, Shared, false, false, keptTwice},
		{"bob", 0, Shared, true, false, []time.Duration{outliving}},
		{"cid", 0, Shared, false, false, []time.Duration{outliving}},
		{"dan", 1, Exclusive, false, false, kept},
	}
	// A fixed lease inside a kept hold and a kept one inside a fixed hold.
	mixed = []person{{"ann", 0, Exclusive, true, false, []time.Duration{0, 60 * tick}}, {"cid", 1, Exclusive, true, false, []time.Duration{20 * tick, 0}}}
	// One owner on each of three agents.
	spread = []person{{"ann", 0, Exclusive, false, false, []time.Duration{60 * tick}}, {"bob", 1, Exclusive, false, false, kept}, {"cid", 2, Exclusive, false, false, kept}}
	// Readers and writers on two agents.
	readers = []person{
		{"ann", 0, Shared, false, false, keptTwice}, {"bob", 0, Shared, false, false, keptTwice}, {"cid", 1, Shared, false, false, kept}, {"dan", 1, Exclusive, false, false, kept},
	}
	// A session that reads while it writes, beside readers on both agents.
	downgrade = []person{{"ann", 0, Shared, true, false, keptTwice}, {"ann", 0, Exclusive, true, false, kept}, {"bob", 0, Shared, false, false, kept}, {"cid", 1, Shared, false, true, keptTwice}}
	// A writer, and readers who follow it on both agents.
	downgraded = []person{{"ann", 0, Exclusive, false, false, keptTwice}, {"bob", 0, Shared, false, false, keptTwice}, {"cid", 1, Shared, false, false, keptTwice}, {"dan", 1, Exclusive, false, false, kept}}
	// Two owners on each of two agents.
	four = []person{
		{"ann", 0, Exclusive, false, false, keptTwice}, {"bob", 0, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, false, kept}, {"dan", 1, Exclusive, false, false, kept},
	}
	// One who wants two permits, and two at another agent who want one each.
	couple = []person{{"dan", 0, Exclusive, false, false, keptTwice}, {"ann", 1, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, false, keptTwice}}
	// Some owners do not wait.
	tries = []person{{"ann", 0, Exclusive, false, false, kept}, {"bob", 0, Exclusive, false, true, keptTwice}, {"cid", 1, Exclusive, false, true, keptTwice}}
	// An owner who waits on an agent, and one who does not. They come to an agent that has the lock for itself.
	impatient = []person{{"ann", 0, Exclusive, false, false, keptTwice}, {"bob", 1, Exclusive, false, false, kept}, {"cid", 1, Exclusive, false, true, keptTwice}}
)

// polls has agents ask again and again, as for a spin lock.
func polls(c *Config) { c.Polls = true }

// wakesNobody is the store of a lock that is polled.
func wakesNobody(m *storeModel) { m.silent, m.plain = true, true }

// discreetly has the store take places without a word.
func discreetly(m *storeModel) { m.discreet = true }

// toOne has the store tell one of the waiters whose places it took.
func toOne(m *storeModel) { m.brief = true }

// rests has tenures rest.
func rests(c *Config) { c.Rest = 20 * tick }

// mutely has the store not tell that the lock of a tenure that may rest is wanted.
func mutely(m *storeModel) { m.mute = true }

// briefly bounds hand-offs to less time than an agent may be unaware of outsiders.
func briefly(c *Config) { c.HandOffTime = tick }

var variants = []variant{
	{name: "from nothing", people: three, left: chances{order: 3, lost: 2, cancels: 1}},
	{name: "contended", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}},
	{name: "cancelled", people: three, left: chances{order: 3, lost: 1, cancels: 3}, ask: []int{0, 1, 2}},
	{name: "session", people: session, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{0, 2}},
	{name: "fixed leases", people: fixed, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 1}},
	{name: "mixed leases", people: mixed, left: chances{order: 3, lost: 2}, ask: []int{0, 1}},
	{name: "tries", people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{name: "claims", people: three, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2}, change: func(c *Config) { c.Claim = 10 * tick }},
	{name: "refused", people: three, left: chances{order: 3, lost: 1, refused: 2}, ask: []int{0, 2}},
	{name: "late ticks", people: three, left: chances{order: 3, lost: 2, late: 3}, ask: []int{0, 2}},
	{name: "broken", people: three, left: chances{order: 3, lost: 1, broken: 1}, ask: []int{0, 2}},
	{name: "reset", people: three, left: chances{order: 3, lost: 1, resets: 1}, ask: []int{0, 2}},
	{name: "crashed", people: three, left: chances{order: 3, lost: 1, crashes: 1}, ask: []int{0, 2}},
	{name: "failover", people: threeTwice, left: chances{order: 3, lost: 1, ghosts: 1}, ask: []int{0, 2}},
	{name: "clock set back", people: threeTwice, left: chances{order: 3, lost: 1, steps: 2}, ask: []int{0, 2}},
	{name: "readers", people: readers, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}},
	{name: "readers and a writer", people: readers, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 3}},
	{name: "leases that outlive their processes", people: outlive, left: chances{order: 3, lost: 1, cancels: 1, kills: 1}, ask: []int{0, 2}},
	{name: "readers whose leases outlive their processes", people: outliveBeside, left: chances{order: 3, lost: 1, cancels: 1, kills: 1}, ask: []int{0, 1, 2}},
	{name: "readers with fixed leases", people: []person{
		{"ann", 0, Shared, false, false, []time.Duration{60 * tick}}, {"bob", 0, Shared, false, false, keptTwice}, {"cid", 1, Exclusive, false, false, kept},
	}, left: chances{order: 3, lost: 1}, ask: []int{0, 1}},
	{name: "readers and outsiders", people: readers[:3], left: chances{order: 3, lost: 1, outside: 2}, ask: []int{0, 1}, change: briefly},
	{name: "a writer, readers and outsiders", people: downgraded, left: chances{order: 3, outside: 1, restart: 1}, ask: []int{0, 1}, change: briefly},
	{name: "downgrade", people: downgrade, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{1}},
	{name: "downgrade and a writer", people: downgraded, left: chances{order: 3, lost: 1}, ask: []int{0, 2, 1}},
	{name: "downgrade on a bad day", people: downgraded, left: chances{order: 3, lost: 2, broken: 1, restart: 1}, ask: []int{0, 2}},
	{name: "upgrade", people: downgrade, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 3}},
	{name: "readers of a bad day", people: readers, left: chances{order: 3, lost: 1, broken: 1, resets: 1, ghosts: 1}, ask: []int{0, 2, 3}},
	{name: "standing by", people: spread, left: chances{order: 3, lost: 2}, ask: []int{0, 1, 2}},
	{name: "beside outsiders", people: threeTwice, left: chances{order: 3, lost: 2}, ask: []int{0, 2}, bad: func(m *storeModel) { m.outsiders = 1 }},
	{name: "passed", people: threeTwice, left: chances{order: 4, lost: 3}, ask: []int{0, 2}},
	{name: "passed before the replicas know", people: threeTwice, left: chances{order: 4, lost: 2}, ask: []int{0, 2}, bad: func(m *storeModel) { m.replicated = true }},
	{name: "passed and cancelled", people: three, left: chances{order: 4, lost: 2, cancels: 2}, ask: []int{0, 2, 1}},
	{name: "passed and broken", people: threeTwice, left: chances{order: 3, lost: 2, broken: 1, resets: 1}, ask: []int{0, 2}},
	{name: "without a queue", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}, bad: func(m *storeModel) { m.plain = true }},
	{name: "polled", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}, change: polls, bad: wakesNobody},
	{name: "polled, and kept for others", people: threeTwice, left: chances{order: 3, lost: 1, cancels: 1, turns: 2}, ask: []int{0, 2}, change: polls, bad: wakesNobody},
	{name: "polled on a bad day", people: three, left: chances{order: 3, lost: 1, broken: 1, resets: 1, restart: 1}, ask: []int{0, 2}, change: polls, bad: wakesNobody},
	{name: "resting", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0}, change: rests},
	{name: "resting and tries", people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}, change: rests},
	{name: "resting, and one who does not wait beside one who does", people: impatient, left: chances{order: 3, lost: 2}, ask: []int{0}, change: rests},
	{name: "resting session", people: session, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{0}, change: rests},
	{name: "resting between fixed leases", people: mixed, left: chances{order: 3, lost: 2}, ask: []int{0}, change: rests},
	{name: "resting between leases that outlive their processes", people: outlive, left: chances{order: 3, lost: 1}, ask: []int{0}, change: rests},
	{name: "resting and claims", people: three, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2}, change: func(c *Config) { c.Rest, c.Claim = 20*tick, 10*tick }},
	{name: "resting late", people: threeTwice, left: chances{order: 3, lost: 2, late: 3}, ask: []int{0}, change: rests},
	{name: "resting beside outsiders", people: threeTwice, left: chances{order: 3, lost: 1, outside: 2}, ask: []int{0}, change: rests},
	{name: "resting on a bad day", people: threeTwice, left: chances{order: 3, lost: 1, broken: 1, resets: 1, ghosts: 1}, ask: []int{0}, change: rests},
	{name: "resting and crashed", people: threeTwice, left: chances{order: 3, lost: 1, crashes: 1, restart: 1}, ask: []int{0}, change: rests},
	{name: "resting and killed", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0}, change: rests},
	{name: "resting and closed", people: threeTwice, left: chances{order: 3, lost: 1, closed: 2}, ask: []int{0}, change: rests},
	{name: "resting without a queue", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0}, change: rests, bad: func(m *storeModel) { m.plain = true }},
	{name: "restarted", people: threeTwice, left: chances{order: 3, lost: 2, restart: 2}, ask: []int{0, 2}},
	{name: "restarted session", people: session, left: chances{order: 3, lost: 1, restart: 1, gone: 1}, ask: []int{0, 2}},
	{name: "restarted with fixed leases", people: fixed, left: chances{order: 3, lost: 1, restart: 1}, ask: []int{0, 1}},
	{name: "restarted readers", people: readers, left: chances{order: 3, lost: 1, restart: 2}, ask: []int{0, 1, 3}},
	{name: "restarted on a bad day", people: three, left: chances{order: 3, lost: 1, restart: 1, broken: 1, ghosts: 1}, ask: []int{0, 2}},
	{name: "killed", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2}},
	{name: "killed while all wait", people: three, left: chances{order: 3, lost: 1, kills: 2, cancels: 1}, ask: []int{2, 0, 1}},
	{name: "killed session", people: session, left: chances{order: 3, lost: 1, kills: 1, gone: 1}, ask: []int{0, 2}},
	{name: "killed with fixed leases", people: fixed, left: chances{order: 3, lost: 1, kills: 1}, ask: []int{0, 1}},
	{name: "killed with mixed leases", people: mixed, left: chances{order: 3, kills: 2}, ask: []int{0, 1}},
	{name: "killed readers", people: readers, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 3}},
	{name: "killed during a downgrade", people: downgraded, left: chances{order: 3, kills: 2}, ask: []int{0, 2}},
	{name: "session killed during a downgrade", people: downgrade, left: chances{order: 3, kills: 2}, ask: []int{1, 0}},
	{name: "killed on a bad day", people: three, left: chances{order: 3, lost: 1, kills: 1, broken: 1, resets: 1, ghosts: 1}, ask: []int{0, 2}},
	{name: "killed while it polls", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2}, change: polls, bad: wakesNobody},
	{name: "killed without a queue", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2}, bad: func(m *storeModel) { m.plain = true }},
	{name: "fair and killed", fair: true, people: four, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 2}},
	{name: "fair session, killed", fair: true, people: session, left: chances{order: 3, cancels: 1, kills: 2}, ask: []int{0, 2}},
	{name: "fair readers, killed", fair: true, people: readers, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1}},
	{name: "permits and killed", permits: 2, people: four, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 2}},
	{name: "closed", people: three, left: chances{order: 3, lost: 2, closed: 2}, ask: []int{0, 2}},
	{name: "fair", fair: true, people: four, left: chances{order: 4}, ask: []int{0, 2}},
	{name: "fair and lossy", fair: true, people: four, left: chances{order: 3, lost: 2}, ask: []int{0, 2, 1}},
	{name: "fair and cancelled", fair: true, people: four, left: chances{order: 3, lost: 1, cancels: 3}, ask: []int{0, 2, 1, 3}},
	{name: "fair session", fair: true, people: session, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{0, 2}},
	{name: "fair with fixed leases", fair: true, people: fixed, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 1}},
	{name: "fair tries", fair: true, people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{name: "fair and broken", fair: true, people: four, left: chances{order: 3, lost: 1, broken: 1, resets: 1}, ask: []int{0, 2, 1}},
	{name: "fair with ghosts", fair: true, people: four, left: chances{order: 3, lost: 1, ghosts: 1}, ask: []int{0, 2, 1}},
	{name: "fair and late", fair: true, people: three, left: chances{order: 3, lost: 1, late: 2, refused: 1}, ask: []int{0, 1, 2}},
	{name: "fair and crashed", fair: true, people: three, left: chances{order: 3, lost: 1, crashes: 1}, ask: []int{0, 1, 2}},
	{name: "fair and restarted", fair: true, people: four, left: chances{order: 3, lost: 1, restart: 2}, ask: []int{0, 1, 2}},
	{name: "fair readers", fair: true, people: readers, left: chances{order: 3, gone: 1, restart: 1, cancels: 1, broken: 1}, ask: []int{0, 1}},
	{name: "fair without a queue", fair: true, people: three, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true }},
	{name: "fair beside outsiders", fair: true, people: three, left: chances{order: 3, lost: 1}, ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.outsiders = 1 }},
	{name: "fair and unseated", fair: true, people: four, left: chances{order: 3, lost: 1, cancels: 1, unseats: 2}, ask: []int{0, 2, 1}},
	{name: "permits", permits: 2, people: four, left: chances{order: 4}, ask: []int{0, 2}},
	{name: "permits and a great request", permits: 2, people: four, left: chances{order: 4, cancels: 1}, ask: []int{0, 1, 2, 3}},
	{name: "permits and lossy", permits: 2, people: four, left: chances{order: 3, lost: 2}, ask: []int{0, 2, 1}},
	{name: "permits and cancelled", permits: 2, people: four, left: chances{order: 3, lost: 1, cancels: 3}, ask: []int{0, 2, 1, 3}},
	{name: "fair with leases that outlive their processes", fair: true, people: outlive, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2}},
	{name: "permits with fixed leases", permits: 2, people: fixed, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 1}},
	{name: "permits tries", permits: 2, people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{name: "permits and broken", permits: 2, people: four, left: chances{order: 3, lost: 1, broken: 1, resets: 1}, ask: []int{0, 2, 1}},
	{name: "permits and late", permits: 2, people: three, left: chances{order: 3, lost: 1, late: 2, refused: 2}, ask: []int{0, 1, 2}},
	{name: "permits and crashed", permits: 2, people: three, left: chances{order: 3, lost: 1, crashes: 1}, ask: []int{0, 1, 2}},
	{name: "permits and restarted", permits: 2, people: four, left: chances{order: 3, lost: 1, restart: 2}, ask: []int{0, 1, 2}},
	{name: "permits without a queue", permits: 2, people: four, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true }},
	{name: "permits for a couple", permits: 2, people: couple, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true }},
	{name: "permits and unseated", permits: 2, people: couple, left: chances{order: 3, lost: 1, cancels: 1, unseats: 2}, ask: []int{0, 1, 2}},
	{name: "permits and closed", permits: 2, people: three, left: chances{order: 3, lost: 2, closed: 2}, ask: []int{0, 1, 2}},
	{name: "fair and closed", fair: true, people: three, left: chances{order: 3, lost: 2, closed: 2}, ask: []int{0, 1, 2}},
}

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
		{variant{name: "that ends leases early", people: three, bad: func(m *storeModel) { m.early = 4 * tick }}, "but the store's lease ends at"},
		{variant{name: "that forgets what was withdrawn", people: three, left: chances{lost: 1, cancels: 1}, bad: func(m *storeModel) { m.forgetful = true }}, "everybody has gone, but the store has a tenure"},
		{variant{name: "that wakes nobody", people: three, bad: func(m *storeModel) { m.silent, m.plain = true, true }}, "waits for a lock that is free"},
		{variant{name: "that passes a lock on for less than it says", people: three, bad: func(m *storeModel) { m.stingy = 3 * tick }}, "but the store's lease ends at"},
		{variant{name: "that gives tokens out twice", people: three, bad: func(m *storeModel) { m.recycles = true }}, "is granted after"},
		{variant{name: "that has nobody stand by", people: spread, left: chances{order: 1}, bad: func(m *storeModel) { m.alone = true }}, "is the first in the queue, but sleeps"},
		{variant{name: "that does not tell its clocks apart", people: three, left: chances{order: 1, steps: 1}, bad: func(m *storeModel) { m.nameless = true }}, "but the store"},
		{variant{name: "that makes tenures shared without being asked", people: []person{three[0], readers[2]}, left: chances{order: 1}, bad: func(m *storeModel) { m.shares = true }}, "holds the lock alone in a tenure that is shared"},
		{variant{name: "that does not make a tenure shared", people: downgraded, left: chances{order: 1}, bad: func(m *storeModel) { m.forgets = true }}, "but the store keeps readers out"},
		{variant{name: "that grants more permits than there are", permits: 2, people: four, bad: func(m *storeModel) { m.excess = 1 }}, "of 2 are in use"},
		{variant{name: "that wakes nobody for permits", permits: 2, people: four, bad: func(m *storeModel) { m.silent, m.plain = true, true }}, "waits for permits that are free"},
		{variant{name: "that takes places at a fair lock", fair: true, people: three, left: chances{order: 1, unseats: 1}, bad: discreetly}, "in which it has no place"},
		{variant{name: "that takes places at a fair lock, and tells one waiter", fair: true, people: three, left: chances{order: 1, unseats: 1}, bad: toOne}, "in which it has no place"},
		{variant{name: "that takes places at a semaphore", permits: 2, people: couple, left: chances{order: 1, unseats: 1}, bad: discreetly}, "in which it has no place"},
		{variant{name: "that takes places at a semaphore, and tells one waiter", permits: 2, people: couple, left: chances{order: 1, unseats: 1}, bad: toOne}, "in which it has no place"},
		{variant{name: "that does not tell that a lock is wanted", people: threeTwice, ask: []int{0}, change: rests, bad: mutely}, "waits for a lock that rests"},
		// A late attempt of the same tenure, after its lease was extended.
		{variant{name: "that shortens a lease", people: []person{three[0], fixed[1]}, left: chances{lost: 1, order: 1}, bad: func(m *storeModel) { m.shortens = true }}, "but the store's lease ends at"},
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
	for _, n := range []*int{&v.left.lost, &v.left.refused, &v.left.order, &v.left.late, &v.left.broken, &v.left.resets, &v.left.crashes, &v.left.restart, &v.left.kills, &v.left.gone, &v.left.cancels, &v.left.outside, &v.left.unseats, &v.left.turns} {
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
