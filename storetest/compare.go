package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// Compare runs random histories of calls against a model and a subject, which must agree on locks of a
// kind. If
// they do not, the test fails with the shortest history that shows it. They must agree on
//
//   - whether a tenure is granted, queued, held or released;
//   - the holder of a lock, and the tenure that a lock is passed to;
//   - the kind of an error.
//
// Tokens and times may differ, but both must give tokens that grow.
//
// model and subject are pairs of stores. The stores of a pair have the same data, and serve
// two agents. They stay open, and need not be empty: every history has locks of its own,
// with leases that do not end in the history. The agents also repeat calls, and make calls
// late, as a network does.
//
// Compare cannot run in a bubble of testing/synctest. The flags of package rapid set the
// number of histories (-rapid.checks) and their length (-rapid.steps).
func Compare(t rapid.TB, kind lockagent.LockKind, model, subject [2]lockagent.Store) {
	t.Helper()
	heardBy := func(stores [2]lockagent.Store) (all [2]*Messages) {
		for i, s := range stores {
			all[i] = Listen(t, s, comparedAgents[i])
		}
		return all
	}
	modelHears, subjectHears := heardBy(model), heardBy(subject)
	defer func() {
		for i := range comparedAgents {
			modelHears[i].Cancel()
			subjectHears[i].Cancel()
		}
	}()
	run, histories := rand.Text(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &history{
			prefix:  fmt.Sprintf("compare/%s/%d/", run, histories),
			model:   newWitness(kind, model, modelHears),
			subject: newWitness(kind, subject, subjectHears),
			latest:  make(map[seat]uint64),
			queued:  make(map[seat]uint64),
			holds:   make(map[seat]bool),
		}
		defer h.model.cancel()
		defer h.subject.cancel()
		t.Repeat(map[string]func(*rapid.T){
			"acquire": h.acquire,
			"renew":   h.renew,
			"release": h.release,
			"break":   h.breakLock,
			"inspect": h.inspect,
		})
	})
}

// The locks and the agents of every history.
var (
	comparedLocks  = []string{"a", "a", "a", "b", "c"} // mostly one lock, so that much happens to it
	comparedAgents = [2]lockagent.AgentID{
		"11111111-1111-8111-8111-111111111111", "22222222-2222-8222-8222-222222222222",
	}
)

// history is one random sequence of calls, made to a model and to a subject.
type history struct {
	prefix         string // of the locks of this history
	model, subject *witness
	latest         map[seat]uint64 // the greatest tenure number used
	queued         map[seat]uint64 // the tenure that has a place
	holds          map[seat]bool
}

// mode is that of a tenure: all requests of a tenure have the same. Half of the tenures of a read/write lock
// are shared.
func (h *history) mode(tenure lockagent.Tenure) lockagent.Mode {
	if h.model.kind == lockagent.ReadWriteLock && tenure.Number%4 > 1 {
		return lockagent.Shared
	}
	return lockagent.Exclusive
}

// seat is an agent at a lock.
type seat struct {
	lock  string
	agent int
}

// witness is the model or the subject.
type witness struct {
	kind     lockagent.LockKind
	stores   [2]lockagent.Store
	messages [2]*Messages
	tokens   map[lockagent.Name]lockagent.Token // the last of each lock
	subs     map[seat]*Subscription
}

func newWitness(kind lockagent.LockKind, stores [2]lockagent.Store, messages [2]*Messages) *witness {
	for _, m := range messages {
		m.forget()
	}
	return &witness{
		kind: kind, stores: stores, messages: messages, tokens: make(map[lockagent.Name]lockagent.Token),
		subs: make(map[seat]*Subscription),
	}
}

func (w *witness) cancel() {
	for _, sub := range w.subs {
		sub.Cancel()
	}
}

// grew notes a token, and fails the history unless it is greater than the one before.
func (w *witness) grew(t *rapid.T, s seat, name lockagent.Name, token lockagent.Token) {
	t.Helper()
	if token <= w.tokens[name] {
		t.Fatalf("the tokens of lock %q do not grow", s.lock)
	}
	w.tokens[name] = token
}

