package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// Compare runs random histories of calls against two stores and fails the test
// with the shortest history it can find for which they disagree: about whether a
// tenure is granted, queued, held or released, about who holds a lock or is passed it,
// or about the kind of an error. Tokens and times may differ, but both must give
// tokens that grow.
//
// model and subject are two stores each, on the same data, for two agents. They
// stay open, and need not be empty: every history has locks of its own, with
// leases that do not end meanwhile. The agents repeat calls and make them late, as
// happens when messages are delayed.
//
// Compare cannot run in a bubble of testing/synctest. The flags of package rapid
// say how many histories there are (-rapid.checks) and how long (-rapid.steps).
func Compare(t rapid.TB, model, subject [2]lockagent.Store) {
	t.Helper()
	compare(t, model, subject, true)
}

// CompareWithoutQueue is [Compare] for a subject that has no queue. Nobody asks for a
// place in one.
func CompareWithoutQueue(t rapid.TB, model, subject [2]lockagent.Store) {
	t.Helper()
	compare(t, model, subject, false)
}

func compare(t rapid.TB, model, subject [2]lockagent.Store, queues bool) {
	t.Helper()
	run, histories := rand.Text(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &history{
			prefix:   fmt.Sprintf("compare/%s/%d/", run, histories),
			model:    newWitness(model),
			subject:  newWitness(subject),
			queues:   queues,
			latest:   make(map[seat]uint64),
			released: make(map[turn]bool),
			queued:   make(map[seat]uint64),
		}
		defer h.model.cancel()
		defer h.subject.cancel()
		t.Repeat(map[string]func(*rapid.T){
			"acquire":   h.acquire,
			"renew":     h.renew,
			"release":   h.release,
			"break":     h.breakLock,
			"inspect":   h.inspect,
			"subscribe": func(t *rapid.T) { h.subscribe(t, drawSeat(t)) },
			"wait":      h.wait,
		})
	})
}

