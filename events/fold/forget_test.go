package fold

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/logtest"
)

// A fold that runs for long does not remember all agents that there were, whether they stopped or crashed.
func TestFoldForgetsAgents(t *testing.T) {
	over := 0
	f := New()
	seq := make(map[string]uint64)
	tell := func(ms int, agent string, kind lockagent.EventKind, e lockagent.Event) {
		e.Kind, e.Agent, e.Store, e.StoreTime = kind, lockagent.AgentID(agent), "s", logtest.Clock(ms)
		seq[agent]++
		for _, c := range f.Apply(events.Record{Event: e, Epoch: 1, Seq: seq[agent], Stored: logtest.Wall(ms)}) {
			if c.Kind == HoldForgotten && c.Hold.Superseded {
				over++
			}
		}
	}
	tell(0, "steady", lockagent.EventGranted, lockagent.Event{Lock: "steady", Tenure: 1, Token: 1, Count: 1})
	tell(0, "waits", lockagent.EventQueued, lockagent.Event{Lock: "b", Owner: "ann", Request: 7})
	const many = 5 * fewAgents / 2
	for i := range many {
		ms, agent := 1000*i, fmt.Sprint(i)
		e := lockagent.Event{Lock: lockagent.Name(fmt.Sprint(i / 12)), Tenure: 1, Token: lockagent.Token(2*i + 1)}
		tell(ms, agent, lockagent.EventAgentStarted, lockagent.Event{})
		tell(ms, agent, lockagent.EventHeld, e)
		switch i % 3 {
		case 0:
			tell(ms, agent, lockagent.EventAgentStopped, lockagent.Event{})
		case 1:
			e.Tenure, e.Token, e.Count = 2, e.Token+1, 1
			tell(ms, agent, lockagent.EventGranted, e) // and crashes
		}
		if i%100 == 0 {
			tell(ms, "steady", lockagent.EventAlive, lockagent.Event{})
		}
	}
	_, steadily := f.Agent("steady")
	_, waits := f.Agent("waits")
	if len(f.agents) > fewAgents || !steadily || !waits {
		t.Errorf("it knows %d agents", len(f.agents))
	}
	if len(f.locks) > many/15 || over < many/6 {
		t.Errorf("it knows %d locks, and has told of %d superseded holds", len(f.locks), over)
	}
}

// Signs of life that are not read show nothing of an agent that is silent.
func TestFoldWithoutSignsOfLife(t *testing.T) {
	f := New()
	for i := range fewAgents + 10 {
		r := recordOf(1, lockagent.EventAgentStarted, lockagent.Event{})
		r.Agent, r.Stored = lockagent.AgentID(fmt.Sprint(i)), logtest.Wall(1000*i)
		f.Apply(r)
	}
	if len(f.agents) != fewAgents+10 {
		t.Errorf("it knows %d agents", len(f.agents))
	}
}

// A fold that runs for long forgets leases that are over.
func TestFoldForgetsLeases(t *testing.T) {
	f, last := New(), LockKey{Store: "s"}
	for i := range 10 * mostIdle {
		last.Lock = lockagent.Name(fmt.Sprintf("cron/%d", i))
		e := lockagent.Event{
			Lock: last.Lock, Store: "s", Tenure: uint64(i + 1), Token: lockagent.Token(i + 1), Count: 1,
			StoreTime: logtest.Clock(1000 * i), Lease: 30 * time.Second, Fixed: true,
		}
		f.Apply(recordOf(uint64(2*i+1), lockagent.EventGranted, e))
		e.StoreTime, e.Count, e.Reason, e.Confirmed, e.Until = 0, 0, lockagent.LostClosed, e.StoreTime, e.StoreTime+1000
		f.Apply(recordOf(uint64(2*i+2), lockagent.EventLost, e))
	}
	if len(f.locks) > 2*mostIdle {
		t.Errorf("it knows %d locks", len(f.locks))
	}
	if l, _ := f.Lock(last); len(l.Left) != 1 {
		t.Errorf("%+v", l)
	}
}
