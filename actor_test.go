package lockagent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/redisstore"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" { // this is a process of a test
		os.Exit(runChild(role))
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind())
}

// The life of one lock, seen from outside, through every layer. It is the same on
// every store: read [live] for the story, and [chronicle] for what the events tell
// of it.

// In memory, and on virtual time: what takes seconds passes at once.
func TestLifeInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		alpha, beta := newAgent(t, memory.Share(), nil), newAgent(t, memory.Share(), nil)
		live(t, alpha, beta)
		compare(t, alpha, beta)
		judge(t, auditOf(alpha.journal, beta.journal))
	})
}

// On a Redis server, with every event in NATS JetStream, from where it is read back.
func TestLifeOnRedisAndNATS(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nats := natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{})}
	ctx := waittest.Context(t)

	var agents []*agent
	var publishers []*natslog.Publisher
	for range 2 {
		store, err := patient.Open(ctx, redis.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		id := lockagent.NewAgentID()
		publisher, err := natslog.NewPublisher(natslog.Config{Connection: nats, Agent: id})
		if err != nil {
			t.Fatal(err)
		}
		publishers = append(publishers, publisher)
		agents = append(agents, newAgent(t, store, &published{id, publisher}))
	}
	live(t, agents[0], agents[1])
	compare(t, agents[0], agents[1])

	for _, p := range publishers {
		if err := p.Close(ctx); err != nil {
			t.Errorf("Close of a publisher: %v", err)
		}
	}
	reader, err := natslog.OpenReader(natslog.ReaderConfig{Connection: nats})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	auditor := audit.New()
	if err := reader.Replay(ctx, natslog.From{}, events.Filter{}, auditor.Visit); err != nil {
		t.Fatalf("Replay: %v", err)
	}
	judge(t, auditor.Report())
}

const theLock = "orders/42"

