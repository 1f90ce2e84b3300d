package main

import "time"

// plan says how long things are measured. Rounds of two contenders that are compared
// alternate, so that both see the same machine.
type plan struct {
	// Window is how long one round of own locks takes, PeerRounds and OurRounds how
	// many rounds there are, each of a contender and of the floor.
	Window                time.Duration
	PeerRounds, OurRounds int

	// Goroutines is how many have locks of their own at most: a busy machine is too slow for more.
	Goroutines int

	// OneWindow is a round of one lock in one process. SharedWindow is a round of one lock in
	// several processes. InsideWindow is such a round when holders take their time: in less time
	// some would get no turn.
	OneWindow, SharedWindow, InsideWindow time.Duration
	SharedRounds, InsideRounds            int

	// Processes contend with as many of Redisson.
	Processes int

	// HandOffs is how many hand-offs there are of a peer, and half as many as there
	// are of lockagent. PollerHandOffs is how many of those who poll slowly.
	HandOffs, PollerHandOffs int

	// Kills are how many holders are killed on each of one host and two, and Starts how often a program is started.
	Kills, Starts int

	// PriceFor is how long two agents take turns with each pause. JavaWaits is how often Java waits for a lock that
	// rests, and HotWaits how often beside a hot loop. RestKills are how many processes are killed in which a lock
	// rests.
	PriceFor                       time.Duration
	JavaWaits, HotWaits, RestKills int

	// Claims are held through the daemon for Held, before what they cost is measured.
	Claims int
	Held   time.Duration

	// Pairs are acquired and released in each round of what the server spends on them.
	Pairs int

	// KeptFew and KeptMany locks are kept for KeptFor by lockagent, KeptFew for
	// PeersKeptFor by the others.
	KeptFew, KeptMany     int
	KeptFor, PeersKeptFor time.Duration

	// Audited is how many events are audited.
	Audited int
	// ObservedRounds are those of a load with and without the event log, or tracing. What is looked for is small.
	// A round is so long that the little which is published after it does not count.
	ObservedRounds int
	ObservedWindow time.Duration
	// LogFor is for how long the event log has to keep up with one lock.
	LogFor time.Duration

	// Names are used once.
	Names int
	// Settle is how long they have to leave the memory again.
	Settle time.Duration
}

// fullPlan is that of RESULTS.md. It takes about twenty minutes; -limit allows twenty-five.
var fullPlan = plan{
	Window: 300 * time.Millisecond, PeerRounds: 3, OurRounds: 7, Goroutines: 1024,
	OneWindow: 1200 * time.Millisecond, SharedWindow: 2 * time.Second, InsideWindow: 3 * time.Second, SharedRounds: 3,
	InsideRounds: 2, Processes: 4,
	HandOffs: 60, PollerHandOffs: 25,
	Kills: 40, Starts: 40, Claims: 10_000, Held: 3 * time.Second,
	PriceFor: 10 * time.Second, JavaWaits: 30, HotWaits: 100, RestKills: 10,
	Pairs:   3072,
	KeptFew: 10_000, KeptMany: 100_000, KeptFor: 30 * time.Second, PeersKeptFor: 20 * time.Second,
	ObservedRounds: 10, ObservedWindow: time.Second, LogFor: 30 * time.Second, Audited: 10_000_000,
	Names: 1_000_000, Settle: 30 * time.Second,
}

// shortPlan looks at everything for a moment.
var shortPlan = plan{
	Window: 200 * time.Millisecond, PeerRounds: 1, OurRounds: 3, Goroutines: 1024,
	OneWindow: 500 * time.Millisecond, SharedWindow: time.Second, InsideWindow: 2 * time.Second, SharedRounds: 1,
	InsideRounds: 1, Processes: 4,
	HandOffs: 20, PollerHandOffs: 5,
	Kills: 15, Starts: 15, Claims: 10_000, Held: 3 * time.Second,
	PriceFor: 2 * time.Second, JavaWaits: 12, HotWaits: 20, RestKills: 4,
	Pairs:   1024,
	KeptFew: 10_000, KeptMany: 100_000, KeptFor: 11 * time.Second, PeersKeptFor: 2 * time.Second,
	ObservedRounds: 3, ObservedWindow: 300 * time.Millisecond, LogFor: 3 * time.Second, Audited: 1_000_000,
	Names: 100_000, Settle: 15 * time.Second,
}

// smokePlan is for tests: does it work at all?
var smokePlan = plan{
	Window: 100 * time.Millisecond, PeerRounds: 1, OurRounds: 2, Goroutines: 64,
	OneWindow: 100 * time.Millisecond, SharedWindow: 300 * time.Millisecond, InsideWindow: 300 * time.Millisecond,
	SharedRounds: 1, InsideRounds: 1, Processes: 1,
	HandOffs: 2, PollerHandOffs: 1,
	Kills: 2, Starts: 2, Claims: 50, Held: 10 * time.Millisecond,
	PriceFor: 50 * time.Millisecond, JavaWaits: 2, HotWaits: 2, RestKills: 2,
	Pairs:   256,
	KeptFew: 100, KeptMany: 200, KeptFor: 300 * time.Millisecond, PeersKeptFor: 200 * time.Millisecond,
	ObservedRounds: 2, ObservedWindow: 100 * time.Millisecond, LogFor: 300 * time.Millisecond, Audited: 10_000,
	Names: 500, Settle: 10 * time.Millisecond,
}

// windows sets the length of all rounds.
func (p *plan) windows(d time.Duration) {
	p.Window, p.OneWindow, p.SharedWindow, p.InsideWindow, p.ObservedWindow = d, d, d, d, d
}
