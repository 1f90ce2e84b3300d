package projection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

func TestKey(t *testing.T) {
	for name, want := range map[lockagent.Name]string{
		"orders/42": "orders.42", "a b": "a=20b", "a.b": "a=2Eb", "/a//": "=.a.=.=", "_kv": "_kv", "ü": "=C3=BC",
		lockagent.Name(strings.Repeat("ü", 100)): "=-.",
	} {
		if got := Key(name); !strings.HasPrefix(got, want) || len(want) > 3 && got != want {
			t.Errorf("%q has the key %q, want %q", name, got, want)
		}
	}
}

// The value says who asked, if the agent did so for another process.
func TestHolderSaysWho(t *testing.T) {
	agent := lockagent.Process{Host: "web-1", Program: "lockagent", PID: 7}
	for asked, want := range map[lockagent.Process]string{
		{}: "", agent: "",
		{Host: "web-1", Program: "flock", PID: 812}: `"who":{"host":"web-1","program":"flock","pid":812}`,
	} {
		h := fold.Hold{Process: fold.Process(agent), Who: fold.Who{Who: asked.Who()}}
		text, err := json.Marshal(holderOf(&h, time.Time{}, time.Now()))
		if err != nil || strings.Contains(string(text), `"who"`) != (want != "") || !strings.Contains(string(text), want) {
			t.Errorf("%+v: %s, %v", asked, text, err)
		}
	}
}

// The value says of an agent that is silent since when, and when the lease of its hold ends.
func TestSilentHolder(t *testing.T) {
	began := time.Date(2026, 11, 21, 14, 3, 0, 0, time.UTC)
	p := &Projector{
		fold: fold.New(), locks: make(map[lockagent.Name]map[fold.LockKey]bool), dirty: make(map[lockagent.Name]bool),
		silent: make(map[lockagent.AgentID]bool),
	}
	seq := uint64(0)
	says := func(e lockagent.Event) {
		t.Helper()
		seq++
		e.Agent, e.Store = "A", "s"
		if err := p.visit(&events.Record{Event: e, Epoch: 1, Seq: seq, Position: seq}, nil); err != nil {
			t.Fatal(err)
		}
	}
	holder := func(now time.Time) (h Holder, known bool) {
		t.Helper()
		if !p.dirty["a"] {
			return h, false
		}
		text, err := p.value("a", now)
		var v Value
		if err != nil || json.Unmarshal(text, &v) != nil || v.Count != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		clear(p.dirty)
		return v.Holders[0], true
	}
	says(lockagent.Event{
		Kind: lockagent.EventGranted, Lock: "a", Token: 1, Time: began, StoreTime: lockagent.StoreTime(began.UnixMicro()),
		Lease: time.Minute, How: lockagent.ByStore,
	})
	if h, known := holder(began); !known || !h.Silent.IsZero() || !h.LeaseEnd.IsZero() {
		t.Errorf("at first %+v, %v", h, known)
	}
	p.lookForSilence(began.Add(silence))
	if h, known := holder(began); known {
		t.Errorf("before it is silent for long %+v", h)
	}
	late := began.Add(silence + time.Second)
	p.lookForSilence(late)
	if h, known := holder(late); !known || !h.Silent.Equal(began) || !h.LeaseEnd.Equal(began.Add(time.Minute)) {
		t.Errorf("when it is silent %+v, %v", h, known)
	}
	p.lookForSilence(late)
	if h, known := holder(late); known {
		t.Errorf("when it stays silent %+v", h)
	}
	says(lockagent.Event{Kind: lockagent.EventAlive, Time: late})
	p.lookForSilence(late)
	if h, known := holder(late); !known || !h.Silent.IsZero() || !h.LeaseEnd.IsZero() {
		t.Errorf("when it speaks again %+v, %v", h, known)
	}
	says(lockagent.Event{Kind: lockagent.EventAgentStopped, Time: late})
	if h, known := holder(late); !known || !h.Gone || h.LeaseEnd.IsZero() {
		t.Errorf("when it is gone %+v, %v", h, known)
	}
}

// A value has a bound.
func TestManyHolders(t *testing.T) {
	var holders []Holder
	for i := range 1000 {
		holders = append(holders, Holder{Token: lockagent.Token(1000 - i), Owner: lockagent.Owner(fmt.Sprint(i))})
	}
	text, err := valueOf("a", holders)
	var v Value
	if err != nil || json.Unmarshal(text, &v) != nil || v.Count != 1000 || len(v.Holders) != MaxHolders ||
		v.Holders[0].Token != 1 {
		t.Errorf("%v: %.100s", err, text)
	}
}
