package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// start starts an agent that the end of the test closes. No lock rests, so the store sees each hold. See startResting.
func start(t testing.TB, cfg Config) *Agent {
	t.Helper()
	cfg.NoRest = true
	return startResting(t, cfg)
}

// startResting is start for an agent whose locks may rest.
func startResting(t testing.TB, cfg Config) *Agent {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(noComplaints{t: t})
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.baseConfig.Scatter, a.restingConfig.Scatter = 0, 0 // so that renewals come when one expects them
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// noComplaints is the logger of agents that have no reason to log a defect.
type noComplaints struct {
	slog.Handler
	t testing.TB
}

func (noComplaints) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

func (h noComplaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += "\n" + a.String(); return true })
	h.t.Errorf("logged: %s", text)
	return nil
}

// quiet is for agents that have.
var quiet = slog.New(slog.DiscardHandler)

// await receives what a channel delivers.
func await[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	return waittest.Receive(t, what, c)
}

// granted receives a grant that must be held.
func granted(t testing.TB, c <-chan lockagent.Grant) lockagent.Grant {
	t.Helper()
	g := await(t, "grant", c)
	if g.Err() != nil {
		t.Fatalf("not granted: %v", g.Err())
	}
	return g
}

// refused receives a grant that must not be held, because of want.
func refused(t testing.TB, c <-chan lockagent.Grant, want error) {
	t.Helper()
	_ = refusal(t, c, want)
}

// refusal is [refused] for those who look at the error.
func refusal(t testing.TB, c <-chan lockagent.Grant, want error) error {
	t.Helper()
	g := await(t, "refusal", c)
	if !errors.Is(g.Err(), want) {
		t.Fatalf("got %v, want %v", g.Err(), want)
	}
	if g.Held() || g.Token() != 0 {
		t.Fatalf("refused, but held=%v token=%d", g.Held(), g.Token())
	}
	return g.Err()
}

// silent checks that a channel has nothing to deliver at this moment.
func silent[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case v, ok := <-c:
		t.Fatalf("%s: got %v (open %v), want nothing yet", what, v, ok)
	default:
	}
}

// exhausted checks that a channel that has delivered is closed, and delivers
// nothing more.
func exhausted[T any](t testing.TB, c <-chan T) {
	t.Helper()
	waittest.Until(t, "the channel that has delivered to be closed", func() bool {
		select {
		case v, ok := <-c:
			if ok {
				t.Fatalf("a second value: %v", v)
			}
			return true
		default:
			return false
		}
	})
}

// released releases a grant, which must succeed.
func released(t testing.TB, g lockagent.Grant) {
	t.Helper()
	if err := await(t, "release", g.ReleaseAsync(context.Background())); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// closing closes an agent, which must not take for ever.
func closing(t testing.TB, a *Agent) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	return await(t, "close", done)
}

// closed closes an agent that can give everything back.
func closed(t testing.TB, a *Agent) {
	t.Helper()
	if err := closing(t, a); err != nil {
		t.Errorf("close: %v", err)
	}
}

func lostBecause(t testing.TB, err error, why lockagent.LossReason) {
	t.Helper()
	var lost *lockagent.LostError
	if !errors.As(err, &lost) || lost.Reason != why {
		t.Fatalf("got %v, want lost: %v", err, why)
	}
}

func (a *Agent) entries() int {
	n := 0
	for range a.registry.all {
		n++
	}
	return n
}

// who asks without a session.
func who(owner string) Request { return Request{Owner: lockagent.Owner(owner)} }

// again asks within a session.
func again(owner string) Request { return Request{Owner: lockagent.Owner(owner), Session: true} }

// witness is a recorder that keeps everything but signs of life.
type witness struct {
	// before, if it is not nil, is called before an event is kept.
	before func(lockagent.Event)

	mu     sync.Mutex
	events []lockagent.Event // guarded by mu
}

