package events

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// What an audit forgets of agents whose logs are over changes nothing that it says.
func TestPastAgentsComeBack(t *testing.T) {
	back := 0
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		forgetful, keen := NewAudit(), NewAudit()
		c := newChurn(func(r Record) {
			if _, past := forgetful.past.New[r.Agent]; past {
				back++
			}
			forgetful.Add(r)
			keen.Add(r)
			if l := keen.logs[r.Agent]; l.spans < 1<<20 {
				l.spans += 1 << 20 // so it is kept
			}
		})
		var regulars [20]churner
		for i := range regulars {
			regulars[i].id = lockagent.AgentID(fmt.Sprintf("regular-%d", i))
		}
		for n := range 4000 {
			c.step(500*time.Millisecond, false)
			if of := &regulars[r.IntN(len(regulars))]; r.IntN(60) == 0 {
				if r.IntN(5) == 0 {
					of.place.Seq++ // a record is missing
				}
				c.start(of)
				lock := lockagent.Name(fmt.Sprintf("regular/%d", n))
				switch r.IntN(3) {
				case 0:
					c.hold(of, lock, lockagent.EventGranted)
				case 1:
					c.hold(of, lock, lockagent.EventHeld)
					c.record(of, lockagent.Event{Kind: lockagent.EventAgentStopped})
				}
			}
			if n%400 == 0 {
				now := time.UnixMicro(int64(c.now))
				if a, b := forgetful.ReportAt(now), keen.ReportAt(now); a.Verdict != b.Verdict || !slices.Equal(findingsOf(a), findingsOf(b)) {
					t.Fatalf("seed %d, at %d\n%v\nof one that keeps everything\n%v", seed, n, a, b)
				}
			}
			if n%900 == 500 && seed%2 == 1 {
				forgetful = resumed(t, forgetful)
			}
		}
		if len(keen.past.New) > 0 {
			t.Fatal("the audit that should keep everything does not")
		}
		if a, b := forgetful.Report(), keen.Report(); a.Verdict != b.Verdict || !slices.Equal(findingsOf(a), findingsOf(b)) {
			t.Fatalf("seed %d\n%v\nof one that keeps everything\n%v", seed, a, b)
		}
	}
	if back == 0 {
		t.Error("none came back")
	}
	t.Logf("%d came back", back)
}
