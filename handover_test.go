package lockagent_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

// A process leaves its holds to the next one, over a real Redis.

// process is one life of an agent: with a connection and a journal of its own.
type process struct {
	*actor.Agent
	store   *redisstore.Store
	journal *journal // of events
	left    *leaving
}

// leaving is the journal of an agent for the next process. It is in memory.
type leaving struct {
	mu      sync.Mutex
	records map[string][]byte // guarded by mu
}

func (l *leaving) Begin(changes []saved.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = make(map[string][]byte)
	l.apply(changes)
}

func (l *leaving) Write(changes []saved.Change, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apply(changes)
}

func (l *leaving) apply(changes []saved.Change) {
	for _, c := range changes {
		if c.Data == nil {
			delete(l.records, c.Key)
		} else {
			l.records[c.Key] = c.Data
		}
	}
}

// agent is what the next process goes on from.
func (l *leaving) agent(t *testing.T) *saved.Agent {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	a, err := saved.Read(l.records)
	must(t, err)
	return a
}

// startProcess starts an agent, which goes on from another one if there is one.
func startProcess(t *testing.T, redis *redistest.Server, lease time.Duration, from *saved.Agent) *process {
	t.Helper()
	store, err := patient.Open(waittest.Context(t), redis.URL())
	must(t, err)
	p := &process{store: store, journal: newJournal(), left: &leaving{}}
	cfg := actor.Config{Store: store, Recorder: p.journal, Journal: p.left, Lease: lease}
	if from == nil {
		p.Agent, err = actor.New(cfg)
	} else {
		p.Agent, err = actor.Resume(cfg, *from)
	}
	must(t, err)
	t.Cleanup(p.end)
	return p
}

// end may be called again.
func (p *process) end() {
	_ = p.Close()
	_ = p.store.Close()
}

// leave ends the process without giving anything back, and returns what the next one needs.
func (p *process) leave(t *testing.T) *saved.Agent {
	t.Helper()
	p.Detach()
	p.end()
	return p.left.agent(t)
}

// resumed claims what the process goes on with.
func (p *process) resumed(t *testing.T) map[lockagent.Name]lockagent.Grant {
	t.Helper()
	all := make(map[lockagent.Name]lockagent.Grant)
	for _, r := range p.Resumed() {
		all[r.Name] = receive(t, r.Grant)
	}
	return all
}

// outlast waits until the process has renewed a hold whose lease at the server is about to end.
func (p *process) outlast(t *testing.T, redis *redistest.Server, g lockagent.Grant) {
	t.Helper()
	for e := (lockagent.Event{}); e.Lock != g.Name(); {
		p.journal.await(t, "renewed")
		p.journal.mu.Lock()
		e = p.journal.events[p.journal.read-1]
		p.journal.mu.Unlock()
	}
	if left := redis.Do("PTTL", string(g.Name())); left.(int64) <= nearEnd.Milliseconds() {
		t.Errorf("%q was renewed, and its lease ends in %d ms", g.Name(), left)
	}
}

// nearEnd is what is left of the lease of a process that has ended. It is long enough for a machine that is busy.
const nearEnd = 5 * time.Minute

func (p *process) leaveNearTheEnd(t *testing.T, redis *redistest.Server, g lockagent.Grant) *saved.Agent {
	t.Helper()
	left := p.leave(t)
	redis.Do("PEXPIRE", string(g.Name()), fmt.Sprint(nearEnd.Milliseconds()))
	return left
}

