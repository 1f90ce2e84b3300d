package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/lockagent/lockagent/bench/contender"
)

// target is something that has to be reached.
type target struct {
	text    string
	measure measurement
}

// figures are results. A result that was not measured is NaN, so it is neither at least nor at most
// any number.
type figures struct{ *results }

func (f figures) of(tableName, contenderName, key string) float64 {
	v, ok := f.value(tableName, contenderName, key)
	if !ok {
		return math.NaN()
	}
	return v
}

func (f figures) ours(tableName, key string) float64 { return f.of(tableName, us, key) }

const us = contender.Lockagent

// best returns the peer with the greatest figure.
func (f figures) best(tableName, key string) (string, float64) {
	return f.bestBy(tableName, key, func(v, best float64) bool { return v > best })
}

// bestBy returns the peer whose figure is better than all others'.
func (f figures) bestBy(tableName, key string, better func(v, best float64) bool) (string, float64) {
	name, best := "no peer", math.NaN()
	for _, k := range contender.Kinds {
		if v := f.of(tableName, k.Name, key); k.IsPeer() && !math.IsNaN(v) && (math.IsNaN(best) || better(v, best)) {
			name, best = k.Name, v
		}
	}
	return name, best
}

// atMost and atLeast are targets of one figure.
func atMost(most, v float64, format string, args ...any) (string, bool) {
	return fmt.Sprintf(format, args...), v <= most
}

func atLeast(least, v float64, format string, args ...any) (string, bool) {
	return fmt.Sprintf(format, args...), v >= least
}

// measurement returns what was measured, and whether it reaches the target.
type measurement = func(figures) (text string, reached bool)

// ratioAtMost and ratioAtLeast are targets of a ratio that a table has.
func ratioAtMost(table, key string, most float64) measurement {
	return func(f figures) (string, bool) {
		v := f.ours(table, key)
		return atMost(most, v, "%.2f x", v)
	}
}

func ratioAtLeast(table, key string, least float64) measurement {
	return func(f figures) (string, bool) {
		v := f.ours(table, key)
		return atLeast(least, v, "%.2f x", v)
	}
}

// rateToBest is a target of a rate to that of the peer who has the best one.
func rateToBest(table, key string, least float64) measurement {
	return func(f figures) (string, bool) {
		name, best := f.best(table, key)
		v := f.ours(table, key) / best
		return atLeast(least, v, "%.1f x %s", v, name)
	}
}

// leastOfMean is a target of the share of the goroutine that had the least, in the worst round.
func leastOfMean(table string) measurement {
	return func(f figures) (string, bool) {
		row := f.find(table, us)
		if row == nil {
			return "", false
		}
		v := row.Values["least"].Low
		return atLeast(0.5, v, "the least has %.2f of the mean", v)
	}
}

// serverTimeToFloor is a target of what so many locks at a time cost the server.
func serverTimeToFloor(batch int) measurement {
	return func(f figures) (string, bool) {
		v := f.ours("server", batchKey("x", batch))
		return atMost(1.7, v, "%.2f x (%.1f µs to %.1f µs)", v, f.ours("server", batchKey("us", batch)),
			f.of("server", leastPair, batchKey("us", batch)))
	}
}

// killedWithin is a target of the wait after the holder was killed, beside a hand-off.
func killedWithin(row string) measurement {
	return func(f figures) (string, bool) {
		v := f.of("killed", row, "x-p50")
		return atMost(10, v, "%.2f x, p99 %.2f x", v, f.of("killed", row, "x-p99"))
	}
}

// claimUnder is a target of the memory that a claim has in the daemon, in KB.
func claimUnder(row string, most float64) measurement {
	return func(f figures) (string, bool) {
		v := f.of("claims-10000", row, "memory")
		return fmt.Sprintf("%.1f KB", v), v < most
	}
}