// live is the story. Two agents, alpha and beta, serve seven owners.
func live(t *testing.T, alpha, beta *agent) {
	ctx := t.Context()

	// A request is a channel. Nobody has the lock, so the store grants it at once.
	alice := alpha.session(t, "alice").Lock(theLock)
	first := <-alice.AcquireAsync(ctx)
	if first.Err() != nil || !first.Held() {
		t.Fatalf("alice: %v", first.Err())
	}

	// A session may hold the lock several times. It is one hold, with one token.
	second, err := alice.Acquire(ctx)
	if err != nil || second.HoldCount() != 2 || second.Token() != first.Token() {
		t.Fatalf("alice again: %v, %d grants, token %d after %d", err, second.HoldCount(), second.Token(), first.Token())
	}

	// Everybody sees that it is held: her agent by whom, the other by which agent.
	near, far := alpha.inspect(t), beta.inspect(t)
	if !near.HeldBy("alice") || near.HoldCount != 2 || near.Token != first.Token() {
		t.Errorf("alpha says %+v", near)
	}
	if !far.Locked || far.Owner != "" || !strings.HasPrefix(far.Holder, string(alpha.ID())) {
		t.Errorf("beta says %+v", far)
	}

	// Others wait: bob at the same agent, carol at the other. Dave would not wait.
	bobs := alpha.session(t, "bob").Lock(theLock).AcquireAsync(ctx)
	alpha.journal.await(t, "queued bob")
	carols := beta.session(t, "carol").Lock(theLock).AcquireAsync(ctx)
	beta.journal.await(t, "queued carol")
	dave := beta.session(t, "dave")
	_, err = dave.Lock(theLock).TryAcquire(ctx)
	if held, ok := errors.AsType[*lockagent.HeldError](err); !ok || held.Holder != far.Holder {
		t.Errorf("dave: %v, want that it is held by %q", err, far.Holder)
	}

	// Alice has to let go of it as often as she took it. Then it goes to bob, from
	// hand to hand, without the store.
	must(t, second.Release(ctx))
	if !first.Held() || second.Held() {
		t.Error("the first grant is over, or the second is not")
	}
	must(t, first.Release(ctx))
	if !errors.Is(first.Cause(), lockagent.ErrReleased) {
		t.Errorf("alice's hold ended because of %v", first.Cause())
	}
	bob := receive(t, bobs)

	// Nobody else waits at alpha, so bob's release gives it back to the store, which
	// wakes beta.
	must(t, bob.Release(ctx))
	carol := receive(t, carols)

	// An operator breaks the lock. Carol is told at once, and when she releases it
	// she is told again: what she did last was perhaps not alone.
	if held, err := beta.Lock(theLock).Break(ctx, ""); err != nil || !held {
		t.Fatalf("Break: %t, %v", held, err)
	}
	waittest.Receive(t, "the end of carol's hold", carol.Done())
	if lost, ok := errors.AsType[*lockagent.LostError](carol.Release(ctx)); !ok || lost.Reason != lockagent.LostBroken {
		t.Errorf("carol's release: %v", lost)
	}
	beta.journal.await(t, "returned")

	// Dave asks for a lease that ends by itself, and works under its context.
	daves, err := dave.Lock(theLock, channelapi.Lease(time.Second)).Acquire(ctx)
	if err != nil {
		t.Fatalf("dave: %v", err)
	}
	work := daves.Context(ctx)
	waittest.Receive(t, "the end of dave's work", work.Done())
	if lost, ok := errors.AsType[*lockagent.LostError](context.Cause(work)); !ok || lost.Reason != lockagent.LostExpired {
		t.Errorf("dave's work ended because of %v", context.Cause(work))
	}
	beta.journal.await(t, "returned")

	// Erin takes it. Frank waits for her at the other agent, and changes his mind.
	erin, err := beta.session(t, "erin").Lock(theLock).Acquire(ctx)
	if err != nil {
		t.Fatalf("erin: %v", err)
	}
	waiting, leave := context.WithCancel(ctx)
	franks := alpha.session(t, "frank").Lock(theLock).AcquireAsync(waiting)
	alpha.journal.await(t, "queued frank")
	leave()
	if g := <-franks; !errors.Is(g.Err(), context.Canceled) {
		t.Errorf("frank: %v", g.Err())
	}

	// Grace is more patient. Erin's agent closes: erin is told, and grace has it.
	graces := alpha.session(t, "grace").Lock(theLock).AcquireAsync(ctx)
	alpha.journal.await(t, "queued grace")
	must(t, beta.Close())
	if lost, ok := errors.AsType[*lockagent.LostError](erin.Cause()); !ok || lost.Reason != lockagent.LostClosed {
		t.Errorf("erin's hold ended because of %v", erin.Cause())
	}
	grace := receive(t, graces)
	must(t, grace.Release(ctx))

	// Nothing is left of it but the tokens, which have grown all the time.
	if s := alpha.inspect(t); s != (lockagent.Status{Name: theLock}) {
		t.Errorf("alpha says %+v in the end", s)
	}
	must(t, alpha.Close())
	tokens := []lockagent.Token{first.Token(), bob.Token(), carol.Token(), daves.Token(), erin.Token(), grace.Token()}
	if !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 6 {
		t.Errorf("the tokens did not grow: %d", tokens)
	}
}

// chronicle is what the events tell of it: each agent's own, in order, with the
// tokens of both numbered as they grow.
var chronicle = struct{ alpha, beta []string }{
	alpha: []string{
		"agentstarted",
		"granted alice #1 by store",
		"reentered alice #1, 2 grants",
		"queued bob",
		"released alice #1, 1 left",
		"released alice #1",
		"granted bob #2 by handoff",
		"released bob #2",
		"returned",
		"queued frank",
		"cancelled frank",
		"queued grace",
		"granted grace #6 by store",
		"released grace #6",
		"returned",
		"agentstopped",
	},
	beta: []string{
		"agentstarted",
		"queued carol",
		"refused dave",
		"granted carol #3 by store",
		"broken carol #3",
		"returned",
		"granted dave #4 by store",
		"expired dave #4",
		"returned",
		"granted erin #5 by store",
		"lost erin #5: closed",
		"returned",
		"agentstopped",
	},
}

