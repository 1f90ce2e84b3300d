package actor

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// tellEvery is how often the event log is told of the holds of a lock that go on. So a log that has lost its beginning
// tells of them again. Ticks tell of them, so each time may be later, by [longestSleep] at most.
const tellEvery = 10 * time.Minute

// tellHolds tells the event log of all holds that go on, if it is time for that. Each tick calls it, and a lock with
// holds has a tick every [longestSleep] at least. So grants and releases cost nothing more. The first tick tells
// nothing: no hold is old.
func (l *lock) tellHolds() {
	if l.agent.cfg.Recorder == nil || l.now < l.tellAt || !l.agent.recording(context.Background()) {
		return
	}
	first := l.tellAt == 0
	l.tellAt = l.now + lockstate.Instant(tellEvery)
	if first {
		return
	}
	n := l.state.Snapshot()
	tenures := make(map[uint64]*lockstate.SavedTenure, len(n.Tenures))
	for i := range n.Tenures {
		tenures[n.Tenures[i].Number] = &n.Tenures[i]
	}
	for _, grants := range holdsIn(n.Requests) {
		l.tellHold(grants, tenures[grants[0].Tenure])
	}
}

// holdsIn are the requests that hold the lock, those of one hold together. The oldest one comes first.
func holdsIn(requests []lockstate.SavedRequest) (holds [][]*lockstate.SavedRequest) {
	type hold struct {
		tenure uint64
		token  lockagent.Token
	}
	places := make(map[hold]int)
	for i := range requests {
		r := &requests[i]
		if r.Tenure == 0 { // it waits
			continue
		}
		place, found := places[hold{r.Tenure, r.Token}]
		if !found {
			place = len(holds)
			places[hold{r.Tenure, r.Token}] = place
			holds = append(holds, nil)
		}
		holds[place] = append(holds[place], r)
	}
	return holds
}

// tellHold records that a hold goes on.
func (l *lock) tellHold(grants []*lockstate.SavedRequest, t *lockstate.SavedTenure) {
	first := grants[0]
	r := l.requests.get(first.ID)
	out := lockagent.Event{
		Kind: lockagent.EventHolding, Time: l.time, Lock: l.entry.name, LockKind: l.entry.kind, Mode: modeOf(first.Mode),
		Owner: first.Owner, Who: l.agent.who, Request: uint64(first.ID), Tenure: t.Number, Token: first.Token,
		Count: len(grants), Held: l.now.Sub(first.Since), Lease: t.Lease, Fixed: true,
		StoreTime: first.Confirmed, Confirmed: t.StoreTime, Incarnation: t.Incarnation,
		Permits: permitsOf(&first.Request), Total: r.total, Replicas: r.Replicas(), Holds: holdsOf(r.Holds),
	}
	if !r.Who.IsZero() {
		out.Who = r.Who
	}
	if first.Token == t.First {
		out.How = lockagent.ByStore
	}
	for _, g := range grants {
		out.Fixed = out.Fixed && g.Fixed != 0
		if g.Mode == lockstate.Exclusive {
			out.Mode = lockagent.Exclusive
		}
	}
	l.agent.record(r.values(), &out)
}
