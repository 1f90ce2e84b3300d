//go:build linux

package agentclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/redisstore"
)

// line is what a client says about a lock.
type line struct {
	Lock  string
	What  string // gotIt, givesIt, or what went wrong
	Token lockagent.Token
	At    int64 // on the boot clock: after the grant, and before the release
}

const (
	gotIt   = "got"
	givesIt = "gives"

	hotLocks = 3
	theQueue = "queue" // the first client has it, and the others wait in a known order
	seats    = "seats" // a semaphore, of which each client has a permit
	book     = "book"  // which all read
)

// hot is a lock that all fight for.
func hot(locks *channelapi.Locks, i int) *channelapi.Lock {
	switch name := fmt.Sprint("hot", i); i {
	case 1:
		return locks.FairLock(name)
	case 2:
		return locks.WriteLock(name)
	default:
		return locks.Lock(name)
	}
}

// teller writes lines. Each of them is one call to the system, so it is whole or missing.
type teller struct{ out io.Writer }

func (t teller) tell(lock, what string, token lockagent.Token) {
	data, err := json.Marshal(line{lock, what, token, int64(bootclock.Now())})
	if err == nil {
		_, err = t.out.Write(append(data, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// fight takes one of the hot locks again and again, until ctx ends.
func (t teller) fight(ctx context.Context, locks *channelapi.Locks) {
	for ctx.Err() == nil {
		i := rand.IntN(hotLocks)
		g, err := hot(locks, i).Acquire(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.tell(fmt.Sprint("hot", i), err.Error(), 0)
			}
			continue
		}
		t.tell(string(g.Name()), gotIt, g.Token())
		if rand.IntN(4) == 0 {
			<-time.After(rand.N(5 * time.Millisecond))
		}
		if !g.Held() {
			t.tell(string(g.Name()), fmt.Sprint("lost: ", g.Cause()), g.Token())
			continue
		}
		t.tell(string(g.Name()), givesIt, g.Token())
		t.release(g)
	}
}

func (t teller) release(g channelapi.Grant) {
	// On a slow machine the next daemon may come later than a release waits for its confirmation.
	if err := g.Release(context.Background()); err != nil && !errors.Is(err, channelapi.ErrUnconfirmed) {
		t.tell(string(g.Name()), "release: "+err.Error(), g.Token())
	}
}

// live is a client that holds some locks, waits for one, and fights for others, until its input ends.
func live(locks *channelapi.Locks, in io.Reader) {
	t, background := teller{os.Stdout}, context.Background()
	must := func(g channelapi.Grant, err error) channelapi.Grant {
		if err != nil {
			panic(err)
		}
		return g
	}
	own := os.Getenv("AGENTCLIENT_TEST_NAME")
	s, err := locks.Session(own)
	if err != nil {
		panic(err)
	}
	held := []channelapi.Grant{
		must(locks.Lock("own" + own).Acquire(background)), must(locks.ReadLock(book).Acquire(background)),
		must(locks.Semaphore(seats).Acquire(background, 1)),
		must(s.Lock("session" + own).Acquire(background)), must(s.Lock("session" + own).Acquire(background)),
	}
	for _, g := range held {
		t.tell(string(g.Name()), gotIt, g.Token())
	}
	var last sync.WaitGroup
	last.Go(func() {
		g := must(locks.Lock(theQueue).Acquire(background))
		t.tell(theQueue, gotIt, g.Token())
		_, _ = io.Copy(io.Discard, in) // until it ends
		t.tell(theQueue, givesIt, g.Token())
		t.release(g)
	})
	ctx, cancel := context.WithCancel(background)
	var fighters sync.WaitGroup
	for range 4 {
		fighters.Go(func() { t.fight(ctx, locks) })
	}
	_, _ = io.Copy(io.Discard, in)
	cancel()
	fighters.Wait()
	for _, g := range held {
		what := givesIt
		if !g.Held() {
			what = fmt.Sprint("lost: ", g.Cause())
		}
		t.tell(string(g.Name()), what, g.Token())
		t.release(g)
	}
	last.Wait()
	if err := locks.Close(); err != nil {
		t.tell("", err.Error(), 0)
	}
}

// liver is such a client.
type liver struct {
	*process
	in    io.Closer
	first []line        // what it held before the first kill
	lines []line        // the others; belongs to the reader until over
	over  chan struct{} // closed when it has ended
}

func newLiver(t *testing.T, path string, i int) *liver {
	p, in := startWithInput(t, "liver", path, fmt.Sprint("AGENTCLIENT_TEST_NAME=", i))
	l := &liver{process: p, in: in, over: make(chan struct{})}
	for len(l.first) < 5 {
		l.first = append(l.first, l.next())
	}
	return l
}

// next reads a line about one of the locks that the client does not fight for.
func (l *liver) next() line {
	for l.out.Scan() {
		x := parse(l.out)
		if len(x.Lock) < 3 || x.Lock[:3] != "hot" {
			return x
		}
		l.lines = append(l.lines, x)
	}
	l.t.Fatal("a client ended")
	panic("unreachable")
}

func parse(out *bufio.Scanner) (x line) {
	if err := json.Unmarshal(out.Bytes(), &x); err != nil {
		panic(err)
	}
	return x
}

// read reads until the client has ended.
func (l *liver) read() {
	go func() {
		defer close(l.over)
		for l.out.Scan() {
			l.lines = append(l.lines, parse(l.out))
		}
	}()
}

// A daemon is killed again and again while clients in other processes hold locks, wait and fight. No client loses a
// lock, no token changes, no lock is granted twice, and the queue keeps its order.
func TestTheDaemonIsKilled(t *testing.T) {
	t.Parallel()
	inEachStore(t, func(t *testing.T, redis string) { daemonIsKilled(t, redis, 3) })
}

// inEachStore runs a test with daemons that have their locks in memory, and with daemons that have them in Redis.
func inEachStore(t *testing.T, test func(t *testing.T, redis string)) {
	t.Run("memory", func(t *testing.T) { test(t, "") })
	t.Run("Redis", func(t *testing.T) { test(t, redistest.Start(t).URL()) })
}

const (
	clients = 3
	// The next daemon has to be there before the lease has run out, on a machine that does much else.
	leaseOfKilled = "AGENTCLIENT_TEST_LEASE=1m"
)

func daemonIsKilled(t *testing.T, redis string, kills int) {
	t.Parallel()
	path := socketPath(t)
	settings := []string{leaseOfKilled, "AGENTCLIENT_TEST_STATE=" + t.TempDir(), "AGENTCLIENT_TEST_REDIS=" + redis}
	daemon := start(t, "daemon", path, settings...)
	daemon.says("ready")
	looking := servicesAt(path)
	t.Cleanup(looking.hangUp)
	ctx := waittest.Context(t)
	semaphore := dial(t, path)
	if set, err := semaphore.Semaphore(seats).TrySetPermits(ctx, clients+1); !set || err != nil {
		t.Fatal(set, err)
	}
	if err := semaphore.Close(); err != nil {
		t.Fatal(err)
	}
	var all []*liver
	for i := range clients {
		all = append(all, newLiver(t, path, i))
		if i == 0 {
			x := all[0].next()
			if x.Lock != theQueue || x.What != gotIt {
				t.Fatalf("got %+v", x)
			}
			all[0].lines = append(all[0].lines, x)
			continue
		}
		waittest.Until(t, "the client waits in the queue", func() bool {
			r, err := looking.look.Get(ctx, &lockagentv1.GetRequest{Name: theQueue})
			return err == nil && int(r.GetLock().GetWaiting()) == i
		})
	}
	for _, l := range all {
		l.read()
	}
	stop := rival(t, redis)

	ready := 0
	for i := range kills {
		if i == 0 {
			<-time.After(rand.N(200 * time.Millisecond))
		} else if rand.IntN(4) == 0 {
			<-time.After(rand.N(50 * time.Millisecond)) // while it starts
		} else {
			daemon.says("ready")
			ready++
			<-time.After(rand.N(200 * time.Millisecond))
		}
		daemon.kill()
		daemon = start(t, "daemon", path, settings...)
	}
	daemon.says("ready")
	for _, l := range all[1:] {
		if err := l.in.Close(); err != nil {
			t.Error(err)
		}
	}
	waittest.Until(t, "the others wait in the queue", func() bool {
		r, err := looking.look.List(ctx, &lockagentv1.ListRequest{})
		if err != nil {
			return false
		}
		for _, lock := range r.GetLocks() {
			if lock.GetName() == theQueue {
				return lock.GetHeld() == 1 && lock.GetWaiting() == clients-1
			}
		}
		return false
	})
	if err := all[0].in.Close(); err != nil {
		t.Error(err)
	}
	lines := stop()
	var turn int64
	for _, l := range all {
		waittest.Receive(t, "the end of a client", l.over)
		if err := l.cmd.Wait(); err != nil {
			t.Errorf("a client: %v", err)
		}
		lines = append(lines, l.first...)
		lines = append(lines, l.lines...)
		if i := slices.IndexFunc(l.lines, func(x line) bool { return x.Lock == theQueue && x.What == gotIt }); i < 0 ||
			l.lines[i].At < turn {
			t.Error("the queue has lost its order")
		} else {
			turn = l.lines[i].At
		}
	}
	grants := judge(t, lines)
	t.Logf("%d kills, %d of a daemon that was ready, %d grants", kills, ready, grants)
	// A client may have ended while the daemon did. The next daemon keeps its claim for a while, in case that it comes
	// back.
	waittest.Until(t, "nothing is left", func() bool {
		left, err := looking.look.List(ctx, &lockagentv1.ListRequest{})
		return err == nil && len(left.GetLocks()) == 0
	})
	if redis != "" {
		third := redisAgent(t, redis)
		for i := range hotLocks {
			if g, err := hot(third, i).TryAcquire(waittest.Context(t)); err != nil {
				t.Errorf("%d is not free: %v", i, err)
			} else if err := g.Release(waittest.Context(t)); err != nil {
				t.Error(err)
			}
		}
	}
}

// judge looks at what all said, and returns how many grants there were.
func judge(t *testing.T, lines []line) (grants int) {
	t.Helper()
	slices.SortStableFunc(lines, func(x, y line) int { return cmp.Compare(x.At, y.At) })
	holders := make(map[string]map[lockagent.Token]int)
	last := make(map[string]lockagent.Token)
	for _, x := range lines {
		shared := x.Lock == book || x.Lock == seats
		if holders[x.Lock] == nil {
			holders[x.Lock] = make(map[lockagent.Token]int)
		}
		at := holders[x.Lock]
		switch x.What {
		case gotIt:
			grants++
			session := len(x.Lock) > 7 && x.Lock[:7] == "session"
			if len(at) > 0 && !shared && !session {
				t.Errorf("%+v was granted while %v hold it", x, slices.Collect(maps.Keys(at)))
			}
			if x.Token <= last[x.Lock] && !shared && !(session && at[x.Token] > 0) {
				t.Errorf("%+v has a token that is not greater than %d", x, last[x.Lock])
			}
			last[x.Lock] = max(x.Token, last[x.Lock])
			at[x.Token]++
		case givesIt:
			if at[x.Token]--; at[x.Token] < 0 {
				t.Errorf("%+v was not held", x)
			} else if at[x.Token] == 0 {
				delete(at, x.Token)
			}
		default:
			t.Errorf("%+v", x)
		}
	}
	for lock, at := range holders {
		if len(at) > 0 {
			t.Errorf("%s: %v was never given back", lock, at)
		}
	}
	return grants
}

// rival fights for the same locks in Redis, as another host does. It also tries to get what clients hold, and tells if
// it does.
func rival(t *testing.T, redis string) (stop func() []line) {
	if redis == "" {
		return func() []line { return nil }
	}
	locks := redisAgent(t, redis)
	ctx, cancel := context.WithCancel(t.Context())
	out := &lineWriter{}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { teller{out}.fight(ctx, locks) })
	}
	workers.Go(func() {
		for ctx.Err() == nil {
			name := fmt.Sprint("own", rand.IntN(clients))
			if g, err := locks.Lock(name).TryAcquire(ctx); err == nil { // a client that ends has released it
				teller{out}.tell(name, gotIt, g.Token())
				teller{out}.tell(name, givesIt, g.Token())
				if err := g.Release(context.Background()); err != nil {
					teller{out}.tell(name, "release: "+err.Error(), g.Token())
				}
			} else if !errors.Is(err, channelapi.ErrHeld) && ctx.Err() == nil {
				teller{out}.tell(name, err.Error(), 0)
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	return func() []line {
		cancel()
		workers.Wait()
		return out.lines
	}
}

type lineWriter struct {
	mu    sync.Mutex
	lines []line // guarded by mu
}

func (w *lineWriter) Write(data []byte) (int, error) {
	var x line
	if err := json.Unmarshal(data, &x); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, x)
	return len(data), nil
}

// redisAgent is an agent that uses Redis itself.
func redisAgent(t *testing.T, redis string) *channelapi.Locks {
	t.Helper()
	store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(t.Context(), redis)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := channelapi.New(channelapi.Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = locks.Close()
		_ = store.Close()
	})
	return locks
}

// A daemon that cannot write its journal refuses what is new, and says so. What is held goes on. When there is room
// again, all goes on.
func TestTheDiskIsFull(t *testing.T) {
	path := socketPath(t)
	t.Parallel()
	// Renewals come every few seconds. What has to outlast the end of the daemon has a lease for that.
	settings := []string{"AGENTCLIENT_TEST_LEASE=20s", "AGENTCLIENT_TEST_STATE=" + t.TempDir()}
	p := start(t, "daemon", path, settings...)
	p.says("ready")
	locks, ctx := dial(t, path), waittest.Context(t)
	held, err := locks.Lock("door").Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	leased, err := locks.Lock("leased", channelapi.Lease(time.Hour)).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	room := func(most uint64) {
		t.Helper()
		if err := unix.Prlimit(
			p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}, nil,
		); err != nil {
			t.Fatal(err)
		}
	}
	room(1)
	waittest.Until(t, "nothing new is granted", func() bool { // the first one finds out
		g, err := locks.Lock("other").TryAcquire(ctx)
		if err == nil {
			_ = g.Release(ctx)
		}
		return errors.Is(err, channelapi.ErrStoreUnavailable) && errors.Is(err, refusal.ErrJournal)
	})
	waits := locks.Lock("third", channelapi.Lease(time.Hour)).AcquireAsync(ctx)
	before := held.Remaining()
	waittest.Until(t, "the hold is renewed", func() bool {
		now := held.Remaining()
		renewed := now > before
		before = now
		return renewed
	})
	room(unix.RLIM_INFINITY)
	g := waittest.Receive(t, "a grant when there is room", waits)
	if g.Err() != nil || !held.Held() {
		t.Fatalf("%v, held is %v", g.Err(), held.Held())
	}
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
	p.kill() // and the journal has everything again
	start(t, "daemon", path, settings...).says("ready")
	for _, g := range []channelapi.Grant{g, leased} {
		if err := g.Release(ctx); err != nil {
			t.Errorf("%s: %v", g.Name(), err)
		}
	}
}
