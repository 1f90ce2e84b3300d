package redisson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redisserver"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// spoils are what the threads of one process got in a rush for a lock.
type spoils struct {
	grants  int
	longest time.Duration // wait
	refused int           // tries that waited for 5 s
	without time.Duration // the longest time that none of them was granted it
	served  int           // threads that were granted it at least once
}

// String is the answer to the commands "rush" and "spoils".
func (s spoils) String() string {
	return fmt.Sprint(s.grants, s.longest.Milliseconds(), s.refused, s.without.Milliseconds(), s.served)
}

func parseSpoils(t *testing.T, text string) (s spoils) {
	t.Helper()
	_, err := fmt.Sscan(text, &s.grants, &s.longest, &s.refused, &s.without, &s.served)
	must(t, err)
	s.longest, s.without = s.longest*time.Millisecond, s.without*time.Millisecond
	return s
}

// work carries something out while it has a thing.
type work func(context.Context, func(context.Context, channelapi.Grant) error) error

// workOf is how we work with a thing. Of a semaphore that takes one permit.
func workOf(locks *channelapi.Locks, w thing) work {
	one := func(do func(context.Context, int, func(context.Context, channelapi.Grant) error) error) work {
		return func(ctx context.Context, f func(context.Context, channelapi.Grant) error) error { return do(ctx, 1, f) }
	}
	switch w.kind {
	case "semaphore":
		return one(locks.Semaphore(w.name).Do)
	case "permits":
		return one(locks.Permits(w.name).Do)
	}
	return lockOf(locks, w.kind)(w.name).Do
}

// counter is a key that each holder increments, on the server with an address. It may be none.
type counter struct{ addr, key string }

// use returns what a holder does for some time, and what ends all use.
func (c counter) use(hold time.Duration) (func() error, func(), error) {
	if c.key == "" {
		return func() error { <-time.After(hold); return nil }, func() {}, nil
	}
	conn, err := redisserver.Dial(c.addr, "")
	if err != nil {
		return nil, nil, err
	}
	return func() error { return increment(conn, c.key, hold) }, func() { conn.Close() }, nil
}

// rush is a contest for one thing, as Rush.java has it.
type rush struct {
	ended   atomic.Bool
	mu      sync.Mutex // guards what follows
	all     spoils
	granted time.Time // when it was last
}

// run has goroutines acquire a thing again and again for some time, or until the rush is ended.
func (r *rush) run(ctx context.Context, do work, threads int, length, hold time.Duration, c counter) (spoils, error) {
	r.granted = time.Now()
	last, errs := r.granted.Add(length), make(chan error, threads)
	for range threads {
		go func() { errs <- r.acquire(ctx, do, last, hold, c) }()
	}
	var bad error
	for range threads {
		bad = errors.Join(bad, <-errs)
	}
	return r.spoils(), bad
}

func (r *rush) acquire(ctx context.Context, do work, last time.Time, hold time.Duration, c counter) error {
	use, end, err := c.use(hold)
	if err != nil {
		return err
	}
	defer end()
	served := 1
	for asked := time.Now(); asked.Before(last) && !r.ended.Load() && err == nil; asked = time.Now() {
		err = do(ctx, func(context.Context, channelapi.Grant) error {
			r.count(time.Since(asked), served)
			served = 0
			return use()
		})
	}
	return err
}

// count counts a grant, and the goroutine that has it if it is its first.
func (r *rush) count(waited time.Duration, served int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.grants++
	r.all.served += served
	r.all.longest = max(r.all.longest, waited)
	r.all.without, r.granted = max(r.all.without, time.Since(r.granted)), time.Now()
}

func (r *rush) spoils() spoils {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// contestVariable is the length of each contest of TestNobodyStarves. If it is set, there are all contests
// and not only a few.
const contestVariable = "LOCKAGENT_TEST_CONTEST"

// contestLength is that length, or 0 for short contests. Those run among many tests, on a machine that may stall anybody
// for seconds. So they last until everybody has had enough.
func contestLength(t *testing.T) (length time.Duration) {
	if text := os.Getenv(contestVariable); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		must(t, err)
	}
	return length
}

// sleepless bounds the waits of a short contest. A waiter that misses its wake-up asks again after 10 s.
const sleepless = 8 * time.Second

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
	rushHold  = 500 // microseconds
	rushGroup = 8   // goroutines in each process of ours
)

func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	nobodyStarves(t, single(t))
}

func TestNobodyStarvesInACluster(t *testing.T) {
	t.Parallel()
	nobodyStarves(t, cluster(t))
}

// Nobody publishes sharded messages. The servers have them, so our agents also hear the sharded way. With servers before Redis 7 they do not.
func TestP02NobodyStarvesWithClassicMessages(t *testing.T) {
	t.Parallel()
	nobodyStarves(t, classic(t))
}

// Java hears messages to all nodes alone, and our agents take turns by sharded ones.
func TestP02NobodyStarvesBesideJavaWithClassicMessages(t *testing.T) {
	t.Parallel()
	w := classic(t)
	w.sharded = redisstore.ShardedAuto
	nobodyStarves(t, w)
}

