package audit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// worldGrace is the latest grace period of a store.
type worldGrace struct {
	on    bool
	first bool // nobody knew the store before
	until int  // when it is over at the latest
	began lockagent.StoreTime
	ended lockagent.StoreTime
	away  map[*worldAgent]bool // those that have not come back
}

// longestLease is the longest lease in a world, and a moment.
const longestLease = 30_001

// startsInGrace has a store wait for a while because nobody knows it.
func (w *world) startsInGrace(s *worldStore) {
	s.grace = worldGrace{on: true, first: true, until: w.now + 2000, began: s.clock(w.now)}
}

// forgets empties a store that then waits for its agents. It does not wait for those that do not keep to that.
func (w *world) forgets(s *worldStore) {
	s.inc++
	s.grace = worldGrace{on: true, until: w.now + longestLease, began: s.clock(w.now), away: make(map[*worldAgent]bool)}
	for _, a := range w.agents {
		if a.store == s && !a.hasty {
			s.grace.away[a] = true
		}
	}
	for name, all := range s.locks {
		s.locks[name] = slices.DeleteFunc(all, func(t *worldTenure) bool {
			t.over = t.over || t.agent.hasty
			t.away = !t.over
			w.had["hasty"] = w.had["hasty"] || t.agent.hasty
			return t.over || w.cfg.evil == impatient
		})
	}
}

// endsGrace ends a grace period that is over.
func (w *world) endsGrace(s *worldStore) {
	g := &s.grace
	if g.on && (w.now >= g.until || !g.first && len(g.away) == 0) {
		g.on, g.ended = false, s.clock(w.now)
	}
}

// tellsGrace has an agent tell of a grace period that it notices, and of its end.
func (w *world) tellsGrace(a *worldAgent) {
	s := a.store
	g := &s.grace
	if a.hasty || g.began == 0 {
		return
	}
	e := lockagent.Event{Grace: &lockagent.GracePeriod{Incarnation: incarnation(s.inc), Reason: "emptied", Began: g.began}}
	if g.first {
		e.Grace.Reason = "first start"
	}
	for away := range g.away {
		e.Grace.Roll = append(e.Grace.Roll, away.id)
	}
	slices.Sort(e.Grace.Roll)
	switch {
	case g.on && a.grace != s.inc:
		a.grace, e.Kind = s.inc, lockagent.EventGraceBegan
	case !g.on && a.grace == s.inc:
		a.grace, e.Kind, e.Grace.Ended = 0, lockagent.EventGraceEnded, g.ended
	default:
		return
	}
	w.had["grace"] = true
	w.record(a, e)
}

// comesBack has an agent ask for its tenures that its store has forgotten. It learns at once which of them are put
// back.
func (w *world) comesBack(a *worldAgent) {
	s := a.store
	if !s.grace.away[a] {
		return
	}
	delete(s.grace.away, a)
	for _, name := range worldLocks {
		t := a.has[name]
		if t == nil || !t.away && !t.over {
			continue
		}
		t.away = false
		switch {
		case !t.rests && w.lapse(a, t):
			continue
		case t.holds == 0: // nothing shows that it was granted
			t.over = true
			continue
		case t.over:
		case w.cfg.evil == impatient && w.taken(s, t):
			t.over = true
		case w.cfg.evil == impatient:
			s.locks[name] = append(s.locks[name], t)
		}
		switch {
		case t.over:
			w.denied(a, t)
		case !t.fixed && w.now < t.expires:
			w.confirm(t, s.clock(w.now))
			a.newest, a.confirmed = w.now, max(a.confirmed, t.confirmed)
		}
	}
}

// taken reports whether a tenure cannot be put back beside those that the store has.
func (w *world) taken(s *worldStore, t *worldTenure) bool {
	if t.lock == semaphore {
		return s.taken()+t.n > s.total
	}
	return slices.ContainsFunc(s.locks[t.lock], func(x *worldTenure) bool {
		return x.mode != lockagent.Shared || t.mode != lockagent.Shared
	})
}

// waitsInGrace reports whether a store grants nothing to an agent for now. One that does not keep to grace periods may
// be granted what nobody has come back for.
func (w *world) waitsInGrace(a *worldAgent, name lockagent.Name, mode lockagent.Mode) bool {
	s := a.store
	switch {
	case !s.grace.on:
		return false
	case !a.hasty:
		w.answered(a)
		return w.cfg.evil != impatient
	}
	beside := func(t *worldTenure) bool { return !t.away && (t.mode != lockagent.Shared || mode != lockagent.Shared) }
	if name != semaphore && !slices.ContainsFunc(s.locks[name], beside) {
		s.locks[name] = slices.DeleteFunc(s.locks[name], func(t *worldTenure) bool {
			if t.away {
				t.over, w.had["hasty"] = true, true
			}
			return t.away
		})
	}
	return false
}

// excusedDespiteGrace reports whether a reset explains an overlap, and a log tells that both agents keep to the grace
// period that followed. An incarnation of before that goes on does not wait.
func excusedDespiteGrace(log []events.Record, r Report) bool {
	keeps := func(agent lockagent.AgentID, incarnation string) bool {
		return slices.ContainsFunc(log, func(x events.Record) bool {
			return x.Grace != nil && x.Grace.Incarnation == incarnation &&
				(x.Agent == agent || slices.Contains(x.Grace.Roll, agent))
		})
	}
	return slices.ContainsFunc(r.Explained.First, func(e Explanation) bool {
		return e.Reset != nil && e.Reset.From != e.Second.Incarnation && keeps(e.First.Agent, e.Reset.To) &&
			keeps(e.Second.Agent, e.Reset.To)
	})
}

// A store that grants new locks before its agents have come back is found out: a reset is no excuse.
func TestHistoriesOfImpatientStores(t *testing.T) {
	verdicts, despite := make(map[Verdict]int), 0
	seeds(t, 100, func(seed uint64, r *rand.Rand) {
		w := newWorld(r, worldConfig{length: 60_000, resets: true, grace: true, pauses: r.IntN(2) == 0, evil: impatient})
		report := closed(w.stream)
		if len(badPairs(w.holds)) > 0 {
			verdicts[report.Verdict]++
		}
		for i := range report.Violations.First {
			if report.Violations.First[i].Why == despiteGrace {
				despite++
			}
		}
		if excusedDespiteGrace(w.stream, report) || w.unsound(w.stream, report) != "" {
			t.Errorf("seed %d: %s\n%s%v", seed, w.unsound(w.stream, report), logText(w, w.stream), report)
		}
	})
	t.Log(verdicts, despite)
	if verdicts[Violated] == 0 || despite == 0 {
		t.Errorf("the verdicts are %v; %d overlaps were despite a grace period", verdicts, despite)
	}
}

// Agents that do not keep to a grace period may be granted what others had before the reset. These learn of that when
// they come back, before the store grants the lock again.
func TestHistoriesOfHastyAgents(t *testing.T) {
	hasty := 0
	seeds(t, 100, func(seed uint64, r *rand.Rand) {
		w := newWorld(r, worldConfig{length: 60_000, stores: 1, resets: true, grace: true, hasty: true})
		if w.wrongOfAll(w.stream, closed(w.stream)) != "" {
			fails(t, seed, "untouched", w, w.stream, (*world).wrongOfAll)
		}
		if w.had["hasty"] {
			hasty++
		}
	})
	if hasty == 0 {
		t.Error("no agent took what another one had")
	}
}