// The locks and the agents of every history.
var (
	comparedLocks  = []string{"a", "a", "a", "b", "c"} // mostly one, where much happens
	comparedAgents = [2]lockagent.AgentID{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"}
)

// history is one random sequence of calls, made to a model and to a subject.
type history struct {
	prefix         string // of the locks of this history
	model, subject *witness
	queues         bool            // may be asked for
	latest         map[seat]uint64 // the greatest tenure number used
	released       map[turn]bool   // those that had begun
	queued         map[seat]uint64 // the tenure that may be in the queue; an agent has one
}

// seat is an agent at a lock.
type seat struct {
	lock  string
	agent int
}

// turn is a tenure that is over.
type turn struct {
	seat
	number uint64
}

// witness is one of the two that are compared.
type witness struct {
	stores [2]lockagent.Store
	tokens map[lockagent.Name]lockagent.Token // the last of each lock
	subs   map[seat]*Subscription
}

func newWitness(stores [2]lockagent.Store) *witness {
	return &witness{stores: stores, tokens: make(map[lockagent.Name]lockagent.Token), subs: make(map[seat]*Subscription)}
}

func (w *witness) cancel() {
	for _, sub := range w.subs {
		sub.Cancel()
	}
}

// grew takes note of tokens that were given.
func (w *witness) grew(t *rapid.T, s seat, name lockagent.Name, first lockagent.Token, tokens int) {
	t.Helper()
	if first <= w.tokens[name] {
		t.Fatalf("the tokens of lock %q do not grow", s.lock)
	}
	w.tokens[name] = first + lockagent.Token(tokens) - 1
}

// awaitPass waits for a pass of a lock to either agent, and has the tenure kept, so
// that its lease does not end in the history.
func (w *witness) awaitPass(t *rapid.T, s seat, name lockagent.Name) lockagent.Pass {
	t.Helper()
	var passes [len(comparedAgents)]<-chan lockagent.Pass
	for i := range passes {
		if sub := w.subs[seat{s.lock, i}]; sub != nil {
			passes[i] = sub.Passes
		}
	}
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	var pass lockagent.Pass
	to := 0
	select {
	case pass = <-passes[0]:
	case pass = <-passes[1]:
		to = 1
	case <-overdue.C:
		t.Fatalf("no pass of lock %q within %v", s.lock, Patience)
	}
	w.grew(t, s, name, pass.Token, pass.Tokens)
	reply, err := Renew(t, w.stores[to], lockagent.RenewRequest{Name: name, Tenure: pass.Tenure, Lease: minute, Urgent: true})
	if err != nil || !reply.Held {
		t.Fatalf("Renew(%s, %s) = %+v, %v, after it was passed on", s.lock, pass.Tenure, reply, err)
	}
	return pass
}

// testimony is the part of a reply in which stores have to agree.
type testimony struct {
	yes    bool // granted, held, released or broken
	queued bool
	passed bool // on
	holder string
	count  int
	err    string
}

func (h *history) acquire(t *rapid.T) {
	s, tenure := h.draw(t)
	req := lockagent.AcquireRequest{
		Name:   h.name(s),
		Tenure: tenure,
		Lease:  minute,
		Tokens: rapid.SampledFrom([]int{1, 1, 1, 1000, 0}).Draw(t, "tokens"),
		Queue:  h.queues && rapid.Bool().Draw(t, "queue"),
	}
	h.ask(t, s, req)
}

func (h *history) ask(t *rapid.T, s seat, req lockagent.AcquireRequest) {
	tenure := req.Tenure
	if other := h.queued[s]; other != 0 && other != tenure.Number {
		req.Queue = false
	}
	what := fmt.Sprintf("Acquire(%s, %s, %d tokens, queue %t)", s.lock, tenure, req.Tokens, req.Queue)
	reply := h.compare(t, what, func(w *witness) testimony {
		reply, err := Acquire(t, w.stores[s.agent], req)
		if reply.Granted {
			w.grew(t, s, req.Name, reply.Token, req.Tokens)
		}
		return testimony{yes: reply.Granted, queued: reply.Queued, holder: reply.Holder, err: kind(err)}
	})
	switch {
	case reply.queued:
		h.queued[s] = tenure.Number
	case reply.yes:
		h.left(s.lock, tenure.String())
	}
}

func (h *history) renew(t *rapid.T) {
	s, tenure := h.draw(t)
	req := lockagent.RenewRequest{Name: h.name(s), Tenure: tenure, Lease: minute}
	h.compare(t, fmt.Sprintf("Renew(%s, %s)", s.lock, tenure), func(w *witness) testimony {
		reply, err := Renew(t, w.stores[s.agent], req)
		return testimony{yes: reply.Held, err: kind(err)}
	})
}

func (h *history) release(t *rapid.T) {
	s, tenure := h.draw(t)
	if waits := h.queued[s]; waits != 0 && tenure.Number > waits {
		tenure.Number = waits // an agent ends its tenures one after the other
	}
	req := lockagent.ReleaseRequest{Name: h.name(s), Tenure: tenure}
	reply := h.compare(t, fmt.Sprintf("Release(%s, %s)", s.lock, tenure), func(w *witness) testimony {
		reply, err := Release(t, w.stores[s.agent], req)
		return testimony{yes: reply.Released, passed: reply.Passed, err: kind(err)}
	})
	h.left(s.lock, tenure.String())
	if reply.passed && !h.released[turn{s, tenure.Number}] { // or the pass came then
		to := h.compare(t, fmt.Sprintf("pass of %s", s.lock), func(w *witness) testimony {
			pass := w.awaitPass(t, s, req.Name)
			return testimony{holder: pass.Tenure.String(), count: pass.Tokens}
		})
		h.left(s.lock, to.holder)
	}
	if reply.yes {
		h.released[turn{s, tenure.Number}] = true
	}
}

// left takes note that a tenure is not in the queue of a lock any more.
func (h *history) left(lock, tenure string) {
	for i, agent := range comparedAgents {
		s := seat{lock, i}
		if waits := (lockagent.Tenure{Agent: agent, Number: h.queued[s]}); waits.String() == tenure {
			delete(h.queued, s)
		}
	}
}

// subscribe has an agent subscribe once to a lock, for the rest of the history.
func (h *history) subscribe(t *rapid.T, s seat) {
	for _, w := range []*witness{h.model, h.subject} {
		if w.subs[s] == nil {
			w.subs[s] = Subscribe(t, w.stores[s.agent], h.name(s))
		}
	}
	t.Logf("Subscribe(%s, %s)", s.lock, comparedAgents[s.agent])
}

// wait does what an agent does that wants a lock.
func (h *history) wait(t *rapid.T) {
	s, tenure := h.draw(t)
	h.subscribe(t, s)
	h.ask(t, s, lockagent.AcquireRequest{Name: h.name(s), Tenure: tenure, Lease: minute, Tokens: rapid.IntRange(1, 3).Draw(t, "tokens"), Queue: h.queues})
}

func (h *history) breakLock(t *rapid.T) {
	s := drawSeat(t)
	h.compare(t, fmt.Sprintf("Break(%s)", s.lock), func(w *witness) testimony {
		broken, err := Break(t, w.stores[s.agent], h.name(s))
		return testimony{yes: broken, err: kind(err)}
	})
}

func (h *history) inspect(t *rapid.T) {
	s := drawSeat(t)
	h.compare(t, fmt.Sprintf("Inspect(%s)", s.lock), func(w *witness) testimony {
		seen, err := Inspect(t, w.stores[s.agent], h.name(s))
		return testimony{yes: seen.Held, holder: seen.Holder, count: seen.HoldCount, err: kind(err)}
	})
}

// compare asks both for the same.
func (h *history) compare(t *rapid.T, what string, ask func(w *witness) testimony) testimony {
	t.Helper()
	model, subject := ask(h.model), ask(h.subject)
	t.Logf("%s = %+v", what, model)
	if subject != model {
		t.Fatalf("%s: the model answers %+v, the subject %+v", what, model, subject)
	}
	return model
}

// name is the lock at a seat. It is never printed: it is another one in every
// history, and rapid would take the same failure for different ones.
func (h *history) name(s seat) lockagent.Name { return lockagent.Name(h.prefix + s.lock) }

func drawSeat(t *rapid.T) seat {
	return seat{
		lock:  rapid.SampledFrom(comparedLocks).Draw(t, "lock"),
		agent: rapid.IntRange(0, len(comparedAgents)-1).Draw(t, "agent"),
	}
}

// draw chooses an agent, a lock, and a tenure: mostly the latest or the next one,
// sometimes one of those before.
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

// kind names the error in the terms of the lockagent package.
func kind(err error) string {
	if err == nil {
		return "none"
	}
	for _, sentinel := range []error{
		lockagent.ErrWithdrawn, lockagent.ErrWrongType, lockagent.ErrNotPermitted, lockagent.ErrClosed,
		lockagent.ErrStoreUnavailable, lockagent.ErrBadName, lockagent.ErrBadOption,
	} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return "another error: " + err.Error()
}
