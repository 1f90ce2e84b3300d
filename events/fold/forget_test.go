package fold

import (
	"fmt"
	"slices"
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

// Whoever says so has a fold forget the agents that are silent, with all that they hold and wait for. Those that are
// heard of keep theirs, and so does one that comes back.
func TestFoldForgetsTheSilent(t *testing.T) {
	f := New()
	seq := uint64(0)
	tell := func(ms int, agent lockagent.AgentID, store string, kind lockagent.EventKind, lock lockagent.Name) {
		seq++
		f.Apply(events.Record{
			Event: lockagent.Event{
				Kind: kind, Agent: agent, Store: store, Lock: lock, Tenure: 1, Token: lockagent.Token(seq), Request: seq,
			},
			Epoch: 1, Seq: seq, Stored: logtest.Wall(ms),
		})
	}
	for i, agent := range []lockagent.AgentID{"silent", "heard"} {
		tell(1000*i, agent, "b", lockagent.EventGranted, lockagent.Name("held by "+agent))
		tell(0, agent, "b", lockagent.EventQueued, lockagent.Name("wanted by "+agent))
		tell(0, agent, "b", lockagent.EventQueued, "wanted by both")
	}
	tell(1000, "heard", "b", lockagent.EventAlive, "")
	f.ForgetSilent(logtest.Wall(1000))
	reset := lockagent.Event{Kind: lockagent.EventStoreReset, Agent: "heard", Store: "a"}
	reset.Reset.Store = "b"
	f.Apply(events.Record{Event: reset, Epoch: 1, Seq: 100, Stored: logtest.Wall(2000)}) // moves all locks to the store a
	has := func() (all []string) {
		for l := range f.Locks() {
			all = append(all, fmt.Sprintf("%s: %d, %d", l.Lock, len(l.Holders), len(l.Waiters)))
		}
		slices.Sort(all)
		return all
	}
	want := []string{"held by heard: 1, 0", "wanted by both: 0, 1", "wanted by heard: 0, 1"}
	if got := has(); !slices.Equal(got, want) {
		t.Errorf("it knows %q, want %q", got, want)
	}
	if _, ok := f.Agent("silent"); ok {
		t.Error("it knows the agent")
	}
	tell(3000, "silent", "a", lockagent.EventHolding, "held by silent")
	if got := has(); len(got) != 4 {
		t.Errorf("it knows %q", got)
	}
}

// An agent that lives tells again of a hold that goes on. If it does not, the log lacks the end of the hold. A fold
// that goes on with a snapshot knows as well when a hold was told of.
func TestFoldForgetsHoldsThatAreNotToldAgain(t *testing.T) {
	f := New()
	seq := uint64(0)
	tell := func(ms int, kind lockagent.EventKind, lock lockagent.Name) {
		seq++
		f.Apply(events.Record{
			Event: lockagent.Event{Kind: kind, Agent: "A", Store: "s", Lock: lock, Tenure: 1, Token: 1, Count: 1},
			Epoch: 1, Seq: seq, Stored: logtest.Wall(ms),
		})
	}
	tell(0, lockagent.EventGranted, "over")
	tell(0, lockagent.EventGranted, "goes on")
	tell(1000, lockagent.EventHolding, "goes on")
	tell(1000, lockagent.EventHolding, "without a grant")
	tell(2000, lockagent.EventGranted, "new")
	tell(3000, lockagent.EventAlive, "")
	snapshot, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	resumed, err := Resume(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Fold{"itself": f, "resumed": resumed} {
		for since, want := range map[int][]lockagent.Name{
			0:    {"goes on", "new", "over", "without a grant"},
			1000: {"goes on", "new", "without a grant"},
			2000: {"new"},
		} {
			c := f.Clone()
			c.ForgetSilent(logtest.Wall(since))
			var got []lockagent.Name
			for l := range c.Locks() {
				if len(l.Holders) > 0 {
					got = append(got, l.Lock)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: of what was told since %d ms it knows %q, want %q", name, since, got, want)
			}
		}
	}
}
