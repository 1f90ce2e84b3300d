package logtest

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// Script is a log that a test makes up.
type Script struct {
	T    *testing.T
	Text strings.Builder
	Seq  map[lockagent.AgentID]uint64
	life map[lockagent.AgentID]uint64 // epoch, less one
}

// Restart begins another life of an agent.
func (s *Script) Restart(agent lockagent.AgentID, at time.Time) {
	s.T.Helper()
	if s.life == nil {
		s.life = make(map[lockagent.AgentID]uint64)
	}
	s.life[agent]++
	s.Seq[agent] = 0
	s.Add(agent, at, lockagent.Event{
		Kind: lockagent.EventAgentStarted, Process: lockagent.Process{Host: "again", PID: 8},
	})
}

// Add adds an event that an agent recorded.
func (s *Script) Add(agent lockagent.AgentID, at time.Time, e lockagent.Event) {
	s.T.Helper()
	if s.Seq == nil {
		s.Seq = make(map[lockagent.AgentID]uint64)
	}
	s.Seq[agent]++
	e.Agent, e.Time, e.Store = agent, at, "1"
	if e.Lock != "" {
		e.LockKind, e.Mode = lockagent.PlainLock, lockagent.Exclusive
	}
	r := events.Record{Event: e, Epoch: s.life[agent] + 1, Seq: s.Seq[agent]}
	if err := events.WriteLine(&s.Text, r); err != nil {
		s.T.Fatal(err)
	}
}

// LossOf is the log of a lock that an agent loses, and that another one gets, which has waited. The
// loss is five seconds after from. A third request gives up, and a second lock stays held.
func LossOf(t *testing.T, from time.Time) string {
	s := &Script{T: t}
	at := func(seconds float64) time.Time { return from.Add(time.Duration(seconds * float64(time.Second))) }
	store := func(seconds float64) lockagent.StoreTime { return lockagent.StoreTime(at(seconds).UnixMicro()) }
	const lock = "orders/42"
	s.Add("a", at(0), lockagent.Event{
		Kind:    lockagent.EventAgentStarted,
		Process: lockagent.Process{Host: "web-1", Program: "shop", PID: 812},
	})
	s.Add("b", at(0), lockagent.Event{
		Kind:    lockagent.EventAgentStarted,
		Process: lockagent.Process{Host: "web-2", Program: "shop", PID: 77},
	})
	s.Add("a", at(1), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Owner: "joe", Request: 1, Tenure: 1, Token: 100,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(1),
	})
	for request, owner := range []lockagent.Owner{"b/7", "sue"} {
		s.Add("b", at(2), lockagent.Event{
			Kind: lockagent.EventQueued, Lock: lock, Owner: owner, Request: uint64(request + 1), Waiters: request + 1,
			Holder: "a:1",
		})
	}
	s.Add("a", at(5), lockagent.Event{
		Kind: lockagent.EventLost, Lock: lock, Owner: "joe", Request: 1, Tenure: 1, Token: 100, Held: 4 * time.Second,
		Reason: lockagent.LostDeadline, Lease: 4 * time.Second, Confirmed: store(1), Until: store(5),
	})
	s.Add("b", at(5.5), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: lock, Owner: "b/7", Request: 1, Tenure: 1, Token: 200,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(5.5), Waited: 3500 * time.Millisecond,
	})
	s.Add("b", at(6), lockagent.Event{
		Kind: lockagent.EventTimedOut, Lock: lock, Owner: "sue", Request: 2, Waited: 4 * time.Second,
	})
	s.Add("b", at(7), lockagent.Event{
		Kind: lockagent.EventReleased, Lock: lock, Owner: "b/7", Request: 1, Tenure: 1, Token: 200,
		Held:  1500 * time.Millisecond,
		Lease: 4 * time.Second, Confirmed: store(5.5), Until: store(7),
	})
	s.Add("b", at(8), lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "orders/43", Owner: "b/8", Request: 3, Tenure: 2, Token: 300,
		How:   lockagent.ByStore,
		Count: 1, Lease: 4 * time.Second, StoreTime: store(8),
	})
	s.Add("a", at(9), lockagent.Event{
		Kind: lockagent.EventQueued, Lock: "orders/43", Owner: "joe", Request: 2, Waiters: 1, Holder: "b:2",
	})
	return s.Text.String()
}

// Begun is when the log of these tests begins, and later when it is looked at.
var (
	Begun = time.Date(2026, 11, 21, 14, 3, 0, 0, time.Local)
	Later = Begun.Add(time.Hour)
)

// Overlapping is a log in which two agents held a lock at the same time.
func Overlapping(t *testing.T, at time.Time) string {
	s := &Script{T: t}
	for i, agent := range []lockagent.AgentID{"a", "b"} {
		from := at.Add(time.Duration(i) * time.Second)
		until := from.Add(4 * time.Second)
		began, ended := lockagent.StoreTime(from.UnixMicro()), lockagent.StoreTime(until.UnixMicro())
		hold := lockagent.Event{
			Lock: "orders/42", Owner: "me", Request: 1, Tenure: 1, Token: lockagent.Token(began),
			Lease: 10 * time.Second,
		}
		granted, released := hold, hold
		granted.Kind, granted.How, granted.Count, granted.StoreTime = lockagent.EventGranted, lockagent.ByStore, 1, began
		released.Kind, released.Held = lockagent.EventReleased, 4*time.Second
		released.Confirmed, released.Until = began, ended
		s.Add(agent, from, lockagent.Event{Kind: lockagent.EventAgentStarted})
		s.Add(agent, from, granted)
		s.Add(agent, until, released)
		s.Add(agent, until, lockagent.Event{Kind: lockagent.EventAgentStopped})
	}
	return s.Text.String()
}
