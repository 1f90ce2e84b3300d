package events

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

func TestAuditOfResumedAgents(t *testing.T) {
	verdicts{
		"HoldGoesOn": {
			[]*story{
				agent("A").granted(1, 100, 100).reentered(1, 100).stop(),
				agent("A").in(2).reentered(1, 100).stop(),
				agent("A").in(3).released(1, 100, 260).handedOff(1, 101, 200).released(1, 101, 280).returned(1, 250).stop(),
				agent("B").granted(1, 300, 250).released(1, 300, 310).stop(),
			},
			Proven, nil,
		},
		"OverlapAfterIt": {
			[]*story{
				agent("A").granted(1, 100, 100).stop(),
				agent("A").in(2).released(1, 100, 260).returned(1, 251).stop(),
				agent("B").granted(1, 300, 250).released(1, 300, 310).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 300 (agent B, epoch 1, event 1, tenure 1, from 250 us, until 310 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 251 us, released)`,
			},
		},
		"HandedOffTooEarly": {
			[]*story{
				agent("A").granted(1, 100, 100).stop(),
				agent("A").in(2).handedOff(1, 101, 200).released(1, 100, 260).released(1, 101, 280).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 101 (agent A, epoch 2, event 1, tenure 1, from 100 us, until 280 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 260 us, released)`,
			},
		},
		"NeverEnded": {
			[]*story{
				agent("A").granted(1, 100, 100).stop(),
				agent("A").in(2).handedOff(1, 101, 200).released(1, 101, 280).stop(),
			},
			Violated,
			[]string{
				`violation: "a": token 101 (agent A, epoch 2, event 1, tenure 1, from 100 us, until 280 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us)`,
			},
		},
		"EndInTheLostTail": {
			[]*story{
				agent("A").granted(1, 100, 100),
				agent("A").in(2).handedOff(1, 101, 200).released(1, 101, 280).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us): the log does not have its end`,
				"not stopped: agent A, epoch 1: last event 1",
			},
		},
		"ReturnIsYetToCome": {
			[]*story{
				agent("A").granted(1, 100, 100).stop(),
				agent("A").in(2).released(1, 100, 260),
				agent("B").granted(1, 300, 250).released(1, 300, 310).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 260 us, released): token 300 was granted at 250 us, and what could tell that it had ended by then may be missing`,
				"not stopped: agent A, epoch 2: last event 1",
			},
		},
		"GrantInTheLostTail": {
			[]*story{agent("A").in(2).reentered(1, 100).released(1, 100, 260).stop()},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 2, event 1, tenure 1): the log has a re-entry, but not its grant, which may be of an earlier epoch`,
				`unproven: "a": token 100 (agent A, epoch 2, event 2, tenure 1, released): the log has its end, but not its grant`,
			},
		},
		"TenureBeganTwice": {
			[]*story{
				agent("A").granted(1, 100, 100).released(1, 100, 120).stop(),
				agent("A").in(2).granted(1, 200, 200).released(1, 200, 220).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 120 us, released): its tenure began more than once`,
				`unproven: "a": token 200 (agent A, epoch 2, event 1, tenure 1, from 100 us, until 220 us, released): its tenure began more than once`,
			},
		},
	}.check(t)
}

// A legal history is one also if an agent detaches somewhere in between, and another
// process goes on.
func TestResumedHistoriesAreProven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, _ := drawHistory(t)
		i := slices.IndexFunc(h.logs, func(log []Record) bool { return log[0].Agent == "B" })
		first := h.logs[i]
		cut := rapid.IntRange(1, len(first)-1).Draw(t, "cut")
		next := []Record{{Event: lockagent.Event{Kind: lockagent.EventAgentStarted, Agent: "B"}, Epoch: 2, Seq: 1}}
		for _, r := range first[cut:] {
			r.Epoch, r.Seq = 2, uint64(len(next))+1
			next = append(next, r)
		}
		stopped := Record{Event: lockagent.Event{Kind: lockagent.EventAgentStopped, Agent: "B"}, Epoch: 1, Seq: uint64(cut) + 1}
		h.logs[i] = append(slices.Clone(first[:cut]), stopped)
		h.logs = append(h.logs, next)
		if report := audited(h.arrival(t)); report.Verdict != Proven || len(report.Explained) > 0 || len(report.OpenHolds) > 0 || len(report.OpenEnds) > 0 {
			t.Fatalf("%v", report)
		}
	})
}