// nobodyStarves has threads of Java contend with agents in many ways.
func nobodyStarves(t *testing.T, w *world) {
	java := w.startJava(t, 30*time.Second)
	agents := []*process{w.startAgent(t, 30*time.Second), w.startAgent(t, 30*time.Second)}
	length := contestLength(t)
	for _, c := range []struct {
		way       string
		threads   int
		processes int // of ours
		always    bool
		each      bool // each thread of Java gets a turn in time, if the contest is long enough
	}{
		{waiting, 8, 1, true, true},
		{waiting, 8, 2, false, false},
		{waiting, 1, 1, false, false},
		{waiting, 1, 2, false, false},
		{trying, 8, 1, false, true},
		{trying, 8, 2, true, false},
		{trying, 1, 1, false, false},
		{trying, 1, 2, false, false},
		{polling, 8, 1, true, false},
		{polling, 8, 2, false, false},
		{polling, 1, 1, false, false},
		{polling, 1, 2, false, false},
		{spinning, 8, 1, false, false},
		{spinning, 8, 2, false, false},
		{spinning, 1, 1, false, false},
		{spinning, 1, 2, true, false},
		{writing, 8, 1, false, false},
		{writing, 8, 2, false, false},
		{writing, 1, 1, false, false},
		{writing, 1, 2, false, false},
		{writeTry, 8, 1, false, false},
		{writeTry, 8, 2, false, false},
		{writeTry, 1, 1, false, false},
		{writeTry, 1, 2, true, false},
		{fair, 8, 2, true, false},
		{fair, 1, 1, false, false},
		{fenced, 8, 2, true, false},
		{fenced, 1, 1, false, false},
		{spin, 8, 1, false, false},
		{spin, 8, 2, true, false},
		{spin, 1, 1, false, false},
		{spin, 1, 2, false, false},
		{semaphore, 8, 2, true, false},
		{semaphore, 1, 1, false, false},
		{permits, 8, 2, true, false},
		{permits, 1, 1, false, false},
	} {
		if length == 0 && !c.always {
			continue
		}
		t.Run(fmt.Sprintf("%s-%dThreads-%dProcesses", c.way, c.threads, c.processes), func(t *testing.T) {
			writes, name := strings.HasPrefix(c.way, "write."), "rush "+t.Name()
			if c.way == semaphore || c.way == permits {
				w.nodeOf(name).Do("SET", name, "1")
			}
			polls := c.way == polling || c.way == spinning || c.way == spin
			members := c.threads + rushGroup*c.processes
			// Whoever polls gets a turn now and then, which is enough for many grants. So it is for whoever writes alone while many read at
			// once. Those who poll have no queue, so among themselves some of Redisson's threads wait for seconds. Where both sides poll,
			// nobody has an advantage.
			some := writes || polls && (c.way != spin || length == 0)
			enough := func(theirs, ours spoils) error {
				if some && theirs.grants < 40 {
					return fmt.Errorf("Java has %d grants, want 40", theirs.grants)
				}
				if !polls && theirs.served < c.threads || ours.served < rushGroup*c.processes {
					return fmt.Errorf("%d threads and %d goroutines have had a turn, want all", theirs.served, ours.served)
				}
				if some {
					return nil
				}
				all := theirs.grants + ours.grants
				if fair := all * c.threads / members; theirs.grants < fair/3 {
					return fmt.Errorf("Java has %d grants, less than a third of a fair share: %d", theirs.grants, fair)
				}
				if fair := all * rushGroup * c.processes / members; ours.grants < fair/3 {
					return fmt.Errorf("Go has %d grants, less than a third of a fair share: %d", ours.grants, fair)
				}
				if all < 500 {
					return fmt.Errorf("all have %d grants, want 500", all)
				}
				return nil
			}
			theirs, ours := rushTogether(t, w, java, agents[:c.processes], rivalry{name, c.way, c.threads, length, rushHold, !writes}, enough)
			if theirs.refused > 0 {
				t.Errorf("%d tries were refused after 5 s", theirs.refused)
			}
			// Some thread of Java gets a turn in time. Which one is up to Redisson, see README.md. Beside as many goroutines as
			// threads, turns are so frequent that each thread gets one.
			waited := theirs.without
			if c.threads == 1 || c.each && length > 0 {
				waited = theirs.longest
			}
			bound := time.Second
			if length == 0 {
				bound = sleepless
			}
			if waited > bound || ours.longest > bound {
				t.Errorf("somebody of Java waited for %v, and somebody of Go for %v; want at most %v", waited, ours.longest, bound)
			}
		})
	}
}

func TestNobodyWhoPollsStarves(t *testing.T) {
	t.Parallel()
	pollTogether(t, single(t), []pollers{
		{"semaphore", 1, 3},
		{"semaphore", 5, 2},
		{"permits", 1, 2},
		{"permits", 5, 3},
		{"write", 0, 1},
		{"write", 0, 2},
	})
}

func TestNobodyWhoPollsStarvesInACluster(t *testing.T) {
	t.Parallel()
	pollTogether(t, cluster(t), []pollers{{"semaphore", 5, 2}, {"permits", 1, 3}, {"write", 0, 2}})
}