func (w *witness) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventAlive {
		return
	}
	if w.before != nil {
		w.before(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *witness) all() []lockagent.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// of returns the events of a kind.
func (w *witness) of(kind lockagent.EventKind) []lockagent.Event {
	return slices.DeleteFunc(w.all(), func(e lockagent.Event) bool { return e.Kind != kind })
}

// story is the kinds of all events in order, in one line.
func (w *witness) story() string {
	var kinds []string
	for _, e := range w.all() {
		kinds = append(kinds, e.Kind.String())
	}
	return strings.Join(kinds, " ")
}

// tells compares the story, of which spaces do not matter.
func (w *witness) tells(t testing.TB, want string) {
	t.Helper()
	if got, want := w.story(), strings.Join(strings.Fields(want), " "); got != want {
		t.Errorf("recorded:\n\t%s\nwant:\n\t%s", got, want)
	}
}

// checkHolds reports what is wrong with the holds in the events. Every grant ends once, inside its
// hold. Tokens grow from hold to hold of a lock. The events of an agent begin with its start and
// end with its stop.
func (w *witness) checkHolds(t testing.TB) {
	t.Helper()
	type grantKey struct {
		agent   lockagent.AgentID
		request uint64
	}
	open := make(map[grantKey]lockagent.Event)
	tokens := make(map[lockagent.Name]map[lockagent.AgentID]lockagent.Token)
	state := make(map[lockagent.AgentID]string)
	for i, e := range w.all() {
		key := grantKey{e.Agent, e.Request}
		switch e.Kind {
		case lockagent.EventAgentStarted:
			if state[e.Agent] != "" {
				t.Errorf("event %d: agent started when it was %s", i, state[e.Agent])
			}
			state[e.Agent] = "started"
			continue
		case lockagent.EventAgentStopped:
			if state[e.Agent] != "started" {
				t.Errorf("event %d: agent stopped when it was %q", i, state[e.Agent])
			}
			state[e.Agent] = "stopped"
			continue
		}
		if state[e.Agent] != "started" {
			t.Errorf("event %d: %v of an agent that is %q", i, e.Kind, state[e.Agent])
		}
		switch {
		case e.Kind == lockagent.EventGranted, e.Kind == lockagent.EventReentered:
			if _, twice := open[key]; twice {
				t.Errorf("event %d: request %d granted twice", i, e.Request)
			}
			open[key] = e
			last := tokens[e.Lock]
			if last == nil {
				last = make(map[lockagent.AgentID]lockagent.Token)
				tokens[e.Lock] = last
			}
			switch {
			case e.Kind == lockagent.EventGranted && e.Token <= last[e.Agent]:
				t.Errorf("event %d: token %d of %q is not greater than %d", i, e.Token, e.Lock, last[e.Agent])
			case e.Kind == lockagent.EventReentered && e.Token != last[e.Agent]:
				t.Errorf("event %d: re-entered with token %d, held with %d", i, e.Token, last[e.Agent])
			}
			last[e.Agent] = e.Token
		case e.Kind.EndsHold():
			g, ok := open[key]
			switch {
			case !ok:
				t.Errorf("event %d: %v of request %d, which has no grant", i, e.Kind, e.Request)
			case g.Token != e.Token || g.Tenure != e.Tenure || g.Owner != e.Owner || g.Lock != e.Lock:
				t.Errorf("event %d: ended %+v, granted %+v", i, e, g)
			case e.Until < g.StoreTime:
				t.Errorf("event %d: until %d, but granted at %d", i, e.Until, g.StoreTime)
			}
			delete(open, key)
		}
	}
	for _, e := range open {
		t.Errorf("%q: grant of request %d (token %d) never ended", e.Lock, e.Request, e.Token)
	}
	for id, s := range state {
		if s != "stopped" {
			t.Errorf("agent %s %s, and no more", id, s)
		}
	}
}

// op is one call to a store on its way through a tap.
type op struct {
	kind   string // "acquire", "renew", "release", "break", "inspect"
	name   lockagent.Name
	tenure lockagent.Tenure
	lease  time.Duration
	rests  bool // the tenure is to be one that may rest

	watched bool            // the holder wants to know who waits
	last    lockagent.Token // of a renewal
	permits [2]int          // of a renewal: those of the tenure, and all

	run   func()                          // makes the call and has it answered
	slow  func(call, reply time.Duration) // makes the call and has it answered, both later
	lose  func()                          // makes the call, but answers that the store is unavailable
	late  func(time.Duration)             // answers that the store is unavailable, and makes the call later
	twice func()                          // makes the call and has it answered twice
	fail  func(error)                     // answers without making the call
}

func (o *op) String() string { return fmt.Sprintf("%s %s %d", o.kind, o.name, o.tenure.Number) }

// whole is a store with every layer, as that in memory.
type whole interface {
	lockagent.Store
	lockagent.Messages
	lockagent.Queue
	lockagent.Rests
	lockagent.Operator
	lockagent.Counters
	lockagent.History
}

// tap is a store between an agent and another store. It counts the calls, and checks that the calls
// of one tenure come one at a time. Its handler decides what happens to each call.
type tap struct {
	whole
	deaf    func() bool // if not nil, reports whether a wake-up is lost
	noQueue bool        // nobody is passed a lock
	// news, if not nil, is called with every message instead of hear.
	news func(hear func(lockagent.Message), m lockagent.Message)

	mu      sync.Mutex
	handler func(*op)                    // guarded by mu; nil to let all pass
	calls   []op                         // guarded by mu; in order
	busy    map[lockagent.Tenure]string  // guarded by mu; calls under way
	overlap []string                     // guarded by mu; calls that came too early
	watches int                          // guarded by mu; subscriptions that stand
	onSub   func(lockagent.Name, func()) // guarded by mu
	onUnsub func(lockagent.Name)         // guarded by mu
	resets  []func(lockagent.Reset)      // guarded by mu
}

func newTap(s whole) *tap {
	return &tap{whole: s, busy: make(map[lockagent.Tenure]string)}
}

// handle sets what decides about calls from now on.
func (s *tap) handle(f func(*op)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
}

// on has f decide about the calls of a kind, and all others pass.
func (s *tap) on(kind string, f func(*op)) {
	s.handle(func(o *op) {
		if o.kind == kind {
			f(o)
			return
		}
		o.run()
	})
}

// count is how many calls of a kind, or of any, came so far.
func (s *tap) count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, o := range s.calls {
		if kind == "" || o.kind == kind {
			n++
		}
	}
	return n
}

