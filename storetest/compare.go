package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
	"pgregory.net/rapid"
)

// Compare runs random histories of calls against two stores and fails the test
// with the shortest history it can find for which they disagree: about whether a
// tenure is granted, held or released, about who holds a lock, or about the kind
// of an error. Tokens and times may differ, but both must give tokens that grow.
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
	run, histories := rand.Text(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &history{
			prefix:  fmt.Sprintf("compare/%s/%d/", run, histories),
			model:   newWitness(model),
			subject: newWitness(subject),
			latest:  make(map[seat]uint64),
		}
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
	comparedLocks  = []string{"a", "b", "c"}
	comparedAgents = [2]lockagent.AgentID{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"}
)

// history is one random sequence of calls, made to a model and to a subject.
type history struct {
	prefix         string // of the locks of this history
	model, subject *witness
	latest         map[seat]uint64 // the greatest tenure number used
}

// seat is an agent at a lock.
type seat struct {
	lock  string
	agent int
}

// witness is one of the two that are compared.
type witness struct {
	stores [2]lockagent.Store
	tokens map[lockagent.Name]lockagent.Token // the last of each lock
}

func newWitness(stores [2]lockagent.Store) *witness {
	return &witness{stores: stores, tokens: make(map[lockagent.Name]lockagent.Token)}
}

// testimony is the part of a reply in which stores have to agree.
type testimony struct {
	yes    bool // granted, held, released or broken
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
	}
	h.compare(t, fmt.Sprintf("Acquire(%s, %s, %d tokens)", s.lock, tenure, req.Tokens), func(w *witness) testimony {
		reply, err := Acquire(t, w.stores[s.agent], req)
		if reply.Granted {
			if reply.Token <= w.tokens[req.Name] {
				t.Fatalf("the tokens of lock %q do not grow", s.lock)
			}
			w.tokens[req.Name] = reply.Token + lockagent.Token(req.Tokens) - 1
		}
		return testimony{yes: reply.Granted, holder: reply.Holder, err: kind(err)}
	})
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
	req := lockagent.ReleaseRequest{Name: h.name(s), Tenure: tenure}
	h.compare(t, fmt.Sprintf("Release(%s, %s)", s.lock, tenure), func(w *witness) testimony {
		reply, err := Release(t, w.stores[s.agent], req)
		return testimony{yes: reply.Released, err: kind(err)}
	})
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
func (h *history) compare(t *rapid.T, what string, ask func(w *witness) testimony) {
	t.Helper()
	model, subject := ask(h.model), ask(h.subject)
	t.Logf("%s = %+v", what, model)
	if subject != model {
		t.Fatalf("%s: the model answers %+v, the subject %+v", what, model, subject)
	}
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