// told waits for the message that a tenure was passed a lock, and returns its token.
func (w *witness) told(t *rapid.T, to seat, name lockagent.Name, tenure lockagent.Tenure) lockagent.Token {
	t.Helper()
	told, ok := w.messages[to.agent].await(lockagent.MessagePassed, name, tenure)
	if !ok {
		t.Fatalf("no message to %s that it was passed lock %q", tenure, to.lock)
	}
	if told.Token <= w.tokens[name] {
		t.Fatalf("the tokens of lock %q do not grow", to.lock)
	}
	return told.Token
}

// testimony is the part of a reply on which the two must agree.
type testimony struct {
	yes    bool // granted, held, released or broken
	queued bool
	passed bool
	wanted bool
	holder string
	count  int
	err    string
}

// acquire makes an agent try to acquire a lock. As agents do, it has at most one place in the
// queue, and none while it has the lock.
func (h *history) acquire(t *rapid.T) {
	s, tenure := h.draw(t)
	if waits := h.queued[s]; waits != 0 {
		tenure.Number = waits
	}
	req := lockagent.AcquireRequest{
		Name:   h.name(s),
		Kind:   h.model.kind,
		Mode:   h.mode(tenure),
		Tenure: tenure,
		Lease:  minute,
		Queue:  !h.holds[s] && (h.queued[s] != 0 || rapid.Bool().Draw(t, "queue")),
	}
	if req.Queue {
		h.subscribe(t, s)
	}
	reply := h.compare(t, fmt.Sprintf(
		"Acquire(%s, %s, queue %t)", s.lock, tenure, req.Queue,
	), func(w *witness) testimony {
		reply, err := Acquire(t, w.stores[s.agent], req)
		if reply.Granted {
			w.grew(t, s, req.Name, reply.Token)
		}
		return testimony{
			yes: reply.Granted, queued: reply.Queued, wanted: reply.Contested, holder: reply.Holder, err: sentinel(err),
		}
	})
	switch {
	case reply.queued:
		h.queued[s] = tenure.Number
	case reply.yes:
		delete(h.queued, s)
		h.holds[s] = true
	}
}

func (h *history) renew(t *rapid.T) {
	s, tenure := h.draw(t)
	req := lockagent.RenewRequest{
		Name: h.name(s), Kind: h.model.kind, Tenure: tenure, Lease: minute, Watched: rapid.Bool().Draw(t, "watched"),
	}
	if h.model.kind == lockagent.ReadWriteLock && rapid.Bool().Draw(t, "downgrade") {
		req.Mode = lockagent.Shared
	}
	h.compare(t, fmt.Sprintf("Renew(%s, %s, %s)", s.lock, tenure, req.Mode), func(w *witness) testimony {
		reply, err := Renew(t, w.stores[s.agent], req)
		return testimony{yes: reply.Held, wanted: reply.Contested, err: sentinel(err)}
	})
	h.pass(t, s)
}

func (h *history) release(t *rapid.T) {
	s, tenure := h.draw(t)
	req := lockagent.ReleaseRequest{
		Name: h.name(s), Kind: h.model.kind, Tenure: tenure, Unanswered: rapid.Bool().Draw(t, "unanswered"),
	}
	tell := rapid.Bool().Draw(t, "last")
	reply := h.compare(
		t,
		fmt.Sprintf("Release(%s, %s, unanswered %t)", s.lock, tenure, req.Unanswered),
		func(w *witness) testimony {
			req := req
			if tell {
				req.Last = w.tokens[req.Name]
			}
			reply, err := Release(t, w.stores[s.agent], req)
			return testimony{yes: reply.Released, passed: reply.Passed, err: sentinel(err)}
		},
	)
	if h.queued[s] == tenure.Number {
		delete(h.queued, s)
	}
	if reply.yes {
		delete(h.holds, s)
	}
	if !h.pass(t, s) && reply.passed {
		t.Fatalf("lock %q was passed to nobody who has a place", s.lock)
	}
}

