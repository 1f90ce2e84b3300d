//go:build linux

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/journal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"golang.org/x/sys/unix"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// lives are the daemons of one state directory, one after the other. Their locks are in memory.
type lives struct {
	*running
	t       testing.TB
	dir     string
	change  func(*Config)
	journal *journal.Journal
}

func newLives(t testing.TB, change func(*Config)) *lives {
	t.Helper()
	dir, err := os.MkdirTemp("", "lad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lives{t: t, dir: dir, change: change, running: &running{path: filepath.Join(dir, "agent.sock")}}
	l.begin()
	t.Cleanup(func() { l.end(l.Shutdown) })
	return l
}

// begin starts a daemon, which goes on from the journal.
func (l *lives) begin() {
	l.t.Helper()
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	j, before, err := journal.Open(filepath.Join(l.dir, "journal"))
	must(err)
	store := memstore.New()
	// Nothing ends by itself while a slow machine starts the next daemon.
	cfg := Config{Journal: j, Recovered: before, Lease: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if l.change != nil {
		l.change(&cfg)
	}
	if cfg.Access == nil {
		cfg.Access = withLimits(l.t, access.Limits{})
	}
	remembered, err := Remember(store, j, before, 0, 0, cfg.Access.Quotas())
	must(err)
	cfg.Store, cfg.Numbers = remembered, remembered
	cfg.Listener, err = socket.Listen(socket.Config{Path: l.path})
	must(err)
	d, err := Start(cfg)
	must(err)
	l.Daemon, l.store, l.journal = d, store, j
}

// end ends the daemon at once.
func (l *lives) end(how func(context.Context) error) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := how(ctx); err != nil {
		l.t.Error(err)
	}
	if err := l.journal.Close(); err != nil {
		l.t.Error(err)
	}
}

// A daemon that leaves its claims to the next one tells the clients nothing, and they go on.
func TestLeave(t *testing.T) {
	for name, client := range map[string]func(*lives, testing.TB) *testClient{
		"one connection": func(l *lives, t testing.TB) *testClient { return l.client(t) },
		"each alone":     func(l *lives, t testing.TB) *testClient { return l.alone(t) },
	} {
		t.Run(name, func(t *testing.T) { leave(t, client) })
	}
}

func leave(t *testing.T, client func(*lives, testing.TB) *testClient) {
	l := newLives(t, nil)
	c := client(l, t)
	holder := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door", Labels: map[string]string{"ticket": "7"}})
	g := holder.granted()
	waiter := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
	q := waiter.queued()
	id := l.agent.ID()
	l.end(l.Leave)
	for _, s := range []*stream{holder, waiter} {
		for s.events.Receive() {
			if s.events.Msg().GetDraining() == nil {
				t.Errorf("told %v", s.events.Msg())
			}
		}
		if s.events.Err() == nil {
			t.Error("the stream has ended as if the claim were over")
		}
	}
	l.begin()
	if l.agent.ID() != id {
		t.Errorf("the agent is %s, and was %s", l.agent.ID(), id)
	}
	c = client(l, t)
	got, err := c.look.Get(background, &lockagentv1.GetRequest{Name: "door"})
	if err != nil || !got.GetHeld() || got.GetLock().GetHolders()[0].GetState() != lockagentv1.State_STATE_RESUMED {
		t.Fatalf("%v, %v", got, err)
	}
	again := c.attach(t, g.GetClaim(), g.GetSecret())
	if h := again.granted(); h.GetToken() != g.GetToken() ||
		h.GetDeadline().GetBoottime() < g.GetDeadline().GetBoottime() {
		t.Errorf("%v, and before %v", h, g)
	}
	waits := c.attach(t, q.GetClaim(), q.GetSecret())
	waits.queued()
	again.end()
	if h := waits.granted(); h.GetToken() <= g.GetToken() {
		t.Errorf("token %d after %d", h.GetToken(), g.GetToken())
	}
}

// A client that was killed while there was no daemon does not keep its lock. One that is stopped does, for the grace.
func TestClientsAfterARestart(t *testing.T) {
	grace := time.Hour // nobody gets the lock by the end of the grace
	l := newLives(t, func(c *Config) { c.Grace = grace })
	dead := l.process(t, "client")
	dead.says("Granted")
	next := l.client(t).acquire(t, door)
	q := next.queued()
	l.end(l.Leave)
	dead.die()
	l.begin()
	next = l.client(t).attach(t, q.GetClaim(), q.GetSecret())
	g := next.granted()
	l.end(l.Leave)
	grace = 200 * time.Millisecond
	l.begin() // and this client does not come back
	if h := l.client(t).acquire(t, door).granted(); h.GetToken() <= g.GetToken() {
		t.Errorf("token %d after %d", h.GetToken(), g.GetToken())
	}
}

// The numbers of semaphores and latches are in the memory that the process takes with it.
func TestNumbersAfterARestart(t *testing.T) {
	l := newLives(t, nil)
	ask := func(name lockagent.Name, kind lockagent.LockKind, op lockagent.PermitsOp, n int) lockagent.PermitsReply {
		t.Helper()
		r := <-l.agent.Permits(background, lockagent.PermitsRequest{Name: name, Kind: kind, Op: op, N: n, Change: change()})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Value
	}
	count := func(op lockagent.LatchOp, n int64) int64 {
		t.Helper()
		r := <-l.agent.Latch(background, lockagent.LatchRequest{Name: "latch", Op: op, Count: n, Change: change()})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.Value.Count
	}
	ask("seats", lockagent.Semaphore, lockagent.TrySetPermits, 5)
	ask("seats", lockagent.Semaphore, lockagent.AddPermits, -1)
	ask("gone", lockagent.Semaphore, lockagent.TrySetPermits, 5)
	ask("gone", lockagent.Semaphore, lockagent.DeletePermits, 0)
	ask("slots", lockagent.Permits, lockagent.TrySetPermits, 3)
	l.client(t).acquire(t, &lockagentv1.AcquireRequest{
		Name: "seats", Kind: lockagentv1.Kind_KIND_SEMAPHORE, Permits: 3,
	}).granted()
	slot := l.client(t).acquire(t, &lockagentv1.AcquireRequest{
		Name: "slots", Kind: lockagentv1.Kind_KIND_PERMITS,
	}).granted()
	count(lockagent.LatchSet, 3)
	count(lockagent.LatchDown, 0)
	for range 3 {
		l.end(l.Leave)
		l.begin()
		for _, want := range []struct {
			name        lockagent.Name
			kind        lockagent.LockKind
			exists      bool
			free, taken int
		}{
			{"seats", lockagent.Semaphore, true, 1, 3},
			{"gone", lockagent.Semaphore, false, 0, 0},
			{"slots", lockagent.Permits, true, 2, 1},
		} {
			if r := ask(want.name, want.kind, lockagent.ReadPermits, 0); r.Exists != want.exists || r.Free != want.free ||
				r.Taken != want.taken {
				t.Errorf("%+v, want %+v", r, want)
			}
		}
		if n := count(lockagent.LatchRead, 0); n != 2 {
			t.Errorf("the latch has %d", n)
		}
	}
	again := l.client(t).attach(t, slot.GetClaim(), slot.GetSecret()).granted()
	if !slices.Equal(again.GetPermitIds(), slot.GetPermitIds()) {
		t.Errorf("the permit is %v, and was %v", again.GetPermitIds(), slot.GetPermitIds())
	}
}

// Tokens grow over a restart, also if nobody has held the lock when the daemon ended, and also if the clock was set
// back.
func TestTokensAfterARestart(t *testing.T) {
	t.Parallel()
	l := newLives(t, nil)
	l.store.Advance(lockagent.Token(time.Now().Add(time.Hour).UnixMicro())) // as if the clock had been set back since
	last := uint64(0)
	for range 3 {
		s := l.client(t).acquire(t, door)
		g := s.granted()
		if g.GetToken() <= last {
			t.Errorf("token %d after %d", g.GetToken(), last)
		}
		last = g.GetToken()
		if _, err := l.client(t).Release(
			background, &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()},
		); err != nil {
			t.Fatal(err)
		}
		l.end(l.Leave)
		l.begin()
	}
}

