package memstore

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// DefaultBound bounds the time of each call to a Store that hangs.
const DefaultBound = 5 * time.Second

// fault is what keeps one Store from the memory. memory.mu guards it. The zero fault is none.
type fault struct {
	outage error
	hangs  bool
	bound  time.Duration // of a call; DefaultBound if 0
	calls  []*hanging
	missed *lockagent.Reset
}

// SetOutage makes the store unavailable to this agent, like a server that cannot be reached.
// Each call has no effect and fails at once. Its error is err and also
// [lockagent.ErrStoreUnavailable]. To other agents, this one neither listens nor waits any
// more. Leases go on.
//
// SetOutage(nil) ends the outage. The agent is woken, gets a [lockagent.MessagesMissed], and
// hears of a reset if there was one. It is for tests.
func (s *Store) SetOutage(err error) {
	if err != nil && !errors.Is(err, lockagent.ErrStoreUnavailable) {
		err = fmt.Errorf("%w: %w", lockagent.ErrStoreUnavailable, err)
	}
	s.changeFault(func(f *fault) []*hanging {
		f.outage = err
		return nil
	})
}

// Hang keeps all answers and messages from this agent, like a server that is stopped or a network
// that drops everything. A call gets no answer until resume is called. If the bound of the Store
// passes before that, its error is [lockagent.ErrStoreUnavailable]. Other agents do not notice:
// a release may pass a lock to this one.
//
// resume makes all calls take effect in their order, also those that failed: they are late calls.
// Then the agent is woken and told as after an outage. resume may be called more than once. Close
// ends the calls, and they have no effect then. Hang is for tests.
func (s *Store) Hang() (resume func()) {
	s.changeFault(func(f *fault) []*hanging {
		f.hangs = true
		return nil
	})
	return func() { s.changeFault((*fault).take) }
}

// SetBound bounds the time of each later call, if the Store hangs. 0 stands for [DefaultBound].
// It is for tests.
func (s *Store) SetBound(d time.Duration) {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.fault.bound = d
}

// changeFault changes the fault, and makes the calls that change returns. If there is no fault
// any more, the agent is told what it missed.
func (s *Store) changeFault(change func(*fault) []*hanging) {
	m := s.memory
	m.mu.Lock()
	before := s.fault.hears()
	calls := change(&s.fault)
	var missed visit
	var reset *lockagent.Reset
	var hooks []*resetHook
	if s.fault.hears() && !before {
		missed, hooks = m.allOf(s)
		reset, s.fault.missed = s.fault.missed, nil
	}
	m.mu.Unlock()
	for _, c := range calls {
		c.arrive()
	}
	missed.tell()
	if reset != nil {
		for _, hook := range hooks {
			hook.call(*reset)
		}
	}
}

// allOf returns the functions that a Store calls after an interruption.
func (m *memory) allOf(s *Store) (visit, []*resetHook) {
	var v visit
	for _, subs := range m.subscriptions {
		for _, sub := range subs {
			if sub.store == s {
				v.woken = append(v.woken, sub)
			}
		}
	}
	for _, listeners := range m.listeners {
		for _, l := range listeners {
			if l.store == s {
				v.begin(m, l)
			}
		}
	}
	hooks := slices.DeleteFunc(slices.Clone(m.hooks), func(hook *resetHook) bool { return hook.store != s })
	return v, hooks
}

// hears reports whether messages reach the agent.
func (f *fault) hears() bool { return f.outage == nil && !f.hangs }

// misses reports whether a reset does not reach the agent. The agent hears of the reset later.
func (f *fault) misses(reset lockagent.Reset) bool {
	if f.hears() {
		return false
	}
	if f.missed != nil {
		reset.From, reset.After, reset.Step = f.missed.From, f.missed.After, f.missed.Step+reset.Step
	}
	f.missed = &reset
	return true
}

// take ends the hang and returns the calls that hang. Their bounds do not count any more.
func (f *fault) take() []*hanging {
	calls := f.calls
	f.hangs, f.calls = false, nil
	for _, c := range calls {
		c.overdue.Stop()
	}
	return calls
}

// hanging is a call of a Store that hangs.
type hanging struct {
	arrive  func()      // makes the call
	fail    func(error) // answers the call
	overdue *time.Timer
}

// hang makes a call that fails when its bound has passed, unless it arrives before.
func hang[Q request, R any](s *Store, req Q, do func(*memory, *visit, Q) (R, error), done func(R, error)) *hanging {
	var answered atomic.Bool
	answer := func(reply R, err error) {
		if !answered.Swap(true) {
			done(reply, err)
		}
	}
	h := &hanging{
		arrive: func() {
			s.memory.mu.Lock()
			perform(s, req, do, answer)
		},
		fail: func(err error) {
			var none R
			answer(none, err)
		},
	}
	bound := s.fault.bound
	if bound == 0 {
		bound = DefaultBound
	}
	h.overdue = time.AfterFunc(bound, func() {
		h.fail(fmt.Errorf("%w: no answer within %v", lockagent.ErrStoreUnavailable, bound))
	})
	return h
}
