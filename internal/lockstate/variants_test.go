package lockstate

import "time"

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
	three = []person{
		{"ann", 0, Exclusive, false, false, kept},
		{"bob", 0, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, false, kept},
	}
	// The same, and each comes back once.
	threeTwice = []person{
		{"ann", 0, Exclusive, false, false, keptTwice},
		{"bob", 0, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, false, keptTwice},
	}
	// A session that holds the lock twice.
	session = []person{
		{"ann", 0, Exclusive, true, false, keptTwice},
		{"bob", 0, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, false, kept},
	}
	// Fixed leases: shorter than the watchdog's, and longer.
	fixed = []person{
		{"ann", 0, Exclusive, false, false, []time.Duration{20 * tick}},
		{"bob", 0, Exclusive, false, false, []time.Duration{60 * tick}},
		{"cid", 1, Exclusive, false, false, kept},
	}
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
	mixed = []person{
		{"ann", 0, Exclusive, true, false, []time.Duration{0, 60 * tick}},
		{"cid", 1, Exclusive, true, false, []time.Duration{20 * tick, 0}},
	}
	// A session with a long lease, which is kept because of another hold, and is to outlive the process.
	mixedOutlive = []person{
		{"ann", 0, Exclusive, true, false, []time.Duration{100 * tick, 0, outliving}},
		{"cid", 1, Exclusive, false, false, kept},
	}
	// One owner on each of three agents.
	spread = []person{
		{"ann", 0, Exclusive, false, false, []time.Duration{60 * tick}},
		{"bob", 1, Exclusive, false, false, kept},
		{"cid", 2, Exclusive, false, false, kept},
	}
	// Readers and writers on two agents.
	readers = []person{
		{"ann", 0, Shared, false, false, keptTwice},
		{"bob", 0, Shared, false, false, keptTwice},
		{"cid", 1, Shared, false, false, kept},
		{"dan", 1, Exclusive, false, false, kept},
	}
	// A session that reads while it writes, beside readers on both agents.
	downgrade = []person{
		{"ann", 0, Shared, true, false, keptTwice},
		{"ann", 0, Exclusive, true, false, kept},
		{"bob", 0, Shared, false, false, kept},
		{"cid", 1, Shared, false, true, keptTwice},
	}
	// A writer, and readers who follow it on both agents.
	downgraded = []person{
		{"ann", 0, Exclusive, false, false, keptTwice},
		{"bob", 0, Shared, false, false, keptTwice},
		{"cid", 1, Shared, false, false, keptTwice},
		{"dan", 1, Exclusive, false, false, kept},
	}
	// Two owners on each of two agents.
	four = []person{
		{"ann", 0, Exclusive, false, false, keptTwice},
		{"bob", 0, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, false, kept},
		{"dan", 1, Exclusive, false, false, kept},
	}
	// One who wants two permits, and two at another agent who want one each.
	couple = []person{
		{"dan", 0, Exclusive, false, false, keptTwice},
		{"ann", 1, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, false, keptTwice},
	}
	// Some owners do not wait.
	tries = []person{
		{"ann", 0, Exclusive, false, false, kept},
		{"bob", 0, Exclusive, false, true, keptTwice},
		{"cid", 1, Exclusive, false, true, keptTwice},
	}
	// An owner who waits on an agent, and one who does not. They come to an agent that has the lock for itself.
	impatient = []person{
		{"ann", 0, Exclusive, false, false, keptTwice},
		{"bob", 1, Exclusive, false, false, kept},
		{"cid", 1, Exclusive, false, true, keptTwice},
	}
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
	{
		name: "mixed leases, and one that outlives its process", people: mixedOutlive, left: chances{order: 3}, ask: []int{0},
	},
	{name: "tries", people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{
		name: "tries and a failover", people: tries, left: chances{order: 3, lost: 1, resets: 1, ghosts: 1}, ask: []int{0},
	},
	{
		name: "claims", people: three, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2},
		change: func(c *Config) { c.Claim = 10 * tick },
	},
	{name: "refused", people: three, left: chances{order: 3, lost: 1, refused: 2}, ask: []int{0, 2}},
	{name: "late ticks", people: three, left: chances{order: 3, lost: 2, late: 3}, ask: []int{0, 2}},
	{name: "broken", people: three, left: chances{order: 3, lost: 1, broken: 1}, ask: []int{0, 2}},
	{name: "reset", people: three, left: chances{order: 3, lost: 1, resets: 1}, ask: []int{0, 2}},
	{name: "crashed", people: three, left: chances{order: 3, lost: 1, crashes: 1}, ask: []int{0, 2}},
	{name: "failover", people: threeTwice, left: chances{order: 3, lost: 1, ghosts: 1}, ask: []int{0, 2}},
	{name: "clock set back", people: threeTwice, left: chances{order: 3, lost: 1, steps: 2}, ask: []int{0, 2}},
	{name: "readers", people: readers, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}},
	{name: "readers and a writer", people: readers, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 3}},
	{
		name: "leases that outlive their processes", people: outlive, left: chances{order: 3, lost: 1, cancels: 1, kills: 1},
		ask: []int{0, 2},
	},
	{
		name: "readers whose leases outlive their processes", people: outliveBeside,
		left: chances{order: 3, lost: 1, cancels: 1, kills: 1}, ask: []int{0, 1, 2},
	},
	{name: "readers with fixed leases", people: []person{
		{"ann", 0, Shared, false, false, []time.Duration{60 * tick}},
		{"bob", 0, Shared, false, false, keptTwice},
		{"dan", 0, Shared, false, false, []time.Duration{20 * tick}},
		{"cid", 1, Exclusive, false, false, kept},
	}, left: chances{order: 3, lost: 1}, ask: []int{0, 1}},
	{
		name: "readers and outsiders", people: readers[:3], left: chances{order: 3, lost: 1, outside: 2}, ask: []int{0, 1},
		change: briefly,
	},
	{
		name: "a writer, readers and outsiders", people: downgraded, left: chances{order: 3, outside: 1, restart: 1},
		ask: []int{0, 1}, change: briefly,
	},
	{name: "downgrade", people: downgrade, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{1}},
	{name: "downgrade and a writer", people: downgraded, left: chances{order: 3, lost: 1}, ask: []int{0, 2, 1}},
	{
		name: "downgrade on a bad day", people: downgraded, left: chances{order: 3, lost: 2, broken: 1, restart: 1},
		ask: []int{0, 2},
	},
	{name: "upgrade", people: downgrade, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 3}},
	{
		name: "readers of a bad day", people: readers, left: chances{order: 3, lost: 1, broken: 1, resets: 1, ghosts: 1},
		ask: []int{0, 2, 3},
	},
	{name: "standing by", people: spread, left: chances{order: 3, lost: 2}, ask: []int{0, 1, 2}},
	{
		name: "beside outsiders", people: threeTwice, left: chances{order: 3, lost: 2}, ask: []int{0, 2},
		bad: func(m *storeModel) { m.outsiders = 1 },
	},
	{name: "passed", people: threeTwice, left: chances{order: 4, lost: 3}, ask: []int{0, 2}},
	{
		name: "passed before the replicas know", people: threeTwice, left: chances{order: 4, lost: 2}, ask: []int{0, 2},
		bad: func(m *storeModel) { m.replicated = true },
	},
	{name: "passed and cancelled", people: three, left: chances{order: 4, lost: 2, cancels: 2}, ask: []int{0, 2, 1}},
	{
		name: "passed and broken", people: threeTwice, left: chances{order: 3, lost: 2, broken: 1, resets: 1},
		ask: []int{0, 2},
	},
	{
		name: "without a queue", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2},
		bad: func(m *storeModel) { m.plain = true },
	},
	{
		name: "polled", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0, 2}, change: polls,
		bad: wakesNobody,
	},
	{
		name: "polled, and kept for others", people: threeTwice, left: chances{order: 3, lost: 1, cancels: 1, turns: 2},
		ask: []int{0, 2}, change: polls, bad: wakesNobody,
	},
	{
		name: "polled on a bad day", people: three, left: chances{order: 3, lost: 1, broken: 1, resets: 1, restart: 1},
		ask: []int{0, 2}, change: polls, bad: wakesNobody,
	},
	{name: "resting", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0}, change: rests},
	{name: "resting and tries", people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}, change: rests},
	{
		name: "resting, and one who does not wait beside one who does", people: impatient, left: chances{order: 3, lost: 2},
		ask: []int{0}, change: rests,
	},
	{
		name: "resting session", people: session, left: chances{order: 3, lost: 1, cancels: 1, gone: 1}, ask: []int{0},
		change: rests,
	},
	{name: "resting between fixed leases", people: mixed, left: chances{order: 3, lost: 2}, ask: []int{0}, change: rests},
	{
		name: "resting between leases that outlive their processes", people: outlive, left: chances{order: 3, lost: 1},
		ask: []int{0}, change: rests,
	},
	{
		name: "resting and claims", people: three, left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2},
		change: func(c *Config) { c.Rest, c.Claim = 20*tick, 10*tick },
	},
	{name: "resting late", people: threeTwice, left: chances{order: 3, lost: 2, late: 3}, ask: []int{0}, change: rests},
	{
		name: "resting beside outsiders", people: threeTwice, left: chances{order: 3, lost: 1, outside: 2}, ask: []int{0},
		change: rests,
	},
	{
		name: "resting on a bad day", people: threeTwice, left: chances{order: 3, lost: 1, broken: 1, resets: 1, ghosts: 1},
		ask: []int{0}, change: rests,
	},
	{
		name: "resting and crashed", people: threeTwice, left: chances{order: 3, lost: 1, crashes: 1, restart: 1},
		ask: []int{0}, change: rests,
	},
	{
		name: "resting and killed", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0},
		change: rests,
	},
	{
		name: "resting and closed", people: threeTwice, left: chances{order: 3, lost: 1, closed: 2}, ask: []int{0},
		change: rests,
	},
	{
		name: "resting without a queue", people: threeTwice, left: chances{order: 3, lost: 2, cancels: 1}, ask: []int{0},
		change: rests, bad: func(m *storeModel) { m.plain = true },
	},
	{name: "restarted", people: threeTwice, left: chances{order: 3, lost: 2, restart: 2}, ask: []int{0, 2}},
	{name: "restarted session", people: session, left: chances{order: 3, lost: 1, restart: 1, gone: 1}, ask: []int{0, 2}},
	{name: "restarted with fixed leases", people: fixed, left: chances{order: 3, lost: 1, restart: 1}, ask: []int{0, 1}},
	{name: "restarted readers", people: readers, left: chances{order: 3, lost: 1, restart: 2}, ask: []int{0, 1, 3}},
	{
		name: "restarted on a bad day", people: three, left: chances{order: 3, lost: 1, restart: 1, broken: 1, ghosts: 1},
		ask: []int{0, 2},
	},
	{name: "killed", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2}},
	{
		name: "killed while all wait", people: three, left: chances{order: 3, lost: 1, kills: 2, cancels: 1},
		ask: []int{2, 0, 1},
	},
	{name: "killed session", people: session, left: chances{order: 3, lost: 1, kills: 1, gone: 1}, ask: []int{0, 2}},
	{name: "killed with fixed leases", people: fixed, left: chances{order: 3, lost: 1, kills: 1}, ask: []int{0, 1}},
	{name: "killed with mixed leases", people: mixed, left: chances{order: 3, kills: 2}, ask: []int{0, 1}},
	{name: "killed readers", people: readers, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 3}},
	{name: "killed during a downgrade", people: downgraded, left: chances{order: 3, kills: 2}, ask: []int{0, 2}},
	{name: "session killed during a downgrade", people: downgrade, left: chances{order: 3, kills: 2}, ask: []int{1, 0}},
	{
		name: "killed on a bad day", people: three,
		left: chances{order: 3, lost: 1, kills: 1, broken: 1, resets: 1, ghosts: 1}, ask: []int{0, 2},
	},
	{
		name: "killed while it polls", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2},
		change: polls, bad: wakesNobody,
	},
	{
		name: "killed without a queue", people: threeTwice, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 2},
		bad: func(m *storeModel) { m.plain = true },
	},
	{name: "fair and killed", fair: true, people: four, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 2}},
	{
		name: "fair session, killed", fair: true, people: session, left: chances{order: 3, cancels: 1, kills: 2},
		ask: []int{0, 2},
	},
	{
		name: "permits and killed", permits: 2, people: four, left: chances{order: 3, lost: 1, kills: 2}, ask: []int{0, 1, 2},
	},
	{name: "closed", people: three, left: chances{order: 3, lost: 2, closed: 2}, ask: []int{0, 2}},
	{name: "fair", fair: true, people: four, left: chances{order: 4}, ask: []int{0, 2}},
	{name: "fair and lossy", fair: true, people: four, left: chances{order: 3, lost: 2}, ask: []int{0, 2, 1}},
	{
		name: "fair and cancelled", fair: true, people: four, left: chances{order: 3, lost: 1, cancels: 3},
		ask: []int{0, 2, 1, 3},
	},
	{
		name: "fair session", fair: true, people: session, left: chances{order: 3, lost: 1, cancels: 1, gone: 1},
		ask: []int{0, 2},
	},
	{
		name: "fair with fixed leases", fair: true, people: fixed, left: chances{order: 3, lost: 2, cancels: 1},
		ask: []int{0, 1},
	},
	{name: "fair tries", fair: true, people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{
		name: "fair tries and a failover", fair: true, people: tries, left: chances{order: 3, lost: 1, ghosts: 1},
		ask: []int{0},
	},
	{
		name: "fair and broken", fair: true, people: four, left: chances{order: 3, lost: 1, broken: 1, resets: 1},
		ask: []int{0, 2, 1},
	},
	{name: "fair with ghosts", fair: true, people: four, left: chances{order: 3, lost: 1, ghosts: 1}, ask: []int{0, 2, 1}},
	{
		name: "fair and late", fair: true, people: three, left: chances{order: 3, lost: 1, late: 2, refused: 1},
		ask: []int{0, 1, 2},
	},
	{
		name: "fair and crashed", fair: true, people: three, left: chances{order: 3, lost: 1, crashes: 1},
		ask: []int{0, 1, 2},
	},
	{
		name: "fair and restarted", fair: true, people: four, left: chances{order: 3, lost: 1, restart: 2},
		ask: []int{0, 1, 2},
	},
	{
		name: "fair without a queue", fair: true, people: three, left: chances{order: 3, lost: 1, cancels: 1},
		ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true },
	},
	{
		name: "fair beside outsiders", fair: true, people: three, left: chances{order: 3, lost: 1}, ask: []int{0, 1, 2},
		bad: func(m *storeModel) { m.outsiders = 1 },
	},
	{
		name: "fair and unseated", fair: true, people: four, left: chances{order: 3, lost: 1, cancels: 1, unseats: 2},
		ask: []int{0, 2, 1},
	},
	{name: "permits", permits: 2, people: four, left: chances{order: 4}, ask: []int{0, 2}},
	{
		name: "permits and a great request", permits: 2, people: four, left: chances{order: 4, cancels: 1},
		ask: []int{0, 1, 2, 3},
	},
	{name: "permits and lossy", permits: 2, people: four, left: chances{order: 3, lost: 2}, ask: []int{0, 2, 1}},
	{
		name: "permits and cancelled", permits: 2, people: four, left: chances{order: 3, lost: 1, cancels: 3},
		ask: []int{0, 2, 1, 3},
	},
	{
		name: "fair with leases that outlive their processes", fair: true, people: outlive,
		left: chances{order: 3, lost: 1, cancels: 1}, ask: []int{0, 2},
	},
	{
		name: "permits with fixed leases", permits: 2, people: fixed, left: chances{order: 3, lost: 2, cancels: 1},
		ask: []int{0, 1},
	},
	{name: "permits tries", permits: 2, people: tries, left: chances{order: 3, lost: 2}, ask: []int{0}},
	{
		name: "permits and broken", permits: 2, people: four, left: chances{order: 3, lost: 1, broken: 1, resets: 1},
		ask: []int{0, 2, 1},
	},
	{
		name: "permits and late", permits: 2, people: three, left: chances{order: 3, lost: 1, late: 2, refused: 2},
		ask: []int{0, 1, 2},
	},
	{
		name: "permits and crashed", permits: 2, people: three, left: chances{order: 3, lost: 1, crashes: 1},
		ask: []int{0, 1, 2},
	},
	{
		name: "permits and restarted", permits: 2, people: four, left: chances{order: 3, lost: 1, restart: 2},
		ask: []int{0, 1, 2},
	},
	{
		name: "permits without a queue", permits: 2, people: four, left: chances{order: 3, lost: 1, cancels: 1},
		ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true },
	},
	{
		name: "permits for a couple", permits: 2, people: couple, left: chances{order: 3, lost: 1, cancels: 1},
		ask: []int{0, 1, 2}, bad: func(m *storeModel) { m.plain = true },
	},
	{
		name: "permits and unseated", permits: 2, people: couple, left: chances{order: 3, lost: 1, cancels: 1, unseats: 2},
		ask: []int{0, 1, 2},
	},
	{
		name: "permits and closed", permits: 2, people: three, left: chances{order: 3, lost: 2, closed: 2},
		ask: []int{0, 1, 2},
	},
	{name: "fair and closed", fair: true, people: three, left: chances{order: 3, lost: 2, closed: 2}, ask: []int{0, 1, 2}},
}
