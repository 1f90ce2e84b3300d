package audit

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// What an audit forgets of agents whose logs are over changes nothing that it says.
func TestPastAgentsComeBack(t *testing.T) { pastAgentsComeBack(t, 2, 3000) }

// pastAgentsComeBack has agents crash if the seed is even. It resumes the audit from checkpoints with the seeds 2 and 3
// of each four. An agent that crashes with a hold does not come back: the next process may go on with the hold, and an
// audit that has forgotten the hold says less then. See [TestPastAgentComesBackToAHold].
func pastAgentsComeBack(t *testing.T, seed uint64, steps int) {
	t.Helper()
	back := 0
	r := rand.New(rand.NewPCG(seed, 1))
	forgetful, keen := newAudit(), newAudit()
	c := newChurn(func(r events.Record) {
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
	regular := func(n int) churner { return churner{id: lockagent.AgentID(fmt.Sprintf("regular-%d", n))} }
	for i := range regulars {
		regulars[i] = regular(i)
	}
	for n := range steps {
		c.step(500*time.Millisecond, seed%2 == 0)
		if of := &regulars[r.IntN(len(regulars))]; r.IntN(60) == 0 {
			if r.IntN(5) == 0 {
				of.place.Seq++ // a record is missing
			}
			c.start(of)
			lock := lockagent.Name(fmt.Sprintf("regular/%d", n))
			switch r.IntN(3) {
			case 0:
				c.hold(of, lock, lockagent.EventGranted)
				*of = regular(len(regulars) + n)
			case 1:
				c.hold(of, lock, lockagent.EventHeld)
				c.record(of, lockagent.Event{Kind: lockagent.EventAgentStopped})
			}
		}
		if n%400 == 0 {
			now := time.UnixMicro(int64(c.now))
			if a, b := forgetful.ReportAt(now), keen.ReportAt(now); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, at %d\n%v\nof one that keeps everything\n%v", seed, n, a, b)
			}
		}
		if n%900 == 500 && seed%4 >= 2 {
			forgetful = resumed(t, forgetful)
		}
	}
	if len(keen.past.New) > 0 {
		t.Fatal("the audit that should keep everything does not")
	}
	if a, b := forgetful.Report(), keen.Report(); !reflect.DeepEqual(a, b) {
		t.Fatalf("seed %d\n%v\nof one that keeps everything\n%v", seed, a, b)
	}
	if back == 0 {
		t.Error("none came back")
	}
	t.Logf("%d came back", back)
}

// A hold goes on beside the lost end of an agent, for longer than the audit remembers that agent. It is
// over before the agent comes back.
func TestPastAgentComesBackToAHold(t *testing.T) {
	a, b, c := agent("A").of("a"), agent("B").of("b"), agent("C").of("c")
	s := new(tape).add(0, a.granted(1, 0), b, c).live(1000, 21_000, a, b, c).live(31_000, 501_000, a, b) // C crashes
	s.add(502_000, a.renewed(1, 500_000).released(1, 501_000).returned(1, 501_001)).live(511_000, 561_000, a, b)
	auditor := s.read(newAudit())
	if _, found := auditor.past.New["C"]; !found {
		t.Fatal("C is not past")
	}
	now := wall(562_000)
	wantReport(t, auditor.ReportAt(now), Incomplete, "not stopped: 1, unproven: 1",
		"agent C, billing on host-C, pid 7 (epoch 1) did not stop")
	acknowledged := resumed(t, auditor)
	acknowledged.Acknowledge(now, Acknowledgement{})
	s.records = nil
	s.add(562_000, c.alive(562_000).stop(), a.stop(), b.stop())
	wantReport(t, s.read(auditor).Report(), Incomplete, "late: 1, not stopped: 1, unproven: 1", "record 5 of agent C")
	wantReport(t, s.read(acknowledged).Report(), Incomplete, "late: 1", "acknowledged: ")
	r := acknowledged.Report()
	if r.Unproven.Count != 0 || r.Tails.Count != 0 {
		t.Errorf("%d holds are unproven, and %d agents did not stop", r.Unproven.Count, r.Tails.Count)
	}
}

// A violation names the process of an agent that is past.
func TestPastAgentInAViolation(t *testing.T) {
	a, b, c := agent("A").in(lockagent.Shared), agent("B").in(lockagent.Shared), agent("C").in(lockagent.Shared)
	s := new(tape).add(0, a.granted(1, 0), b).live(1000, 11_000, a, b).add(12_000, c.held(1, 11_000, 12_000).stop())
	s.live(21_000, 501_000, a, b)
	b.held(1, 500_000, 501_000).edit(func(r *events.Record) { r.Token = lockagent.Token(clock(10_000)) })
	s.add(502_000, b.stop(), a.renewed(1, 500_000).released(1, 501_000).returned(1, 501_001).stop())
	auditor := s.read(newAudit())
	if _, found := auditor.past.New["C"]; !found {
		t.Fatal("C is not past")
	}
	wantReport(t, auditor.Report(), Violated, "token fell: 1",
		`first:  "owner-C", token 1772373611000000, agent C, billing on host-C`)
}

// An agent that is past had a hold. It comes back, and the hold went on: its grant is forgotten, and
// that is no fault of the agent.
func TestPastAgentTellsOfAForgottenHold(t *testing.T) {
	a, b, c := agent("A").of("a"), agent("B").of("b"), agent("C").of("c")
	s := new(tape).add(0, a, b, c).live(1000, 11_000, a, b, c).add(12_000, c.granted(1, 12_000)).
		live(21_000, 501_000, a, b)
	auditor := s.read(newAudit())
	if _, found := auditor.past.New["C"]; !found {
		t.Fatal("C is not past")
	}
	s.records = nil
	s.add(502_000, c.reentered(1, 13_000).released(1, 14_000).released(1, 15_000).stop()).add(511_000, a.stop(), b.stop())
	wantReport(t, s.read(auditor).Report(), Incomplete, "late: 1, not stopped: 1, open: 1, unproven: 1",
		"the log has a re-entry, but not the grant, which may be among the missing records")
}
