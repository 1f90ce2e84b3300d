//go:build soak

package redisson

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// Rushes of Java, by how its threads acquire the lock.
const (
	waiting   = "plain.rush"     // lock()
	trying    = "plain.rushTry"  // tryLock(5 s)
	polling   = "plain.rushPoll" // tryLock() every 10 ms
	spinning  = "plain.rushSpin" // lock() of the spin lock, while ours do not spin: every 128 ms in the end
	fair      = "fair.rush"
	fenced    = "fenced.rush"
	spin      = "spin.rush" // all spin
	semaphore = "semaphore.rush"
	permits   = "permits.rush"
	writing   = "write.rush" // the write lock, while ours read
	writeTry  = "write.rushTry"
	rushGroup = 8 // goroutines in each process of ours
)

// How long each contest lasts. Who polls gets a turn about every second.
const (
	rushLength = 4 * time.Second
	pollLength = 6 * time.Second
	// meetings is in how many contests of a second a program and agents meet at the latest.
	meetings = 20
)

// rivals are threads of Java that contend with some processes of ours.
type rivals struct {
	way       string
	threads   int
	processes int // of ours
}

// allRivals contend on one server.
var allRivals = []rivals{
	{waiting, 8, 1},
	{waiting, 8, 2},
	{trying, 8, 1},
	{trying, 8, 2},
	{trying, 1, 1},
	{polling, 8, 1},
	{polling, 1, 2},
	{spinning, 1, 2},
	{writing, 8, 2},
	{writeTry, 1, 2},
	{fair, 8, 2},
	{fenced, 8, 2},
	{spin, 8, 2},
	{spin, 1, 2},
	{semaphore, 8, 2},
	{permits, 8, 2},
}

// someRivals contend where messages travel in another way.
var someRivals = []rivals{
	{waiting, 8, 1},
	{trying, 8, 2},
	{polling, 8, 1},
	{writeTry, 1, 2},
	{fair, 8, 2},
	{semaphore, 8, 2},
}

func TestSoakNobodyStarves(t *testing.T) {
	nobodyStarves(t, single(t), allRivals, 3)
}

func TestSoakP02NobodyStarvesInACluster(t *testing.T) {
	redistest.NeedsSharded(t)
	nobodyStarves(t, cluster(t), someRivals, 3)
}

// agents starts some processes of ours.
func (w *world) agents(t *testing.T, n int) (all []*process) {
	t.Helper()
	for range n {
		all = append(all, w.startAgent(t, 30*time.Second))
	}
	return all
}

// nobodyStarves has threads of Java contend with agents in many ways. Each side gets a part of a fair share.
func nobodyStarves(t *testing.T, w *world, all []rivals, part int) {
	java, agents := w.startJava(t, 30*time.Second), w.agents(t, 2)
	for _, r := range all {
		t.Run(fmt.Sprintf("%s-%dThreads-%dProcesses", r.way, r.threads, r.processes), func(t *testing.T) {
			kind, _, _ := strings.Cut(r.way, ".")
			writes, polls := kind == "write", r.way == polling || r.way == spinning || r.way == spin
			if writes {
				kind = "read"
			}
			c := contestants{
				name: "rush " + t.Name(), way: r.way, threads: r.threads, hold: oursHold, kind: kind, group: rushGroup,
				length: 300 * time.Millisecond, counts: false,
			}
			if r.way == semaphore || r.way == permits {
				w.nodeOf(c.name).Do("SET", c.name, "1")
			}
			contest(t, w, java, nil, c)() // Java learns to run
			c.length, c.counts = rushLength, !writes
			if polls {
				w.hadByJava(c.name)
			}
			theirs, ours := contest(t, w, java, agents[:r.processes], c)()
			if theirs.refused > 0 {
				t.Errorf("%d tries were refused after 5 s", theirs.refused)
			}
			// Some thread of Java gets a turn in time. Which one is up to Redisson, see README.md.
			waited := theirs.without
			if r.threads == 1 {
				waited = theirs.longest
			}
			judge(t, rushLength, waited, ours.longest)
			if writes || polls {
				return // they get a turn now and then: they have no queue, or write alone while many read at once
			}
			groups := []struct {
				who    string
				grants int
				size   int
			}{{"Java", theirs.grants, r.threads}, {"Go", ours.grants, rushGroup * r.processes}}
			for _, g := range groups {
				if share := (theirs.grants + ours.grants) * g.size / (groups[0].size + groups[1].size); g.grants < share/part {
					t.Errorf("%s has %d grants, less than 1/%d of a fair share of %d", g.who, g.grants, part, share)
				}
			}
		})
	}
}