// kinds are the kinds of all calls so far, in one line.
func (s *tap) kinds() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []string
	for _, o := range s.calls {
		kinds = append(kinds, o.kind)
	}
	return strings.Join(kinds, " ")
}

func (s *tap) subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

func (s *tap) overlaps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overlap)
}

func through[R any](s *tap, o *op, call func(done func(R, error)), done func(R, error)) {
	var zero R
	var once sync.Once
	reply := func(r R, err error) {
		once.Do(func() { s.over(o) })
		done(r, err)
	}
	o.run = func() { call(reply) }
	o.lose = func() { call(func(R, error) { reply(zero, lockagent.ErrStoreUnavailable) }) }
	o.late = func(d time.Duration) {
		time.AfterFunc(d, func() { call(func(R, error) {}) })
		reply(zero, lockagent.ErrStoreUnavailable)
	}
	o.slow = func(before, after time.Duration) {
		time.AfterFunc(before, func() {
			call(func(r R, err error) { time.AfterFunc(after, func() { reply(r, err) }) })
		})
	}
	o.twice = func() { call(func(r R, err error) { reply(r, err); done(r, err) }) }
	o.fail = func(err error) { reply(zero, err) }
	s.mu.Lock()
	s.calls = append(s.calls, *o)
	handler := s.handler
	if o.tenure.Number != 0 {
		// Most releases do not wait for a renewal, which may take its time. A ghost is released each time
		// that the lock meets it.
		if other := s.busy[o.tenure]; other != "" && (other == "acquire" || o.kind != "release") {
			s.overlap = append(s.overlap, fmt.Sprintf("%v during %s", o, other))
		}
		s.busy[o.tenure] = o.kind
	}
	s.mu.Unlock()
	if handler == nil {
		o.run()
		return
	}
	defer func() {
		if p := recover(); p != nil {
			once.Do(func() { s.over(o) })
			panic(p)
		}
	}()
	handler(o)
}