var targets = []target{
	{
		"Own lock, 1 goroutine: not slower than the best peer by more than a tenth (cycle p50)",
		func(f figures) (string, bool) {
			name, best := f.bestBy("own-1", "x-p50", func(v, best float64) bool { return v < best })
			v := f.ours("own-1", "x-p50") / best
			return atMost(1.1, v, "%.2f x %s", v, name)
		},
	},
	{"Own locks, 64 goroutines: at least 1.0 x the floor's cycles/s", ratioAtLeast("own-64", "x-rate", 1)},
	{"Own locks, 1024 goroutines: at least 1.0 x the floor's cycles/s", ratioAtLeast("own-1024", "x-rate", 1)},
	{"Cold names, 1 goroutine: cycle p50 at most 1.15 x the floor's", ratioAtMost("cold-1", "x-p50", 1.15)},
	{"Cold names, 64 goroutines: at least 1.0 x the floor's cycles/s", ratioAtLeast("cold-64", "x-rate", 1)},
	{"Cold names, 1024 goroutines: at least 1.0 x the floor's cycles/s", ratioAtLeast("cold-1024", "x-rate", 1)},
	{
		"Names used once, a deadline on each call, 1 goroutine, by Do: not slower than the fastest peer (cycle p50)",
		func(f figures) (string, bool) {
			name, best := f.bestBy("do-1", "x-p50", func(v, best float64) bool { return v < best })
			v := f.ours("do-1", "x-p50") / best
			return atMost(1, v, "%.2f x %s", v, name)
		},
	},
	{"The same with 64 goroutines: at least 0.9 x the floor's cycles/s", ratioAtLeast("do-64", "x-rate", 0.9)},
	{"The same with 64 goroutines: p99 at most 2 x the floor's", ratioAtMost("do-64", "x-p99", 2)},
	{"The same with 1024 goroutines: at least 0.9 x the floor's cycles/s", ratioAtLeast("do-1024", "x-rate", 0.9)},
	{"The same with 1024 goroutines: p99 at most 2 x the floor's", ratioAtMost("do-1024", "x-p99", 2)},
	{"One lock, 64 goroutines of one process: at least 25 x the best peer in grants/s", rateToBest("one-64", "rate", 25)},
	{
		"The same with a deadline for each call: at least 18 x the best peer, with deadlines as well",
		rateToBest("one-64", "d-rate", 18),
	},
	{
		"A grant with its deadline: at most 1.25 x the time of one without, context.WithTimeout apart",
		ratioAtMost("one-64", "d-x", 1.25),
	},
	{"One lock, 64 goroutines: under 0.1 Redis commands per grant", func(f figures) (string, bool) {
		v := f.ours("one-64", "sent")
		return fmt.Sprintf("%.3f", v), v < 0.1
	}},
	{"One lock, 64 goroutines: p99 wait under ten times the median", func(f figures) (string, bool) {
		v := f.ours("one-64", "p99") / f.ours("one-64", "p50")
		return fmt.Sprintf("%.1f x", v), v < 10
	}},
	{"One lock, 64 goroutines: every goroutine at least half of the mean", leastOfMean("one-64")},
	{"One lock, 8 processes x 8: at least 7 x the best peer in grants/s", rateToBest("one-8x8", "rate", 7)},
	{"One lock, 8 processes x 8: p99 wait under 0.1 s", func(f figures) (string, bool) {
		v := f.ours("one-8x8", "p99")
		return fmt.Sprintf("%.1f ms", v), v < 100
	}},
	{"One lock, 8 processes x 8: every goroutine at least half of the mean", leastOfMean("one-8x8")},
	{"One lock, 8 processes x 8: under 0.2 commands per grant", func(f figures) (string, bool) {
		v := f.ours("one-8x8", "sent")
		return fmt.Sprintf("%.3f", v), v < 0.2
	}},
	{"The same with 5 ms inside: at least 95 % of the ideal 200 grants/s", func(f figures) (string, bool) {
		v := f.ours("one-8x8-5ms", "rate")
		return atLeast(190, v, "%.1f grants/s, %.1f %%", v, v/2)
	}},
	{
		"Hand-off between two processes: p50 at most 1.2 x one script call plus one published message received",
		func(f figures) (string, bool) {
			v := f.ours("handoff", "x-p50")
			return atMost(1.2, v, "%.2f x (%.0f µs to %.0f µs)", v, f.ours("handoff", "p50"), f.of("handoff", floorSum, "p50"))
		},
	},
	{
		"Cluster of three nodes, one lock, 64 goroutines: a grant at most 1.5 x the time on a lone server",
		ratioAtMost("cluster", "x-one-64", 1.5),
	},
	{
		"Cluster of three nodes, one lock, 8 processes x 8: a grant at most 1.5 x the time on a lone server",
		ratioAtMost("cluster", "x-one-8x8", 1.5),
	},
	{
		"Cluster of three nodes, hand-off: p50 at most 1.5 x that on a lone server", ratioAtMost("cluster", "x-handoff", 1.5),
	},
	{
		"One lock, 8 processes x 8, through the daemon: at least 3 x the best peer in grants/s",
		func(f figures) (string, bool) {
			name, best := f.best("one-8x8", "rate")
			v := f.of("one-8x8", contender.Daemon.Name, "rate") / best
			return atLeast(3, v, "%.1f x %s", v, name)
		},
	},
	{
		"Hand-off between two processes through the daemon: p50 at most a third of one through Redis",
		func(f figures) (string, bool) {
			through := f.ours("handoff", "p50")
			v := f.of("handoff", contender.Daemon.Name, "p50") / through
			awake := f.of("handoff", contender.Daemon.Name, "awake") / f.ours("handoff", "awake")
			return atMost(1./3, v, "%.2f x; between processes that are awake %.2f x; a relay that does nothing else %.2f x", v,
				awake, f.of("handoff", floorRelay, "p50")/through)
		},
	},
	{
		"Acquire and release over the socket, the store's part apart: at most 2 x an empty stream and an empty call",
		func(f figures) (string, bool) {
			h1, h2 := f.ours("socket", "x-h1"), f.ours("socket", "x-h2")
			return atMost(2, max(h1, h2), "%.2f x over HTTP/1.1, %.2f x over HTTP/2", h1, h2)
		},
	},
	{"Holder killed, the next one on its host: within 10 x a hand-off (p50)", killedWithin(contender.Lockagent)},
	{"Holder killed, the next one on another host: within 10 x a hand-off through Redis (p50)", killedWithin(otherHost)},
	{
		"lockagent lock -n NAME true: at most 3 x flock -n FILE true and the start of a Go program (p50)",
		ratioAtMost("command", "x", 3),
	},
	{"10,000 claims of one client of the daemon: under 20 KB each in the daemon", claimUnder(contender.Lockagent, 20)},
	{
		"10,000 claims, each a stream with a connection of its own: under 50 KB each in the daemon",
		claimUnder(claimStreams, 50),
	},
	{"Restart of the daemon with 10,000 claims: ready within 2 s of processor time", func(f figures) (string, bool) {
		v := f.ours("claims-10000", "restart")
		return fmt.Sprintf("%.2f s", v), v < 2
	}},
	{
		"Server time of an acquire and release through Redis, 64 at a time: at most 1.7 x that of the least pair of " +
			"scripts for 64 locks",
		serverTimeToFloor(64),
	},
	{
		"Server time of an acquire and release through Redis, 256 at a time: at most 1.7 x that of the least pair of " +
			"scripts for 256 locks",
		serverTimeToFloor(256),
	},
	{"A re-entrant acquire and its release: no Redis command", func(f figures) (string, bool) {
		v := f.ours("reentrant", "commands")
		return atMost(0, v, "%.0f in %.0f", v, f.ours("reentrant", "cycles"))
	}},
	{
		"Read lock, 64 readers of one process: at least 30 x the grants/s of an exclusive lock taken through Redis",
		ratioAtLeast("readers", "x", 30),
	},
	{"Three free locks at once, through Redis: at most 1.5 x the time of one", ratioAtMost("multi", "x", 1.5)},
	{"Fair lock, 4 processes x 8: at least 2 x Redisson's in grants/s", ratioAtLeast("redisson", "fair-x", 2)},
	{"The same: at most 2.5 Redis commands per grant", func(f figures) (string, bool) {
		v := f.ours("redisson", "fair-sent")
		return atMost(2.5, v, "%.2f", v)
	}},
	{"Plain lock, 4 processes x 8: more grants/s than Redisson's", ratioAtLeast("redisson", "plain-x", 1)},
	{"Read lock, 4 processes x 8: more grants/s than Redisson's", ratioAtLeast("redisson", "read-x", 1)},
	{
		"With the event log, own lock through Redis, 1 goroutine: a cycle at most 1.15 x the time of one without",
		ratioAtMost("events", "x-own-1", 1.15),
	},
	{
		"With the event log, own locks through Redis, 64 goroutines: a cycle at most 1.15 x the time of one without",
		ratioAtMost("events", "x-own-64", 1.15),
	},
	{
		"With the event log, one lock, 64 goroutines: a grant at most 1.5 x the time of one without",
		ratioAtMost("events", "x-long", 1.5),
	},
	{"The same without a pause: no event is dropped", func(f figures) (string, bool) {
		v := f.ours("events", "dropped")
		return fmt.Sprintf("%.0f dropped, %s events/s", v, number(f.ours("events", "records"))), v == 0
	}},
	{"Audit of 10,000,000 events: at most 45 s of processor time", func(f figures) (string, bool) {
		v := f.ours("audit", "processor")
		return fmt.Sprintf("%.1f s", v), v <= 45
	}},
	{"The same: memory for live locks only, under 32 MB more in the end", func(f figures) (string, bool) {
		v := f.ours("audit", "heap")
		return fmt.Sprintf("%.1f MB", v), v < 32
	}},
	{
		"Tracing without an SDK, own lock through Redis, 1 goroutine: a cycle at most 1.02 x the time of one without",
		ratioAtMost("tracing", "x-none", 1.02),
	},
	{"The same with an SDK and 1 % sampled: at most 1.05 x", ratioAtMost("tracing", "x-1", 1.05)},
	{"10,000 kept locks: under 15 commands per second", func(f figures) (string, bool) {
		v := f.ours("kept-10000", "sent")
		return fmt.Sprintf("%.1f", v), v < 15
	}},
	{"10,000 kept locks: under 0.03 cores in the client", func(f figures) (string, bool) {
		v := f.ours("kept-10000", "cpu")
		return fmt.Sprintf("%.4f", v), v < 0.03
	}},
	{"100,000 kept locks: under 2.6 KB of heap each", func(f figures) (string, bool) {
		v := f.ours("kept-100000", "heap")
		return fmt.Sprintf("%.0f bytes", v), v < 2662
	}},
	{"100,000 kept locks: under 120 commands per second on average", func(f figures) (string, bool) {
		v := f.ours("kept-100000", "sent")
		return fmt.Sprintf("%.1f", v), v < 120
	}},
	{"100,000 kept locks: no burst above ten times 120 per second", func(f figures) (string, bool) {
		v := f.ours("kept-100000", "burst100ms")
		return atMost(1200, v, "%.0f/s within 100 ms, %.0f/s within 1 s", v, f.ours("kept-100000", "burst1s"))
	}},
	{"Lock that rests, 1 goroutine: at least 20 x the floor's cycles/s", ratioAtLeast("own-1", "x-rate", 20)},
	{
		"Locks that rest, 64 goroutines with one each: at least 6 x the floor's cycles/s",
		ratioAtLeast("own-64", "x-rate", 6),
	},
	{
		"Locks that rest, 1024 goroutines with one each: at least 3 x the floor's cycles/s",
		ratioAtLeast("own-1024", "x-rate", 3),
	},
	{
		"Locks that rest, 1, 64 and 1024 goroutines, with a deadline for each call: at least two thirds of the rate without",
		eachRest("d-x", "%.2f x", func(v float64) bool { return v >= 2./3 }),
	},
	{
		"Locks that rest, 1, 64 and 1024 goroutines, with the event log: at least half of the rate without",
		eachRest("e-x", "%.2f x", func(v float64) bool { return v >= 0.5 }),
	},
	{"Locks that rest, 1, 64 and 1024 goroutines: under 0.01 Redis commands per cycle", eachRest("sent", "%.4f", few)},
	{"The same with a deadline for each call", eachRest("d-sent", "%.4f", few)},
	{"The same with the event log", eachRest("e-sent", "%.4f", few)},
	{
		"Two agents take turns on a lock after pauses of 1 ms: a grant at most 1.1 x the time without resting (p50)",
		price("1ms", 1.1),
	},
	{"Two agents take turns on a lock after pauses of 10 ms: at most 1.1 x", price("10ms", 1.1)},
	{"Two agents take turns on a lock after pauses of 50 ms: at most 1.1 x", price("50ms", 1.1)},
	{"Two agents take turns on a lock after pauses of 200 ms: at most 1.1 x", price("200ms", 1.1)},
	{
		"Two agents take turns and no lock is used twice: a grant at most 1.05 x the time without resting (p50)",
		price(neverTwice, 1.05),
	},
	{
		"Redisson waits for a lock that rests: at most 100 ms more than for one that does not",
		func(f figures) (string, bool) {
			v, base := f.ours("rest-java", "max"), f.of("rest-java", contender.Unrested.Name, "p50")
			return atMost(100, v-base, "%.1f ms more: the longest wait of %.0f that met a rest is %.1f ms", v-base,
				f.ours("rest-java", "rested"), v)
		},
	},
	{
		"Redisson waits beside a hot loop of one goroutine: p99 and the longest wait under 150 ms",
		func(f figures) (string, bool) {
			p99, most := f.ours("rest-java", "h-p99"), f.ours("rest-java", "h-max")
			return fmt.Sprintf("p99 %.1f ms, the longest %.1f ms", p99, most), most < 150
		},
	},
	{"Process in a hot loop on a lock killed: another process has the lock within 2.5 s", func(f figures) (string, bool) {
		v := f.ours("rest-killed", "max")
		return atMost(2500, v, "%.0f ms, the longest of %.0f", v, f.ours("rest-killed", "n"))
	}},
	{"Abandoned requests: no key left behind, no goroutine left", func(f figures) (string, bool) {
		row := f.find("abandoned", us)
		if row == nil {
			return "", false
		}
		keys, goroutines := row.Values["keys"].High, row.Values["goroutines"].High
		return atMost(0, keys+goroutines, "%.0f keys, %.0f goroutines", keys, goroutines)
	}},
	{"Abandoned requests, no lock rests: at least half the rate of completed ones", ratioAtLeast("abandoned", "x", 0.5)},
	{"1,000,000 names used once: back to within 10 % of the starting heap", func(f figures) (string, bool) {
		v := f.ours("once-1000000", "percent")
		return atMost(110, v, "%.0f %% of it", v)
	}},
}

// verdict is a target and what came of it.
type verdict struct {
	Target   string `json:"target"`
	Measured string `json:"measured"`
	Reached  string `json:"reached"` // yes, no, or not measured
}

func (r *results) verdicts() []verdict {
	var all []verdict
	for _, t := range targets {
		text, reached := t.measure(figures{r})
		v := verdict{Target: t.text, Measured: text, Reached: "no"}
		if text == "" || strings.Contains(text, "NaN") {
			v.Measured, v.Reached = "", "not measured"
		} else if reached {
			v.Reached = "yes"
		}
		all = append(all, v)
	}
	return all
}
