package audit

import (
	"math/rand/v2"
	"testing"

	"github.com/lockagent/lockagent"
)

// holding is how many holds an agent has, and their sum.
func (a *worldAgent) holding() (holds int, sum uint64) {
	for _, t := range a.has {
		if t.rests {
			continue
		}
		for _, h := range t.both() {
			holds++
			sum += lockagent.HoldSum(t.lock, t.number, h.hold.token)
		}
	}
	return holds, sum
}

// leaves ends the process of an agent, which has published what it recorded up to a time. After a while the next one
// goes on with its holds: the journal tells that of them, whatever the log has. It withdraws the other tenures, and no
// record tells of that.
func (w *world) leaves(a *worldAgent, published int) {
	w.publish(a, published)
	next := &worldAgent{
		id: a.id, epoch: a.epoch + 1, last: a.last, said: a.said, store: a.store, skew: a.skew, tenure: a.tenure + 1000,
		hasty: a.hasty, has: a.has, debts: a.debts, begins: true, from: w.now, paused: w.now + w.rand.IntN(2000),
	}
	if w.chance(4) {
		next.paused += w.rand.IntN(20_000)
	}
	if w.now < a.paused {
		next.from = a.from
	}
	for _, name := range worldLocks {
		t := a.has[name]
		switch {
		case t == nil:
		case t.rests:
			delete(next.has, name)
			next.debts = append(next.debts, t)
		default:
			t.agent, t.doubt = next, true
			for _, h := range t.both() {
				h.hold.ends = append(h.hold.ends, trueEnd{next.from, t.deadline()})
				h.said = w.now - holdingEvery // it tells of them at once
			}
		}
	}
	if a.store.grace.away[a] {
		delete(a.store.grace.away, a)
		a.store.grace.away[next] = true
	}
	for _, t := range next.debts {
		t.agent, t.silent = next, true
	}
	w.gone(a)
	w.agents = append(w.agents, next)
}

// goesOn begins the process that goes on. Whoever reads the log may have judged its holds up to the end of their
// leases.
func (w *world) goesOn(a *worldAgent) {
	for _, t := range a.has {
		w.had["left"] = w.had["left"] || w.now >= t.expires
	}
	a.begins, a.paused = false, w.now
	w.begun(a)
}

// neverBegins ends the holds with which no process goes on. The log tells neither their end nor their last renewal.
func (w *world) neverBegins(a *worldAgent) {
	for _, t := range a.has {
		w.had["left"] = true
		for _, h := range t.both() {
			last := len(h.hold.ends) - 1
			h.hold.until, h.hold.lease, h.hold.ends = h.hold.ends[last].until, h.hold.ends[last].lease, h.hold.ends[:last]
		}
	}
	w.gone(a)
}

// Processes may stop with holds, and none goes on with them in time. Agents may not know when the store took a lock
// back. Then a true history may be unproven, although its log is whole.
func TestHistoriesOfEndsThatAreNotKnown(t *testing.T) {
	for name, cfg := range map[string]worldConfig{
		"Left":       {length: 30_000, stores: 1, resumes: true},
		"Unanswered": {length: 30_000, stores: 1, outages: true},
	} {
		t.Run(name, func(t *testing.T) {
			unproven := 0
			seeds(t, 300, func(seed uint64, r *rand.Rand) {
				w := newWorld(r, cfg)
				report := closed(w.stream)
				if w.wrongOfAll(w.stream, report) != "" {
					fails(t, seed, "untouched", w, w.stream, (*world).wrongOfAll)
				}
				if report.Verdict == Incomplete && !w.had["crash"] && !w.had["late"] {
					unproven++
				}
			})
			if unproven == 0 {
				t.Error("each history is proven")
			}
			t.Log(unproven)
		})
	}
}
