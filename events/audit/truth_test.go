package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// badPair are two holds of a true history that should not have been: they overlapped, or the later
// one has no greater token.
type badPair struct {
	first, second *trueHold
	what          string
	others        []*trueHold // of a semaphore: all that the second was beside
}

func (p badPair) String() string {
	one := func(h *trueHold) string {
		return fmt.Sprintf("%s:%d tenure %d token %d from %d to %d", h.agent, h.epoch, h.tenure, h.token, h.from, h.until)
	}
	return fmt.Sprintf("%s of lock %s of store %s: %s; %s", p.what, p.first.lock, p.first.store, one(p.first),
		one(p.second))
}

// of reports whether a hold was in a life of an agent of which a report misses all records.
func (h *trueHold) of(g RecordHole) bool {
	return h.agent == g.Agent && g.Epoch <= h.epoch && h.epoch < g.Epoch+g.Lives
}

// trueEnd is how a process ended that had a hold which another process went on with: when, and when the lease was over.
type trueEnd struct{ until, lease int }

// upTo is the hold as far as the processes up to an epoch had it.
func (h *trueHold) upTo(epoch uint64) *trueHold {
	part := *h
	if n := epoch - h.epoch; n < uint64(len(h.ends)) {
		part.until, part.lease, part.ends = h.ends[n].until, h.ends[n].lease, h.ends[:n]
	}
	return &part
}

// process is that which had the hold last.
func (h *trueHold) process() lifeOf { return lifeOf{h.agent, h.epoch + uint64(len(h.ends))} }

// alone is up to when nobody could have the lock beside the hold.
func (h *trueHold) alone() int {
	switch {
	case h.mode == lockagent.Shared:
		return h.from
	case h.reads != 0:
		return h.reads
	}
	return h.until
}

// badPairs compares all holds of each lock.
func badPairs(holds []*trueHold) (bad []badPair) {
	type lockOf struct {
		store string
		lock  lockagent.Name
	}
	byLock := make(map[lockOf][]*trueHold)
	for _, h := range holds {
		byLock[lockOf{h.store, h.lock}] = append(byLock[lockOf{h.store, h.lock}], h)
	}
	for key, of := range byLock {
		if key.lock == semaphore {
			bad = append(bad, crowds(of)...)
			continue
		}
		slices.SortStableFunc(of, func(x, y *trueHold) int { return cmp.Compare(x.from, y.from) })
		for i, x := range of {
			for _, y := range of[i+1:] {
				switch {
				case y.from >= x.until && y.token > x.token:
				case y.from < x.until && y.until > y.from:
					if x.alone() > y.from || y.alone() > y.from {
						bad = append(bad, badPair{x, y, "overlap", nil})
					}
				case y.from >= x.until && (x.mode != lockagent.Shared || y.mode != lockagent.Shared):
					bad = append(bad, badPair{x, y, "token", nil})
				}
			}
		}
	}
	return bad
}

type holdOf struct {
	agent  lockagent.AgentID
	tenure uint64
	token  lockagent.Token
}

func (h *trueHold) key() holdOf { return holdOf{h.agent, h.tenure, h.token} }

// history is the true history of a log from which records may have been removed. Whoever
// has only that log cannot tell the history of the world from others:
//
//   - An agent of which the log has nothing need not have been there.
//   - An agent of which the log has no end may have crashed when its next sign of life was due, at
//     the latest. If it did not reach the stream then, it may have crashed at once: whoever reads the log
//     takes for granted that agents which crash reach the stream. If the log does not have the end of one of its
//     holds, that was over with its lease: nothing tells that its process did not run.
//
// So those holds are left out, or end then. Records that are missing between others show by their
// numbers: such holds count.
func (w *world) history(log []events.Record) []*trueHold {
	type life struct {
		signed, last  int
		stopped, late bool
	}
	lives := make(map[lifeOf]*life)
	latest := make(map[lockagent.AgentID]uint64)
	ended := make(map[holdOf]bool)
	for i := range log {
		r := &log[i]
		if r.Kind.EndsHold() && r.Count == 0 {
			ended[holdOf{r.Agent, r.Tenure, r.Token}] = true
		}
		of := lifeOf{r.Agent, r.Epoch}
		l := lives[of]
		if l == nil {
			l = &life{}
			lives[of] = l
		}
		latest[r.Agent] = max(latest[r.Agent], r.Epoch)
		at := w.when[identityOf(r)]
		if at >= l.last {
			l.last, l.late = at, r.Stored.Sub(wall(at)) > DefaultTail-heartbeat
		}
		switch r.Kind {
		case lockagent.EventAlive, lockagent.EventAgentStarted:
			l.signed = max(l.signed, at)
		case lockagent.EventAgentStopped:
			l.stopped = true
		}
	}
	const due = 10_000 + 1000
	var holds []*trueHold
	for _, whole := range w.holds {
		if latest[whole.agent] < whole.epoch || !w.hasRecord(whole) {
			continue
		}
		h := whole.upTo(latest[whole.agent])
		of, over := h.process(), len(h.ends) < len(whole.ends)
		if l := lives[of]; l != nil && !l.stopped && of.epoch == latest[h.agent] {
			dead := max(l.last, l.signed+due)
			if l.late {
				dead = l.last
			}
			if h.from >= dead {
				continue
			}
			h.until, over = min(h.until, dead), true
		}
		if over && !ended[h.key()] {
			h.until = min(h.until, h.lease)
		}
		holds = append(holds, h)
	}
	return holds
}

