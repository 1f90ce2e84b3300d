package redisson

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redisserver"
)

// spoils are what the threads of one process got in a rush for a lock.
type spoils struct {
	grants  int
	longest time.Duration // wait
	refused int           // tries that waited for 5 s
	without time.Duration // the longest time that none of them was granted it
	served  int           // threads that were granted it at least once
}

// String is the answer to the command "rush".
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
	mu      sync.Mutex // guards what follows
	all     spoils
	granted time.Time // when it was last
}

// run has goroutines acquire a thing again and again for some time, and at least once.
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
	return r.all, bad
}

func (r *rush) acquire(ctx context.Context, do work, last time.Time, hold time.Duration, c counter) error {
	use, end, err := c.use(hold)
	if err != nil {
		return err
	}
	defer end()
	served := 1
	for asked := time.Now(); err == nil && (served == 1 || asked.Before(last)); asked = time.Now() {
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

// contestants are some threads of Java and goroutines of ours that acquire one thing again and again, for a time.
type contestants struct {
	name    string
	way     string // a command of the driver
	threads int    // of Java
	hold    int    // for how long Java has it, in microseconds
	kind    string // what ours acquire
	group   int    // goroutines in each process of ours
	length  time.Duration
	counts  bool // each holder increments a counter, and no increment may be lost
}

// oursHold is for how long ours have a thing, in microseconds.
const oursHold = 500

// contest begins a contest. end waits for its end, and returns what each side got. Everybody gets at least one turn.
func contest(
	t *testing.T, w *world, java *process, agents []*process, c contestants,
) (end func() (theirs, ours spoils)) {
	t.Helper()
	key := c.name + " counter"
	node := w.nodeOf(key)
	rush := func(p *process, way string, threads, hold int) <-chan answer {
		args := []any{c.name, threads, c.length.Milliseconds(), hold}
		if c.counts {
			args = append(args, key, node.Addr())
		}
		return p.send("rush "+c.name, way, args...)
	}
	answers := []<-chan answer{rush(java, c.way, c.threads, c.hold)}
	for _, agent := range agents {
		answers = append(answers, rush(agent, c.kind+".rush", c.group, oursHold))
	}
	return func() (theirs, ours spoils) {
		t.Helper()
		theirs = parseSpoils(t, value(t, answers[0]))
		for _, answer := range answers[1:] {
			s := parseSpoils(t, value(t, answer))
			ours.grants, ours.served, ours.longest = ours.grants+s.grants, ours.served+s.served, max(ours.longest, s.longest)
		}
		t.Logf("%s: Java had %d grants, and waited for at most %v, and all for %v; Go had %d, and %v",
			c.name, theirs.grants, theirs.longest, theirs.without, ours.grants, ours.longest)
		if c.counts {
			want(t, "the counter of "+c.name, fmt.Sprint(node.Do("GET", key)), strconv.Itoa(theirs.grants+ours.grants))
		}
		return theirs, ours
	}
}

// noUpdateIsLost has Java, and two processes of ours, increment a counter under a lock of each kind. All kinds have
// their contests at once.
func noUpdateIsLost(t *testing.T, b *both) {
	const threads, group = 2, 2
	agents := []*process{b.startAgent(t, 30*time.Second), b.startAgent(t, 30*time.Second)}
	var ends []func() (theirs, ours spoils)
	for _, kind := range []string{"plain", "fair", "fenced", "spin", "write", "semaphore", "permits"} {
		w := thing{kind, "contest " + kind}
		b.make(t, w)
		ends = append(ends, contest(t, b.world, b.java, agents, contestants{
			name: w.name, way: kind + ".rush", threads: threads, hold: oursHold, kind: kind, group: group,
			length: 2 * time.Second, counts: true,
		}))
	}
	for _, end := range ends {
		theirs, ours := end()
		want(t, "the threads of Java that had a turn", theirs.served, threads)
		want(t, "the goroutines of ours that had a turn", ours.served, len(agents)*group)
	}
}