// compare holds the events of both agents against the chronicle.
func compare(t *testing.T, alpha, beta *agent) {
	t.Helper()
	var tokens []lockagent.Token
	for _, a := range []*agent{alpha, beta} {
		for _, e := range a.journal.events {
			if e.Token != 0 {
				tokens = append(tokens, e.Token)
			}
		}
	}
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	for _, c := range []struct {
		agent *agent
		want  []string
	}{{alpha, chronicle.alpha}, {beta, chronicle.beta}} {
		var got []string
		for _, e := range c.agent.journal.events {
			// A tenure is renewed before its time if messages may have been missed, as when the agent has
			// just begun to listen. The time of the store comes at some moment after the start.
			if e.Kind != lockagent.EventRenewed && e.Kind != lockagent.EventAlive {
				got = append(got, tell(e, tokens))
			}
			if e.Agent != c.agent.ID() {
				t.Errorf("%s was recorded for agent %q", tell(e, tokens), e.Agent)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("the events are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}

// tell says in one line what happened.
func tell(e lockagent.Event, tokens []lockagent.Token) string {
	text := e.Kind.String()
	if e.Owner != "" {
		text += " " + string(e.Owner)
	}
	if i, ok := slices.BinarySearch(tokens, e.Token); ok {
		text += fmt.Sprintf(" #%d", i+1)
	}
	switch {
	case e.Kind == lockagent.EventGranted:
		text += " by " + e.How.String()
	case e.Kind == lockagent.EventReentered:
		text += fmt.Sprintf(", %d grants", e.Count)
	case e.Kind.EndsHold() && e.Count > 0:
		text += fmt.Sprintf(", %d left", e.Count)
	case e.Kind == lockagent.EventLost:
		text += ": " + e.Reason.String()
	}
	return text
}

// judge has the log prove that no two of the holds overlapped.
func judge(t *testing.T, report audit.Report) {
	t.Helper()
	if report.Verdict != audit.Proven || report.Agents != 2 || report.Locks != 1 || report.Grants != 6 ||
		report.HandOffs != 1 {
		t.Errorf("the audit says\n%v", report)
	}
}

// agent is an agent of the story and what it recorded.
type agent struct {
	*channelapi.Locks
	journal *journal
}

// published is where the events of an agent with a certain identity go as well.
type published struct {
	id lockagent.AgentID
	to lockagent.Recorder
}

func newAgent(t *testing.T, store lockagent.Store, also *published) *agent {
	t.Helper()
	a := &agent{journal: newJournal()}
	cfg := channelapi.Config{
		Store: store, Recorder: a.journal,
		Lease:       time.Hour, // or what comes only because a lease has run out would come, too
		HandOffTime: time.Hour, // or a slow machine would not see the hand-off
	}
	if also != nil {
		cfg.ID, a.journal.next = also.id, also.to
	}
	var err error
	if a.Locks, err = channelapi.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func (a *agent) session(t *testing.T, owner string) *channelapi.Session {
	t.Helper()
	s, err := a.Session(owner)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (a *agent) inspect(t *testing.T) lockagent.Status {
	t.Helper()
	s, err := a.Lock(theLock).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// journal is a recorder that remembers, and can be waited for.
type journal struct {
	next lockagent.Recorder // told as well, if it is not nil

	mu     sync.Mutex
	events []lockagent.Event // guarded by mu until the agent is closed
	read   int               // guarded by mu; how many of them await has seen
	more   chan struct{}     // guarded by mu; closed when there is another event
}

func newJournal() *journal { return &journal{more: make(chan struct{})} }

func (j *journal) Record(ctx context.Context, e lockagent.Event) {
	if j.next != nil {
		j.next.Record(ctx, e)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
	close(j.more)
	j.more = make(chan struct{})
}

// await waits for the next event that is told like that, after the one it waited
// for before.
func (j *journal) await(t *testing.T, told string) {
	t.Helper()
	for {
		seen, more := j.look(told)
		if seen {
			return
		}
		waittest.Receive(t, told, more)
	}
}

func (j *journal) look(told string) (seen bool, more <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.read < len(j.events) {
		j.read++
		if tell(j.events[j.read-1], nil) == told {
			return true, nil
		}
	}
	return false, j.more
}

// slowest is how late a server may answer on a machine that is busy.
const slowest = time.Minute

// patient opens a store for which no server is too slow.
var patient = redisstore.Config{
	DialTimeout: slowest, CallTimeout: slowest, SilenceTimeout: slowest, GraceFirst: redisstore.NoGraceFirst,
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// receive receives a grant that has to come.
func receive(t *testing.T, grant <-chan lockagent.Grant) lockagent.Grant {
	t.Helper()
	g := waittest.Receive(t, "the grant", grant)
	must(t, g.Err())
	return g
}
