package events

import (
	"testing"

	"github.com/lockagent/lockagent"
)

func TestAuditOfResets(t *testing.T) {
	reset := lockagent.Reset{From: "x", To: "y", Reason: "emptied", After: 110, Before: 140}
	verdicts{
		"ManyResets": {
			[]*story{agent("A").reset(lockagent.Reset{From: "y", To: "z", Reason: "restarted", After: 300, Before: 310}).reset(reset).reset(reset).stop()},
			Proven,
			[]string{
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
				`reset: the store was reset (restarted) from "y" to "z" between 300 and 310 us`,
			},
		},
		"GrantedBeforeTheResetWasNoticed": {
			[]*story{
				agent("A").on("x").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").on("x").reset(lockagent.Reset{From: "x", To: "y", Reason: "restarted", After: 110, Before: 155}).granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 200 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied)): the store was reset (restarted) from "x" to "y" between 110 and 155 us`,
				`reset: the store was reset (restarted) from "x" to "y" between 110 and 155 us`,
			},
		},
		"SwitchedAtDifferentTimes": { // B when A was yet to be granted the lock, and A when B had it
			[]*story{
				agent("A").on("x").granted(1, 100, 100).reset(lockagent.Reset{From: "x", To: "y", Reason: "failed over", After: 185, Before: 195}).
					lost(lockagent.LostDenied, 1, 100, 200).stop(),
				agent("B").reset(lockagent.Reset{From: "x", To: "y", Reason: "failed over", After: 80, Before: 95}).on("y").granted(1, 150, 150).released(1, 150, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 150 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 200 us, lost (denied)): the store was reset (failed over) from "x" to "y" between 80 and 95 us`,
				`reset: the store was reset (failed over) from "x" to "y" between 80 and 95 us`,
				`reset: the store was reset (failed over) from "x" to "y" between 185 and 195 us`,
			},
		},
		"TheOldMasterThaws": { // the newer hold is that of the older incarnation
			[]*story{
				agent("A").reset(lockagent.Reset{From: "x", To: "y", After: 80, Before: 95}).on("y").granted(1, 100, 100).released(1, 100, 160).returned(1, 200).stop(),
				agent("B").on("x").granted(1, 150, 150).lost(lockagent.LostDenied, 1, 150, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 150 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, lost (denied)) began before the end of token 100 (agent A, epoch 1, event 2, tenure 1, from 100 us, until 160 us, released): the store was reset () from "x" to "y" between 80 and 95 us`,
				`reset: the store was reset () from "x" to "y" between 80 and 95 us`,
			},
		},
		"TwoResetsBetween": {
			[]*story{
				agent("A").on("x").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 200).stop(),
				agent("B").reset(reset).on("z").granted(1, 150, 150).released(1, 150, 220).stop(),
				agent("C").reset(lockagent.Reset{From: "y", To: "z", Reason: "restarted", After: 300, Before: 310}).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 150 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 200 us, lost (denied)): the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
				`reset: the store was reset (restarted) from "y" to "z" between 300 and 310 us`,
			},
		},
		"SwitchedAtDifferentTimesWithoutNames": { // as in a Cluster
			[]*story{
				agent("A").granted(1, 100, 100).reset(lockagent.Reset{From: "x", To: "y", After: 185, Before: 195}).lost(lockagent.LostDenied, 1, 100, 200).stop(),
				agent("B").reset(lockagent.Reset{From: "x", To: "y", After: 80, Before: 95}).granted(1, 150, 150).released(1, 150, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 150 (agent B, epoch 1, event 2, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 200 us, lost (denied)): the store was reset () from "x" to "y" between 80 and 95 us`,
				`reset: the store was reset () from "x" to "y" between 80 and 95 us`,
				`reset: the store was reset () from "x" to "y" between 185 and 195 us`,
			},
		},
		"WithinOneIncarnation": { // there were resets before and after, and one agent noticed one late
			[]*story{
				agent("A").reset(lockagent.Reset{From: "y", To: "x", After: 10, Before: 20}).on("y").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 200).stop(),
				agent("B").on("y").granted(1, 150, 150).released(1, 150, 220).reset(lockagent.Reset{From: "y", To: "z", After: 250, Before: 260}).stop(),
				agent("C").reset(lockagent.Reset{From: "y", To: "z", After: 10, Before: 900}).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 150 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 2, tenure 1, from 100 us, until 200 us, lost (denied))`,
				`reset: the store was reset () from "y" to "x" between 10 and 20 us`,
				`reset: the store was reset () from "y" to "z" between 10 and 900 us`,
				`reset: the store was reset () from "y" to "z" between 250 and 260 us`,
			},
		},
		"WithinTheIncarnationThatConfirmedBoth": { // A's tenure survived the reset
			[]*story{
				agent("A").on("x").granted(1, 100, 100).reset(reset).released(1, 100, 180).handedOff(1, 101, 170).lost(lockagent.LostDenied, 1, 101, 300).stop(),
				agent("B").on("y").granted(1, 250, 250).released(1, 250, 320).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 250 (agent B, epoch 1, event 1, tenure 1, from 250 us, until 320 us, released) began before the end of token 101 (agent A, epoch 1, event 4, tenure 1, from 100 us, until 300 us, lost (denied))`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
			},
		},
		"AnotherIncarnationWithoutAReset": {
			[]*story{
				agent("A").on("x").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").on("y").granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Incomplete,
			[]string{
				"lost (denied): 1",
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied)): token 200 was granted when the store was another incarnation, but no event tells of the reset`,
			},
		},
		"ExplainedByAReset": {
			[]*story{
				agent("A").granted(1, 100, 100).reset(reset).lost(lockagent.LostDenied, 1, 100, 160).stop(),
				agent("B").on("y").granted(1, 200, 150).reset(reset).released(1, 200, 220).stop(),
			},
			Proven,
			[]string{
				"lost (denied): 1",
				`explained: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied)): the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
			},
		},
		"ResetOfAnotherTime": {
			[]*story{
				agent("A").granted(1, 200, 200).lost(lockagent.LostDenied, 1, 200, 260).reset(reset).stop(),
				agent("B").granted(1, 300, 250).released(1, 300, 320).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 300 (agent B, epoch 1, event 1, tenure 1, from 250 us, until 320 us, released) began before the end of token 200 (agent A, epoch 1, event 1, tenure 1, from 200 us, until 260 us, lost (denied))`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
			},
		},
		"ResetOfAnotherStore": {
			[]*story{
				agent("A").on("z").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 160).reset(reset).stop(),
				agent("B").on("z").granted(1, 200, 150).released(1, 200, 220).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 1",
				`violation: "a": token 200 (agent B, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 160 us, lost (denied))`,
				`reset: the store was reset (emptied) from "x" to "y" between 110 and 140 us`,
			},
		},
		"OneInDoubtAnotherNot": {
			[]*story{
				agent("A").on("x").granted(1, 100, 100).lost(lockagent.LostDenied, 1, 100, 190).stop(),
				agent("B").on("y").granted(1, 120, 120).lost(lockagent.LostDenied, 1, 120, 180).stop(),
				agent("C").on("y").granted(1, 150, 150).released(1, 150, 220).stop(),
			},
			Violated,
			[]string{
				"lost (denied): 2",
				`violation: "a": token 150 (agent C, epoch 1, event 1, tenure 1, from 150 us, until 220 us, released) began before the end of token 120 (agent B, epoch 1, event 1, tenure 1, from 120 us, until 180 us, lost (denied))`,
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 100 us, until 190 us, lost (denied)): token 150 was granted when the store was another incarnation, but no event tells of the reset`,
			},
		},
		"ClockOfTheNewStoreIsBehind": {
			[]*story{
				agent("A").on("x").granted(1, 100, 1000).released(1, 100, 1100).stop(),
				agent("B").on("y").granted(1, 200, 500).released(1, 200, 600).stop(),
			},
			Incomplete,
			[]string{
				`unproven: "a": token 100 (agent A, epoch 1, event 1, tenure 1, from 1000 us, until 1100 us, released): token 200 was granted when the store was another incarnation, but no event tells of the reset`,
			},
		},
	}.check(t)
}