// hadByJava has the store know that Java had a lock a moment ago. Whoever polls gets the lock by luck the first time.
func (w *world) hadByJava(name string) {
	w.nodeOf(name).Do("EVAL", `
		local time = redis.call('TIME')
		return redis.call('ZADD', KEYS[1], string.format('%.0f', time[1] * 1000000 + time[2]), 'foreign')`,
		"1", keyOf("lockagent_notes", name))
}

// judge fails if a side has waited for most of a contest: for more than half.
func judge(t *testing.T, length, java, ours time.Duration) {
	t.Helper()
	if max(java, ours) > length/2 {
		t.Errorf("somebody of Java waited for %v, and somebody of Go for %v, in a contest of %v", java, ours, length)
	}
}

// pollers is a semaphore that a thread of Java polls beside some processes of ours, or the lock of a writer beside
// readers.
type pollers struct {
	kind               string
	permits, processes int
}

func TestSoakNobodyWhoPollsStarves(t *testing.T) {
	pollTogether(t, single(t), []pollers{
		{"semaphore", 1, 3},
		{"semaphore", 5, 2},
		{"permits", 1, 2},
		{"permits", 5, 3},
		{"write", 0, 1},
		{"write", 0, 2},
	})
}

func TestSoakNobodyWhoPollsStarvesInACluster(t *testing.T) {
	redistest.NeedsSharded(t)
	pollTogether(t, cluster(t), []pollers{{"semaphore", 5, 2}, {"permits", 1, 3}, {"write", 0, 2}})
}

// pollTogether has a thread of Java poll, while agents leave no permit free, or read on and on. It gets what it polls
// again and again: a turn of a writer, or of a permit, is about every second. The first one may take longer, for an
// agent that is alone does not contend before it has met another program: as many contests of a second as meetings
// says.
func pollTogether(t *testing.T, w *world, all []pollers) {
	java, agents := w.startJava(t, 30*time.Second), w.agents(t, 3)
	for _, p := range all {
		t.Run(fmt.Sprintf("%s-%dPermits-%dProcesses", p.kind, p.permits, p.processes), func(t *testing.T) {
			name := "rush " + t.Name()
			if p.permits > 0 {
				w.nodeOf(name).Do("SET", name, strconv.Itoa(p.permits))
			}
			w.hadByJava(name)
			kind := p.kind
			if kind == "write" {
				kind = "read"
			}
			c := contestants{
				name: name, way: p.kind + ".rushPoll", threads: 1, hold: 150_000, // one turn is too short for two such holds
				kind: kind, group: rushGroup, length: time.Second,
			}
			for round, met := 0, false; !met; round++ {
				if round == meetings {
					t.Fatalf("Java had no turn beside agents in %d contests of %v", round, c.length)
				}
				theirs, _ := contest(t, w, java, agents[:p.processes], c)()
				met = theirs.grants > 1 // one alone may have come when the agents had stopped
			}
			c.length, c.counts = pollLength, p.permits == 1
			theirs, ours := contest(t, w, java, agents[:p.processes], c)()
			judge(t, pollLength, theirs.longest, ours.longest)
		})
	}
}