// pass finds out to whom a lock was passed, if it was. It may be passed to several who share it. Each renews
// its tenure, so that the lease does not end in the history.
func (h *history) pass(t *rapid.T, from seat) (passed bool) {
	greatest := make(map[*witness]lockagent.Token)
	for i, agent := range comparedAgents {
		to := seat{from.lock, i}
		tenure := lockagent.Tenure{Agent: agent, Number: h.queued[to]}
		if tenure.Number == 0 {
			continue
		}
		got := h.compare(t, fmt.Sprintf("Renew(%s, %s), which waits", to.lock, tenure), func(w *witness) testimony {
			reply, err := Renew(t, w.stores[i],
				lockagent.RenewRequest{Name: h.name(to), Kind: w.kind, Tenure: tenure, Lease: minute, Urgent: true})
			return testimony{yes: reply.Held, err: sentinel(err)}
		})
		if !got.yes {
			continue
		}
		passed = true
		for _, w := range []*witness{h.model, h.subject} {
			greatest[w] = max(greatest[w], w.told(t, to, h.name(to), tenure))
		}
		delete(h.queued, to)
		h.holds[to] = true
	}
	for w, token := range greatest {
		w.grew(t, from, h.name(from), token)
	}
	return passed
}

// subscribe makes an agent subscribe to a lock, once for the rest of the history.
func (h *history) subscribe(t *rapid.T, s seat) {
	for _, w := range []*witness{h.model, h.subject} {
		if w.subs[s] == nil {
			w.subs[s] = subscribe(t, w.stores[s.agent], h.name(s), w.kind)
		}
	}
}

func (h *history) breakLock(t *rapid.T) {
	s := drawSeat(t)
	reply := h.compare(t, fmt.Sprintf("Break(%s)", s.lock), func(w *witness) testimony {
		broken, err := breakLock(t, w.stores[s.agent], lockagent.BreakRequest{Name: h.name(s), Kind: w.kind})
		return testimony{yes: broken, err: sentinel(err)}
	})
	for i := range comparedAgents {
		delete(h.holds, seat{s.lock, i})
	}
	if reply.yes && h.look(t, s).yes { // a fair lock passes to the first place
		h.pass(t, s)
	}
}

func (h *history) inspect(t *rapid.T) { h.look(t, drawSeat(t)) }

func (h *history) look(t *rapid.T, s seat) testimony {
	return h.compare(t, fmt.Sprintf("Inspect(%s)", s.lock), func(w *witness) testimony {
		seen, err := inspect(t, w.stores[s.agent], h.name(s), w.kind)
		return testimony{yes: seen.Held, holder: seen.Holder, count: seen.HoldCount, err: sentinel(err)}
	})
}

// compare makes the same call to both, and fails the history if they answer differently.
func (h *history) compare(t *rapid.T, what string, ask func(w *witness) testimony) testimony {
	t.Helper()
	model, subject := ask(h.model), ask(h.subject)
	t.Logf("%s = %+v", what, model)
	if subject != model {
		t.Fatalf("%s: the model answers %+v, the subject %+v", what, model, subject)
	}
	return model
}

// name is the lock at a seat. Nothing prints it: the name differs in every history, so rapid
// would take one failure for several.
func (h *history) name(s seat) lockagent.Name { return lockagent.Name(h.prefix + s.lock) }

func drawSeat(t *rapid.T) seat {
	return seat{
		lock:  rapid.SampledFrom(comparedLocks).Draw(t, "lock"),
		agent: rapid.IntRange(0, len(comparedAgents)-1).Draw(t, "agent"),
	}
}

// draw chooses an agent, a lock, and a tenure: mostly the latest or the next tenure, sometimes
// an earlier one.
func (h *history) draw(t *rapid.T) (seat, lockagent.Tenure) {
	s := drawSeat(t)
	number := h.latest[s]
	switch step := rapid.SampledFrom([]int{0, 0, 0, 1, 1, -1, -2}).Draw(t, "step"); {
	case step > 0:
		number++
	case number > uint64(-step):
		number -= uint64(-step)
	}
	number = max(number, 1)
	h.latest[s] = max(h.latest[s], number)
	return s, lockagent.Tenure{Agent: comparedAgents[s.agent], Number: number}
}

// sentinel names the sentinel error of package lockagent that err is.
func sentinel(err error) string {
	if err == nil {
		return "none"
	}
	for _, known := range []error{
		lockagent.ErrWithdrawn, lockagent.ErrWrongType, lockagent.ErrWrongKind, lockagent.ErrNotPermitted,
		lockagent.ErrNoTokens, lockagent.ErrClosed,
		lockagent.ErrStoreUnavailable, lockagent.ErrBadName, lockagent.ErrBadOption,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "another error: " + err.Error()
}
