package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// Compare runs random histories of calls against two stores that must agree: about whether
// a tenure is granted, queued, held or released, about who holds a lock or is passed it, and
// about the kind of an error. If they do not, the test fails with the shortest history that
// shows it. Tokens and times may differ, but both must give tokens that grow.
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
			model:   newWitness(model, modelHears),
			subject: newWitness(subject, subjectHears),
			queues:  queues,
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
	comparedLocks  = []string{"a", "a", "a", "b", "c"} // mostly one, where much happens
	comparedAgents = [2]lockagent.AgentID{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"}
)

// history is one random sequence of calls, made to a model and to a subject.
type history struct {
	prefix         string // of the locks of this history
	model, subject *witness
	queues         bool            // may be asked for
	latest         map[seat]uint64 // the greatest tenure number used
	queued         map[seat]uint64 // the tenure that has a place
	holds          map[seat]bool
}

// seat is an agent at a lock.
type seat struct {
	lock  string
	agent int
}

// witness is one of the two that are compared.
type witness struct {
	stores   [2]lockagent.Store
	messages [2]*Messages
	tokens   map[lockagent.Name]lockagent.Token // the last of each lock
	subs     map[seat]*Subscription
}

func newWitness(stores [2]lockagent.Store, messages [2]*Messages) *witness {
	for _, m := range messages {
		m.forget()
	}
	return &witness{stores: stores, messages: messages, tokens: make(map[lockagent.Name]lockagent.Token), subs: make(map[seat]*Subscription)}
}

func (w *witness) cancel() {
	for _, sub := range w.subs {
		sub.Cancel()
	}
}

// grew takes note of a token that was given.
func (w *witness) grew(t *rapid.T, s seat, name lockagent.Name, token lockagent.Token) {
	t.Helper()
	if token <= w.tokens[name] {
		t.Fatalf("the tokens of lock %q do not grow", s.lock)
	}
	w.tokens[name] = token
}

// takesUp has an agent hear that it was passed a lock, and keep the tenure, so that its
// lease does not end in the history.
func (w *witness) takesUp(t *rapid.T, to seat, name lockagent.Name, tenure lockagent.Tenure) {
	t.Helper()
	told, ok := w.messages[to.agent].await(lockagent.MessagePassed, name, tenure)
	if !ok {
		t.Fatalf("no message to %s that it was passed lock %q", tenure, to.lock)
	}
	w.grew(t, to, name, told.Token)
	reply, err := Renew(t, w.stores[to.agent], lockagent.RenewRequest{Name: name, Tenure: tenure, Lease: minute, Urgent: true})
	if err != nil || !reply.Held {
		t.Fatalf("Renew(%s, %s) = %+v, %v, after it was passed", to.lock, tenure, reply, err)
	}
}

// testimony is the part of a reply in which stores have to agree.
type testimony struct {
	yes    bool // granted, held, released or broken
	queued bool
	passed bool
	holder string
	count  int
	err    string
}

// acquire has an agent try to acquire a lock, as agents do: with one place in its queue at
// most, and none in that of a lock that it has.
func (h *history) acquire(t *rapid.T) {
	s, tenure := h.draw(t)
	if waits := h.queued[s]; waits != 0 {
		tenure.Number = waits
	}
	req := lockagent.AcquireRequest{
		Name:   h.name(s),
		Tenure: tenure,
		Lease:  minute,
		Queue:  h.queues && !h.holds[s] && (h.queued[s] != 0 || rapid.Bool().Draw(t, "queue")),
	}
	if req.Queue {
		h.subscribe(t, s)
	}
	reply := h.compare(t, fmt.Sprintf("Acquire(%s, %s, queue %t)", s.lock, tenure, req.Queue), func(w *witness) testimony {
		reply, err := Acquire(t, w.stores[s.agent], req)
		if reply.Granted {
			w.grew(t, s, req.Name, reply.Token)
		}
		return testimony{yes: reply.Granted, queued: reply.Queued, holder: reply.Holder, err: kind(err)}
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
	req := lockagent.RenewRequest{Name: h.name(s), Tenure: tenure, Lease: minute}
	h.compare(t, fmt.Sprintf("Renew(%s, %s)", s.lock, tenure), func(w *witness) testimony {
		reply, err := Renew(t, w.stores[s.agent], req)
		return testimony{yes: reply.Held, err: kind(err)}
	})
}

func (h *history) release(t *rapid.T) {
	s, tenure := h.draw(t)
	req := lockagent.ReleaseRequest{Name: h.name(s), Tenure: tenure, Unanswered: rapid.Bool().Draw(t, "unanswered")}
	tell := rapid.Bool().Draw(t, "last")
	reply := h.compare(t, fmt.Sprintf("Release(%s, %s, unanswered %t)", s.lock, tenure, req.Unanswered), func(w *witness) testimony {
		req := req
		if tell {
			req.Last = w.tokens[req.Name]
		}
		reply, err := Release(t, w.stores[s.agent], req)
		return testimony{yes: reply.Released, passed: reply.Passed, err: kind(err)}
	})
	if h.queued[s] == tenure.Number {
		delete(h.queued, s)
	}
	if reply.yes {
		delete(h.holds, s)
	}
	if reply.passed {
		h.pass(t, s)
	}
}

// pass finds out to whom a lock was passed.
func (h *history) pass(t *rapid.T, from seat) {
	holder := h.look(t, from).holder
	for i, agent := range comparedAgents {
		to := seat{from.lock, i}
		if tenure := (lockagent.Tenure{Agent: agent, Number: h.queued[to]}); tenure.String() == holder {
			h.model.takesUp(t, to, h.name(to), tenure)
			h.subject.takesUp(t, to, h.name(to), tenure)
			delete(h.queued, to)
			h.holds[to] = true
			return
		}
	}
	t.Fatalf("lock %q was passed to %q, which has no place", from.lock, holder)
}

// subscribe has an agent subscribe once to a lock, for the rest of the history.
func (h *history) subscribe(t *rapid.T, s seat) {
	for _, w := range []*witness{h.model, h.subject} {
		if w.subs[s] == nil {
			w.subs[s] = Subscribe(t, w.stores[s.agent], h.name(s))
		}
	}
}

func (h *history) breakLock(t *rapid.T) {
	s := drawSeat(t)
	h.compare(t, fmt.Sprintf("Break(%s)", s.lock), func(w *witness) testimony {
		broken, err := Break(t, w.stores[s.agent], h.name(s))
		return testimony{yes: broken, err: kind(err)}
	})
	for i := range comparedAgents {
		delete(h.holds, seat{s.lock, i})
	}
}

func (h *history) inspect(t *rapid.T) { h.look(t, drawSeat(t)) }

func (h *history) look(t *rapid.T, s seat) testimony {
	return h.compare(t, fmt.Sprintf("Inspect(%s)", s.lock), func(w *witness) testimony {
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
