package redisson

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// spoils are what the threads of one process got in a rush for a lock.
type spoils struct {
	grants  int
	longest time.Duration // wait
	refused int           // tries that waited for 5 s
}

// String is the answer to the command "rush".
func (s spoils) String() string { return fmt.Sprint(s.grants, s.longest.Milliseconds(), s.refused) }

func parseSpoils(t *testing.T, text string) (s spoils) {
	t.Helper()
	var ms int
	_, err := fmt.Sscan(text, &s.grants, &ms, &s.refused)
	must(t, err)
	s.longest = time.Duration(ms) * time.Millisecond
	return s
}

// rush has goroutines acquire a lock again and again for some time, as Rush.java has threads do.
func rush(ctx context.Context, lock *channelapi.Lock, threads int, length, hold time.Duration) (spoils, error) {
	var (
		mu  sync.Mutex // guards what follows
		all spoils
		bad error
	)
	var group sync.WaitGroup
	end := time.Now().Add(length)
	for range threads {
		group.Go(func() {
			var own spoils
			var err error
			for asked := time.Now(); asked.Before(end) && err == nil; asked = time.Now() {
				err = lock.Do(ctx, func(context.Context, channelapi.Grant) error {
					own.longest = max(own.longest, time.Since(asked))
					own.grants++
					<-time.After(hold) // the work
					return nil
				})
			}
			mu.Lock()
			defer mu.Unlock()
			all.grants, all.longest = all.grants+own.grants, max(all.longest, own.longest)
			if err != nil {
				bad = err
			}
		})
	}
	group.Wait()
	return all, bad
}

// contestVariable is the length of each contest of TestNobodyStarves. If it is set, there are all contests
// and not only a few.
const contestVariable = "LOCKAGENT_TEST_CONTEST"

// Rushes of Java, by how its threads acquire the lock.
const (
	waiting   = "plain.rush"     // lock()
	trying    = "plain.rushTry"  // tryLock(5 s)
	polling   = "plain.rushPoll" // tryLock() every 10 ms
	spinning  = "spin.rush"      // the spin lock: every 128 ms in the end
	rushHold  = 500              // microseconds
	rushGroup = 8                // goroutines in each process of ours
)

func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	nobodyStarves(t, single(t))
}

func TestNobodyStarvesInACluster(t *testing.T) {
	t.Parallel()
	nobodyStarves(t, cluster(t))
}

func nobodyStarves(t *testing.T, w *world) {
	java := w.startJava(t, 30*time.Second)
	agents := []*process{w.startAgent(t, 30*time.Second), w.startAgent(t, 30*time.Second)}
	length, all := 3*time.Second, os.Getenv(contestVariable)
	if all != "" {
		var err error
		length, err = time.ParseDuration(all)
		must(t, err)
	}
	for _, c := range []struct {
		way       string
		threads   int
		processes int // of ours
		always    bool
	}{
		{waiting, 8, 1, true}, {waiting, 8, 2, false}, {waiting, 1, 1, false}, {waiting, 1, 2, false},
		{trying, 8, 1, false}, {trying, 8, 2, true}, {trying, 1, 1, false}, {trying, 1, 2, false},
		{polling, 8, 1, true}, {polling, 8, 2, false}, {polling, 1, 1, false}, {polling, 1, 2, false},
		{spinning, 8, 1, false}, {spinning, 8, 2, false}, {spinning, 1, 1, false}, {spinning, 1, 2, true},
	} {
		if !c.always && all == "" {
			continue
		}
		t.Run(fmt.Sprintf("%s-%dThreads-%dProcesses", c.way, c.threads, c.processes), func(t *testing.T) {
			theirs, ours := rushTogether(t, java, agents[:c.processes], c.way, c.threads, length)
			if theirs.refused > 0 {
				t.Errorf("%d tries were refused after 5 s", theirs.refused)
			}
			// Who starves waits until the contest is over.
			if ours.longest > length*9/10 {
				t.Errorf("somebody of Go waited for %v", ours.longest)
			}
			if c.way == polling || c.way == spinning {
				// Whoever polls gets a turn now and then, which is enough for many grants. Among themselves Redisson's threads
				// that spin wait for seconds.
				if theirs.grants < 40 {
					t.Errorf("Java had %d grants, want one turn after the other", theirs.grants)
				}
				return
			}
			if theirs.longest > length*9/10 {
				t.Errorf("somebody of Java waited for %v", theirs.longest)
			}
			members := c.threads + rushGroup*c.processes
			for who, side := range map[string][2]int{"Java": {theirs.grants, c.threads}, "Go": {ours.grants, rushGroup * c.processes}} {
				if fair := (theirs.grants + ours.grants) * side[1] / members; side[0] < fair/3 {
					t.Errorf("%s had %d grants, less than a third of a fair share: %d", who, side[0], fair)
				}
			}
		})
	}
}

// rushTogether has threads of Java contend for a lock with 8 goroutines in each of some processes. It
// returns what each side got.
func rushTogether(t *testing.T, java *process, agents []*process, way string, threads int, length time.Duration) (theirs, ours spoils) {
	t.Helper()
	name := "rush " + t.Name()
	java.do(t, "main", way, name, threads, 300, rushHold) // Java learns to run
	there := java.send("main", way, name, threads, length.Milliseconds(), rushHold)
	var here []<-chan answer
	for _, agent := range agents {
		here = append(here, agent.send("main", "plain.rush", name, rushGroup, length.Milliseconds(), rushHold))
	}
	theirs = parseSpoils(t, value(t, there))
	for _, answers := range here {
		s := parseSpoils(t, value(t, answers))
		ours.grants, ours.longest = ours.grants+s.grants, max(ours.longest, s.longest)
	}
	t.Logf("Java had %d grants, and waited for at most %v; Go had %d, and %v", theirs.grants, theirs.longest, ours.grants, ours.longest)
	return theirs, ours
}