func (s *tap) over(o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[o.tenure] == o.kind {
		delete(s.busy, o.tenure)
	}
}

func (s *tap) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	req.Queue = req.Queue && !s.noQueue
	o := &op{kind: "acquire", name: req.Name, tenure: req.Tenure, lease: req.Lease, rests: req.Rests}
	through(s, o, func(done func(lockagent.AcquireReply, error)) { s.whole.Acquire(ctx, req, done) }, done)
}

func (s *tap) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	o := &op{
		kind: "renew", name: req.Name, tenure: req.Tenure, lease: req.Lease, watched: req.Watched, last: req.Last,
		permits: [2]int{req.Permits, req.Total},
	}
	through(s, o, func(done func(lockagent.RenewReply, error)) { s.whole.Renew(ctx, req, done) }, done)
}

func (s *tap) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	o := &op{kind: "release", name: req.Name, tenure: req.Tenure}
	through(s, o, func(done func(lockagent.ReleaseReply, error)) { s.whole.Release(ctx, req, done) }, done)
}

func (s *tap) Break(ctx context.Context, req lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	o := &op{kind: "break", name: req.Name}
	through(s, o, func(done func(lockagent.BreakReply, error)) { s.whole.Break(ctx, req, done) }, done)
}

func (s *tap) Permits(ctx context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	o := &op{kind: "permits", name: req.Name}
	through(s, o, func(done func(lockagent.PermitsReply, error)) { s.whole.Permits(ctx, req, done) }, done)
}

func (s *tap) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	o := &op{kind: "inspect", name: name}
	through(s, o, func(done func(lockagent.Inspection, error)) { s.whole.Inspect(ctx, name, kind, done) }, done)
}

func (s *tap) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) func() {
	s.mu.Lock()
	s.watches++
	onSub, onUnsub := s.onSub, s.onUnsub
	s.mu.Unlock()
	if onSub != nil {
		onSub(name, wake)
	}
	cancel := s.whole.Subscribe(name, lockagent.PlainLock, func() {
		if s.deaf == nil || !s.deaf() {
			wake()
		}
	})
	return func() {
		cancel()
		s.mu.Lock()
		s.watches--
		s.mu.Unlock()
		if onUnsub != nil {
			onUnsub(name)
		}
	}
}

func (s *tap) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
	return s.whole.Listen(agent, func(m lockagent.Message) {
		if s.news != nil {
			s.news(hear, m)
		} else {
			hear(m)
		}
	})
}

func (s *tap) OnReset(f func(lockagent.Reset)) func() {
	s.mu.Lock()
	s.resets = append(s.resets, f)
	s.mu.Unlock()
	return s.whole.OnReset(f)
}

// inspect asks a store directly.
func inspect(t testing.TB, s lockagent.Operator, name lockagent.Name) lockagent.Inspection {
	t.Helper()
	return inspectAs(t, s, name, lockagent.PlainLock)
}

// inspectAs is inspect for a lock of another kind.
func inspectAs(t testing.TB, s lockagent.Operator, name lockagent.Name, kind lockagent.LockKind) lockagent.Inspection {
	t.Helper()
	out := make(chan lockagent.Inspection, 1)
	s.Inspect(context.Background(), name, kind, func(i lockagent.Inspection, err error) {
		if err != nil {
			t.Errorf("inspect: %v", err)
		}
		out <- i
	})
	return await(t, "inspection", out)
}

func yieldNow() { runtime.Gosched() }