// hasRecord reports whether one of the processes that had a hold has left a record.
func (w *world) hasRecord(h *trueHold) bool {
	for n := range len(h.ends) + 1 {
		if w.lives[lifeOf{h.agent, h.epoch + uint64(n)}] {
			return true
		}
	}
	return false
}

// unsound says what is wrong with a verdict on a log whose true history is known, or nothing.
// Whatever is wrong in the history, the report has to name one of the two holds, or else they are not
// among those that it judges.
func (w *world) unsound(log []events.Record, r Report) string {
	return w.hides(badPairs(w.history(log)), log, r)
}

// hides is as unsound, for some of what is wrong in the history.
func (w *world) hides(bad []badPair, log []events.Record, r Report) string {
	if len(bad) == 0 {
		return ""
	}
	from := make(map[string]lockagent.StoreTime)
	for _, s := range r.Stores {
		from[s.Store] = s.From
	}
	late := make(map[identity]bool) // these are named, and not judged
	for _, x := range r.Late.First {
		late[identity{x.Agent, events.Place{Epoch: x.Epoch, Seq: x.Seq}}] = !x.Dead
	}
	visible := make(map[tenureKey]bool)
	unnoticed := w.unnoticed(log)
	for i := range log {
		if r := &log[i]; !late[identityOf(r)] && (r.Kind == lockagent.EventGranted || r.Kind.EndsHold() && r.Count == 0) {
			visible[tenureKey{r.Agent, r.Tenure}] = true
		}
	}
	named := namedBy(r)
	for _, p := range bad {
		first, second := tenureKey{p.first.agent, p.first.tenure}, tenureKey{p.second.agent, p.second.tenure}
		switch {
		case unnoticed[p.first.store]:
		case w.had["nameless"] && r.Joined.Count > 0: // the report says that tenures do not say of which store they are
		case p.first.began < from[p.first.store] || p.second.began < from[p.second.store]:
		case slices.ContainsFunc(r.JudgedEarly.First,
			func(b JudgedEarly) bool { return b.Store == p.first.store && p.first.began < b.To }):
		case slices.ContainsFunc(r.RecordHoles.First,
			func(g RecordHole) bool { return g.Lives > 0 && (p.first.of(g) || p.second.of(g)) }):
		case p.what == "token" && !(visible[first] && visible[second]):
		case named == nil || named[first] || named[second] ||
			slices.ContainsFunc(p.others, func(h *trueHold) bool { return named[tenureKey{h.agent, h.tenure}] }):
		case slices.ContainsFunc(r.JudgedEarly.First,
			func(b JudgedEarly) bool { return b.Store == p.first.store && p.first.began < b.To }):
		case !visible[first] && !visible[second] && (r.Verdict != Explained && r.Verdict != Proven || log[0].Position > 1):
		case r.Verdict == Proven:
			return "proven, but " + p.String()
		default:
			return fmt.Sprintf("%s, and it names neither: %v", r.Verdict, p)
		}
	}
	return ""
}

// unnoticed has the stores of which the clock was set, and the log does not tell that. Each agent that used the store
// before was cut off from it since, or stopped. So none noticed the step, and the times that the log has are those of
// two clocks. That no such step happens is an assumption of the audit.
func (w *world) unnoticed(log []events.Record) map[string]bool {
	stores := make(map[string]bool)
	for _, s := range w.stores {
		stores[s.id] = w.had["step of "+s.id]
	}
	for i := range log {
		if r := &log[i]; r.Kind == lockagent.EventStoreReset && r.Reset.From == r.Reset.To {
			stores[r.Store] = false
		}
	}
	return stores
}

// namedBy are the tenures that a report does not say to be proven, or nil if there are too many.
func namedBy(r Report) map[tenureKey]bool {
	if r.Violations.Count > len(r.Violations.First) || r.Explained.Count > len(r.Explained.First) ||
		r.Unproven.Count > len(r.Unproven.First) || r.NotJudged.Count > len(r.NotJudged.First) {
		return nil
	}
	named := make(map[tenureKey]bool)
	for _, h := range namedHolds(r) {
		named[tenureKey{h.Agent, h.Tenure}] = true
	}
	return named
}

// namedHolds are the holds that a report does not say to be proven.
func namedHolds(r Report) (all []fold.Hold) {
	for _, h := range r.NotJudged.First {
		all = append(all, h.Hold)
	}
	for _, v := range r.Violations.First {
		all = append(all, v.First, v.Second)
	}
	for _, e := range r.Explained.First {
		all = append(all, e.First, e.Second)
	}
	for _, u := range r.Unproven.First {
		all = append(all, u.Hold)
	}
	return all
}