func TestRestartWithManyClaims(t *testing.T) { restartWithMany(t, 500) }

// restartWithMany has the next daemon go on with so many claims. It returns the time of the processor that this took.
func restartWithMany(t *testing.T, many int) time.Duration {
	l := newLives(t, nil)
	me := claims.Client{PID: os.Getpid(), UID: uint32(os.Getuid()), Started: started(os.Getpid())}
	for i := range many {
		s, err := l.book.Acquire(claims.Request{
			Client: me, Name: lockagent.Name(fmt.Sprint("orders/", i/2)), Command: "test",
			Secret: fmt.Sprintf("secret-%020d", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(); err != nil {
			t.Fatal(err)
		}
	}
	want := l.Counts()
	l.end(l.Leave)
	before := cpuTime(t)
	l.begin()
	took := cpuTime(t) - before
	if got := l.Counts(); got != want || want.Held+want.Waiting != many {
		t.Errorf("%+v, and before %+v", got, want)
	}
	return took
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The event log and the journal tell the same story: who holds and who waits, before a restart and after it. And the
// log proves that nobody held a lock beside another.
func TestEventLogAndJournal(t *testing.T) { eventLogAndJournal(t, 2, 10) }

// eventLogAndJournal compares both after so many lives of the daemon. In each, several clients take so many locks each.
func eventLogAndJournal(t *testing.T, lives, each int) {
	nats := natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{}), Logger: slog.New(slog.DiscardHandler)}
	var publisher *natslog.Publisher
	epoch := uint64(0)
	l := newLives(t, func(c *Config) {
		epoch++
		if c.ID = lockagent.NewAgentID(); c.Recovered.Agent != nil {
			c.ID = c.Recovered.Agent.ID
		}
		var err error
		if publisher, err = natslog.NewPublisher(natslog.Config{Connection: nats, Agent: c.ID, Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
		c.Recorder = publisher
	})
	ctx := waittest.Context(t)
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: nats})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var last string // what both said when they were last compared
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	compare := func() {
		t.Helper()
		waittest.Until(t, "the event log and the journal say the same", func() bool {
			// The last streams may not have ended yet.
			if err := publisher.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			folded := fold.New()
			if err := reader.Replay(ctx, natslog.From{}, events.Filter{}, func(r *events.Record, err error) error {
				if err == nil {
					folded.Apply(*r)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var told []string
			for lock := range folded.Locks() {
				for _, h := range lock.Now() {
					told = append(told, fmt.Sprint(lock.Lock, " is held by ", h.Owner, " with ", h.Token))
				}
				for _, w := range lock.Waiters {
					told = append(told, fmt.Sprint(lock.Lock, " is wanted by ", w.Owner))
				}
			}
			written := l.written()
			slices.Sort(told)
			slices.Sort(written)
			last = fmt.Sprintf("the event log:\n%s\nthe journal:\n%s", strings.Join(told, "\n"), strings.Join(written, "\n"))
			return len(told) > 0 && slices.Equal(told, written)
		})
	}
	for range lives {
		var wg sync.WaitGroup
		c := l.client(t)
		for range 8 {
			wg.Go(func() {
				for range each {
					s := c.acquire(t, &lockagentv1.AcquireRequest{Name: fmt.Sprint("lock/", rand.IntN(4))})
					s.next()
					s.end()
				}
			})
		}
		wg.Wait()
		c.acquire(t, &lockagentv1.AcquireRequest{Name: fmt.Sprint("kept/", epoch)}).granted()
		c.acquire(t, &lockagentv1.AcquireRequest{Name: fmt.Sprint("kept/", epoch)}).queued()
		compare()
		l.end(l.Leave)
		if err := publisher.Close(ctx); err != nil {
			t.Error(err)
		}
		l.begin()
		compare()
	}
	auditor := audit.New()
	if err := publisher.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := reader.Replay(ctx, natslog.From{}, events.Filter{}, auditor.Visit); err != nil {
		t.Fatal(err)
	}
	if report := auditor.Report(); report.Verdict != audit.Proven {
		t.Errorf("the audit says\n%v", report)
	}
	t.Cleanup(func() { _ = publisher.Close(background) })
}

// written is what the journal says now.
func (l *lives) written() (all []string) {
	l.t.Helper()
	if err := l.journal.Flush(); err != nil {
		l.t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(l.dir, "journal"))
	if err != nil {
		l.t.Fatal(err)
	}
	copied := filepath.Join(l.t.TempDir(), "journal")
	if err := os.WriteFile(copied, content, 0o600); err != nil {
		l.t.Fatal(err)
	}
	j, now, err := journal.Open(copied)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	for _, n := range now.Agent.Locks {
		for _, r := range n.Requests {
			if r.Tenure != 0 {
				all = append(all, fmt.Sprint(n.Name, " is held by ", r.Owner, " with ", r.Token))
			} else {
				all = append(all, fmt.Sprint(n.Name, " is wanted by ", r.Owner))
			}
		}
	}
	return all
}