// pollers is a semaphore that a thread of Java polls beside some processes of ours, or the lock of a writer beside
// readers.
type pollers struct {
	kind               string
	permits, processes int
}

// pollTogether has a thread of Java poll, while agents leave no permit free, or read on and on. It gets what it polls again and again.
func pollTogether(t *testing.T, w *world, all []pollers) {
	java := w.startJava(t, 30*time.Second)
	agents := []*process{w.startAgent(t, 30*time.Second), w.startAgent(t, 30*time.Second), w.startAgent(t, 30*time.Second)}
	length, hold := contestLength(t), 150_000 // microseconds: one turn is too short for two such holds
	for _, c := range all {
		t.Run(fmt.Sprintf("%s-%dPermits-%dProcesses", c.kind, c.permits, c.processes), func(t *testing.T) {
			name := "rush " + t.Name()
			if c.permits > 0 {
				w.nodeOf(name).Do("SET", name, strconv.Itoa(c.permits))
			}
			enough := func(theirs, ours spoils) error {
				if theirs.grants < 3 || ours.served < rushGroup*c.processes {
					return fmt.Errorf("Java has %d grants, want 3; %d goroutines have had a turn, want all", theirs.grants, ours.served)
				}
				return nil
			}
			all := rivalry{name, c.kind + ".rushPoll", 1, length, hold, c.permits == 1}
			theirs, ours := rushTogether(t, w, java, agents[:c.processes], all, enough)
			bound := 1500 * time.Millisecond // one turn of a writer, or of a permit, is about every second
			if length == 0 {
				bound = sleepless
			}
			if max(theirs.longest, ours.longest) > bound {
				t.Errorf("Java waited for %v, and somebody of Go for %v", theirs.longest, ours.longest)
			}
		})
	}
}

// rivalry is what threads of Java and of ours acquire, and how. hold is how long Java has it, in microseconds. If counts is set,
// each holder increments a counter, and no increment may be lost. It lasts for its length, or if that is 0 until all have had enough.
type rivalry struct {
	name, way string
	threads   int
	length    time.Duration
	hold      int
	counts    bool
}

// rushTogether has threads of Java contend with 8 goroutines in each of some processes. It returns what each side got, which must
// have been enough.
func rushTogether(t *testing.T, w *world, java *process, agents []*process, r rivalry, enough func(theirs, ours spoils) error) (theirs, ours spoils) {
	t.Helper()
	key := r.name + " counter"
	node := w.nodeOf(key)
	var count []any
	if r.counts {
		count = []any{key, node.Addr()}
	}
	rush := func(p *process, way string, threads int, length time.Duration, hold int) <-chan answer {
		return p.send("main", way, append([]any{r.name, threads, length.Milliseconds(), hold}, count...)...)
	}
	learned := parseSpoils(t, value(t, rush(java, r.way, r.threads, 300*time.Millisecond, r.hold))) // Java learns to run
	ourKind, _, _ := strings.Cut(r.way, ".")
	if ourKind == "write" {
		ourKind = "read"
	}
	length := r.length
	if length == 0 {
		length = time.Minute // at most
	}
	all := append([]*process{java}, agents...)
	answers := []<-chan answer{rush(java, r.way, r.threads, length, r.hold)}
	for _, agent := range agents {
		answers = append(answers, rush(agent, ourKind+".rush", rushGroup, length, rushHold))
	}
	if r.length == 0 {
		untilEnough(t, all, r.name, enough)
	}
	var got []spoils
	for _, answer := range answers {
		got = append(got, parseSpoils(t, valueAfter(t, answer, length)))
	}
	theirs, ours = got[0], sum(got[1:])
	t.Logf("Java had %d grants, and waited for at most %v, and all for %v; Go had %d, and %v", theirs.grants, theirs.longest, theirs.without, ours.grants, ours.longest)
	if err := enough(theirs, ours); err != nil {
		t.Error(err)
	}
	if r.counts {
		want(t, "the counter", fmt.Sprint(node.Do("GET", key)), strconv.Itoa(learned.grants+theirs.grants+ours.grants))
	}
	return theirs, ours
}

// untilEnough ends a rush when all have had enough. The first process is that of Java.
func untilEnough(t *testing.T, all []*process, name string, enough func(theirs, ours spoils) error) {
	t.Helper()
	missing := errors.New("nobody has had anything")
	defer func() {
		if missing != nil {
			t.Error(missing)
		}
	}()
	waittest.Until(t, "everybody has had enough", func() bool {
		var got []spoils
		for _, p := range all {
			got = append(got, parseSpoils(t, p.do(t, "watch", "rush.spoils", name)))
		}
		missing = enough(got[0], sum(got[1:]))
		return missing == nil
	})
	for _, p := range all {
		p.do(t, "watch", "rush.end", name)
	}
}

// sum is the spoils of several processes.
func sum(several []spoils) (all spoils) {
	for _, s := range several {
		all.grants, all.served, all.longest = all.grants+s.grants, all.served+s.served, max(all.longest, s.longest)
	}
	return all
}
