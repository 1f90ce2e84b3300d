package webui

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The list of events tells how long a grace period took, and whether all came back.
func TestGraceInTheListOfEvents(t *testing.T) {
	const second = lockagent.StoreTime(time.Second / time.Microsecond)
	for _, test := range []struct {
		kind         lockagent.EventKind
		roll         []lockagent.AgentID
		more         int
		detail, tone string
	}{
		{lockagent.EventGraceBegan, []lockagent.AgentID{"a", "b"}, 3, "emptied · waits for 5", "warn"},
		{lockagent.EventGraceEnded, nil, 0, "emptied · took 30.0 s, all came back", ""},
		{lockagent.EventGraceEnded, []lockagent.AgentID{"a"}, 1, "emptied · took 30.0 s, 2 did not come back", ""},
	} {
		r := events.Record{Event: lockagent.Event{Kind: test.kind, Grace: &lockagent.GracePeriod{
			Incarnation: "y", Reason: "emptied", Began: second, Ended: 31 * second, Roll: test.roll, More: test.more,
		}}}
		if row := rowOf(&r); row.Detail != test.detail || row.Tone != test.tone {
			t.Errorf("%v: %q with the tone %q, want %q with %q", test.kind, row.Detail, row.Tone, test.detail, test.tone)
		}
	}
	if row := rowOf(&events.Record{Event: lockagent.Event{Kind: lockagent.EventGraceEnded}}); row.Detail != "" {
		t.Errorf("without a period it says %q", row.Detail)
	}
}