// Holds go on in the next process, and in the one after it. Tokens stay, and no rival gets in
// between. All of the events prove it.
func TestHoldsGoOnInTheNextProcess(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	redis := redistest.Start(t)
	rivals := newJournal()
	rival := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{Recorder: rivals})
	first := startProcess(t, redis, lease, nil)
	kept := receive(t, first.Acquire(t.Context(), "kept", actor.Request{Owner: "ann"}))
	fixed := receive(t, first.Acquire(t.Context(), "fixed", actor.Request{Owner: "bob", Lease: time.Hour}))
	waiting := []<-chan lockagent.Grant{
		rival.Lock("kept").AcquireAsync(t.Context()), rival.Lock("fixed").AcquireAsync(t.Context()),
	}
	awaitWaiters(t, rival, "kept", 1)
	awaitWaiters(t, rival, "fixed", 1)
	others := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	excludesOthers := func() {
		t.Helper()
		for _, name := range []string{"kept", "fixed"} {
			if _, err := others.Lock(name).TryAcquire(t.Context()); !errors.Is(err, lockagent.ErrHeld) {
				t.Errorf("another agent tries %q: %v, want ErrHeld", name, err)
			}
		}
	}
	before := []lockagent.Token{kept.Token(), fixed.Token()}
	field := redis.Do("HKEYS", "kept")

	left := first.leaveNearTheEnd(t, redis, kept)
	excludesOthers()
	second := startProcess(t, redis, lease, left)
	holds := second.resumed(t)
	second.outlast(t, redis, kept)
	excludesOthers()
	for i, name := range []lockagent.Name{"kept", "fixed"} {
		if g := holds[name]; !g.Held() || g.Token() != before[i] {
			t.Errorf("%q: held %t with token %d, want %d", name, g.Held(), g.Token(), before[i])
		}
	}
	left = second.leaveNearTheEnd(t, redis, kept)
	excludesOthers()
	third := startProcess(t, redis, lease, left)
	holds = third.resumed(t)
	third.outlast(t, redis, kept)
	excludesOthers()
	if now := redis.Do("HKEYS", "kept"); fmt.Sprint(now) != fmt.Sprint(field) {
		t.Errorf("the lock's hash has %v, and had %v", now, field)
	}

	for i, name := range []lockagent.Name{"kept", "fixed"} {
		select {
		case g := <-waiting[i]:
			t.Fatalf("%q: a rival has %v", name, g)
		default:
		}
		g := holds[name]
		if !g.Held() || g.Token() != before[i] {
			t.Errorf("%q: held %t with token %d, want %d", name, g.Held(), g.Token(), before[i])
		}
		must(t, g.Release(t.Context()))
		next := receive(t, waiting[i])
		if next.Token() <= before[i] {
			t.Errorf("%q: token %d after %d", name, next.Token(), before[i])
		}
		must(t, next.Release(t.Context()))
	}
	third.end()
	must(t, rival.Close())

	auditor := audit.New()
	for epoch, p := range []*process{first, second, third} {
		for i, e := range p.journal.events {
			auditor.Add(events.Record{Event: e, Epoch: uint64(epoch + 1), Seq: uint64(i + 1)})
		}
	}
	for i, e := range rivals.events {
		auditor.Add(events.Record{Event: e, Epoch: 1, Seq: uint64(i + 1)})
	}
	if report := auditor.Report(); report.Verdict != audit.Proven || report.Grants != 4 {
		t.Errorf("the audit says\n%v", report)
	}
}

// The next process tells how many holds it has, with those that it goes on with.
func TestSignsOfLifeCountResumedHolds(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natsserver.Config{})
	store := memstore.New()
	id := lockagent.NewAgentID()
	publisher := func(epoch uint64) *natslog.Publisher {
		p, err := natslog.NewPublisher(natslog.Config{
			Connection: natslog.Connection{InProcess: server}, Agent: id, Epoch: epoch,
			Heartbeat: 100 * time.Millisecond,
		})
		must(t, err)
		return p
	}
	p := publisher(1)
	left := &leaving{}
	first, err := actor.New(actor.Config{ID: id, Store: store.Share(), Recorder: p, Journal: left})
	must(t, err)
	for _, name := range []lockagent.Name{"a", "b", "c"} {
		receive(t, first.Acquire(t.Context(), name, actor.Request{Owner: "ann"}))
	}
	first.Detach()
	must(t, first.Close())
	ctx := waittest.Context(t)
	must(t, p.Close(ctx))

	p = publisher(2)
	second, err := actor.Resume(actor.Config{Store: store.Share(), Recorder: p}, *left.agent(t))
	must(t, err)
	held := make(map[lockagent.Name]lockagent.Grant)
	for _, r := range second.Resumed() {
		held[r.Name] = receive(t, r.Grant)
	}
	receive(t, second.Acquire(t.Context(), "d", actor.Request{Owner: "ann"}))
	must(t, held["a"].Release(t.Context()))
	must(t, p.Flush(ctx))
	r, err := natslog.OpenReader(natslog.ReaderConfig{Connection: natslog.Connection{InProcess: server}})
	must(t, err)
	defer r.Close()
	enough, released := errors.New("enough"), false
	err = r.Tail(ctx, natslog.FromPosition(1), events.Filter{}, func(r *events.Record, err error) error {
		switch {
		case err != nil || r.Epoch < 2:
		case r.Kind == lockagent.EventAgentStarted && r.Count != 3:
			t.Errorf("it goes on with %d holds", r.Count)
		case r.Kind == lockagent.EventReleased:
			released = true
		case r.Kind == lockagent.EventAlive && released:
			if r.Count != 3 {
				t.Errorf("it tells of %d holds", r.Count)
			}
			return enough
		}
		return err
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
	must(t, second.Close())
	must(t, p.Close(ctx))
}

// What nobody goes on with is free when its lease is over, and not before.
func TestNobodyGoesOn(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	redis := redistest.Start(t)
	rival := openAgent(t, redisstore.Config{}, redis.Addr(), channelapi.Config{})
	process := startProcess(t, redis, lease, nil)
	left := receive(t, process.Acquire(t.Context(), theLock, actor.Request{Owner: "ann"}))
	waiting := rival.Lock(theLock).AcquireAsync(t.Context())
	awaitWaiters(t, rival, theLock, 1)
	process.leave(t)
	next := receive(t, waiting)
	// A token is the time on the store's clock at which the hold began.
	if passed := time.Duration(next.Token()-left.Token()) * time.Microsecond; passed < lease {
		t.Errorf("a rival was granted the lock %v after it was confirmed for %v", passed, lease)
	}
	must(t, next.Release(t.Context()))
}
