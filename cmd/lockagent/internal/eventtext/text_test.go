package eventtext

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

func TestEventText(t *testing.T) {
	agent := lockagent.AgentID("470d6805-ae6d-4d11-9cd2-eb57ba61b13c")
	now := time.Date(2026, 11, 21, 3, 4, 6, 0, time.Local)
	at := now.Add(-321099 * time.Microsecond)
	for _, test := range []struct {
		event lockagent.Event
		want  string
	}{
		{
			lockagent.Event{
				Kind: lockagent.EventGranted, Lock: "orders/42", Owner: lockagent.Owner(agent) + "/7", Token: 123,
				How: lockagent.ByHandOff, Waited: 3400 * time.Microsecond,
			},
			"granted       orders/42  token 123  by handoff  owner /7  waited 3.4ms",
		},
		{
			lockagent.Event{
				Kind: lockagent.EventLost, Lock: "orders/42", Owner: "joe", Token: 123, Held: time.Second,
				Reason: lockagent.LostDeadline,
			},
			`lost          orders/42  token 123  owner "joe"  held 1s  reason deadline`,
		},
		{
			lockagent.Event{
				Kind: lockagent.EventUncertain, Lock: "orders/42", Owner: "joe", Remaining: time.Second,
				Err: "no answer",
			},
			`uncertain     orders/42  owner "joe"  trusted for 1s  error "no answer"`,
		},
		{
			lockagent.Event{Kind: lockagent.EventQueued, Lock: "orders/42", Waiters: 3},
			"queued        orders/42  3 waiting",
		},
		{
			lockagent.Event{Kind: lockagent.EventQueued, Lock: "orders/42", Holder: "1e3d6805-ae6d-4d11-9cd2-eb57ba61b13c:77"},
			"queued        orders/42  behind agent 1e3d6805",
		},
		{
			lockagent.Event{Kind: lockagent.EventQueued, Lock: "orders/42", Holder: string(agent) + "/5"},
			"queued        orders/42  behind /5",
		},
		{
			lockagent.Event{Kind: lockagent.EventStoreReset, Reset: lockagent.Reset{From: "a", To: "b", Reason: "emptied"}},
			"storereset    emptied, from a to b",
		},
		{
			lockagent.Event{
				Kind:  lockagent.EventGraceBegan,
				Grace: &lockagent.GracePeriod{Incarnation: "b", Reason: "emptied", Roll: []lockagent.AgentID{"x", "y"}, More: 7},
			},
			"gracebegan    emptied, of b  for 9 agents",
		},
		{
			lockagent.Event{
				Kind:  lockagent.EventGraceEnded,
				Grace: &lockagent.GracePeriod{Incarnation: "b", Reason: "emptied", Began: 1_000_000, Ended: 1_340_000},
			},
			"graceended    emptied, of b  after 340ms  all came back",
		},
		{
			lockagent.Event{Kind: lockagent.EventGraceEnded, Grace: &lockagent.GracePeriod{
				Incarnation: "b", Reason: "emptied", Began: 1_000_000, Ended: 31_000_000, Roll: []lockagent.AgentID{agent, "y"},
			}},
			"graceended    emptied, of b  after 30s  without 470d6805, y",
		},
		{
			lockagent.Event{Kind: lockagent.EventGraceEnded, Grace: &lockagent.GracePeriod{
				Incarnation: "b", Reason: "emptied", Began: 1_000_000, Ended: 31_000_000, Roll: []lockagent.AgentID{"x"}, More: 1,
			}},
			"graceended    emptied, of b  after 30s  without 2 agents",
		},
		{lockagent.Event{Kind: lockagent.EventGraceEnded}, "graceended  "},
		{
			lockagent.Event{
				Kind: lockagent.EventPermits, Lock: "printers", Op: lockagent.ReleasePermit, Permits: 1,
				Total: 5, Permit: "0af7651916cd",
			},
			"permits       printers  release  1 permit  of 5  id 0af7651916cd",
		},
		{
			lockagent.Event{Kind: lockagent.EventRenewed, Lock: "orders/42", Replicas: 2},
			"renewed       orders/42  on 2 replicas",
		},
		{lockagent.Event{Kind: lockagent.EventAgentStarted}, "agentstarted  agent " + string(agent)},
	} {
		test.event.Agent, test.event.Time = agent, at
		want := "03:04:05.678Z  470d6805 #9       " + test.want
		r := events.Record{Event: test.event, Seq: 9}
		if got := eventText(&r, fold.Process{}, holderText(&r), now); got != want {
			t.Errorf("the line is\n%q, want\n%q", got, want)
		}
	}
}
