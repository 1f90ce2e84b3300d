package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The fold keeps who has a lock, who waits, and for whom. The report and its JSON say it.
func TestFoldTellsWho(t *testing.T) {
	daemon := lockagent.Process{Host: "db3", Program: "lockagent", PID: 1}
	backup := lockagent.Process{Host: "db3", Program: "backup.sh", PID: 4711, User: "root", Command: "backup.sh --full"}
	folded := New()
	for i, e := range []lockagent.Event{
		{Kind: lockagent.EventAgentStarted, Process: daemon},
		{
			Kind: lockagent.EventGranted, Lock: "a", Owner: "0/KK5FN", Request: 1, Tenure: 1, Token: 1, Count: 1,
			Who: backup.Who(),
		},
		{Kind: lockagent.EventQueued, Lock: "a", Owner: "d/2", Request: 2, Holder: "0/KK5FN", Who: daemon.Who()},
	} {
		e.Agent = "d"
		folded.Apply(events.Record{Event: e, Epoch: 1, Seq: uint64(i) + 1})
	}
	for l := range folded.Locks() {
		h, w := l.Holders[0], l.Waiters[0]
		if h.Who.Process() != backup || w.Who.Process() != daemon || w.Behind.Who != h.Who {
			t.Errorf("got %+v, %+v, %+v", h, w, w.Behind)
		}
		if got, want := h.Holder(), "backup.sh (pid 4711, root@db3), token 1, agent d, lockagent on db3, pid 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		const want = "backup.sh (pid 4711, root@db3) of agent d, lockagent on db3, pid 1"
		if got := fmt.Sprint(w.Behind); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := WhoText(w.Who, w.Owner, w.Agent, h.Process), "/2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		text, err := json.Marshal(&l)
		var back LockState
		if err != nil || json.Unmarshal(text, &back) != nil || back.Holders[0].Who != h.Who || back.Waiters[0].Who != w.Who ||
			back.Waiters[0].Behind.Who != h.Who {
			t.Errorf("%s, %v: %+v", text, err, back)
		}
		const inJSON = `"who":{"host":"db3","program":"backup.sh","pid":4711,"user":"root","command":"backup.sh --full"}`
		if !bytes.Contains(text, []byte(inJSON)) {
			t.Errorf("%s does not have %s", text, inJSON)
		}
		h.Who = Who{}
		if text, err := json.Marshal(&h); err != nil || bytes.Contains(text, []byte(`"who"`)) {
			t.Errorf("%s, %v", text, err)
		}
	}
}
