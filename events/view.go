package events

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Report judges a log that has come to its end. An agent that has not stopped is dead. More may be
// added afterwards: then the log went on after all.
func (a *Audit) Report() Report { return a.reportOf(func(*agentLog) bool { return false }) }

// ReportAt judges a log that goes on, as it is at the time now. An agent is alive if the stream
// took a record of it less than a minute ago. What such agents have not told yet is pending: the
// report says up to when the log is judged. It takes time for each lock that is held, and for each
// agent that lives, but not for past ones.
func (a *Audit) ReportAt(now time.Time) Report {
	oldest := now.Add(-silence)
	return a.reportOf(func(l *agentLog) bool { return l.Stored.After(oldest) })
}

func (a *Audit) reportOf(alive func(*agentLog) bool) Report {
	// What waits for a missing record is as good as not told yet, if that may still come.
	whole := func(l *agentLog) bool { return len(l.pending) == 0 || a.ordered && alive(l) }
	for _, l := range a.logs {
		if !whole(l) {
			a = a.clone()
			break
		}
	}
	for _, l := range sorted(a.logs) {
		if !whole(l) {
			a.drain(l, true)
			a.place(l)
		}
	}
	for _, s := range a.stores {
		a.look(s)
	}
	return a.view().close(alive)
}

// view returns an audit that judges what is pending in a, to report it. It has copies of what
// that changes, and shares the rest with a. It is of no use when a has changed.
func (a *Audit) view() *Audit {
	v := *a
	v.found = a.found.clone()
	v.copies = make(map[*lockLog]*lockLog)
	v.stores = make(map[string]*storeLog, len(a.stores))
	for id, s := range a.stores {
		c := *s
		c.Blanks = slices.Clone(s.Blanks)
		v.stores[id] = &c
	}
	v.near, v.latest = nil, nil
	return &v
}

// viewed returns the lock that a view may change.
func (a *Audit) viewed(l *lockLog) *lockLog {
	if a.copies == nil {
		return l
	}
	c := a.copies[l]
	if c == nil {
		c = l.clone()
		a.copies[l] = c
	}
	return c
}

func (l *lockLog) clone() *lockLog {
	c := &lockLog{LockKey: l.LockKey, Breaks: slices.Clone(l.Breaks), Spans: make([]*span, len(l.Spans))}
	if l.Last != nil {
		c.Last = l.Last.clone()
	}
	for i, s := range l.Spans {
		c.Spans[i] = s.clone()
		if l.live(s.Agent, s.Tenure) == s {
			c.goOn(c.Spans[i])
		}
	}
	return c
}

// close judges all that can be judged. It is for a view.
func (a *Audit) close(alive func(*agentLog) bool) Report {
	horizons := make(map[string]lockagent.StoreTime) // of stores with agents that live
	var silent []agentLog
	for _, l := range a.logs {
		switch {
		case !l.lives():
		case alive(l):
			at, found := horizons[l.Store]
			if !found {
				at = math.MaxInt64
			}
			horizons[l.Store] = min(at, l.behind())
		default:
			silent = append(silent, *l)
		}
	}
	slices.SortFunc(silent, func(x, y agentLog) int { return cmp.Compare(x.ID, y.ID) })
	for i := range silent {
		if l := &silent[i]; l.Stopped {
			a.bounded(l, l.low().Add(tailLength))
		} else {
			a.died(l)
		}
	}
	untils := make(map[string]lockagent.StoreTime)
	for _, s := range sorted(a.stores) {
		until, living := horizons[s.ID]
		if until = max(s.Floor, until); living {
			s.locks.before(int64(until), func(l *lockLog) { a.viewed(l) })
		} else {
			until = endOfTime
		}
		untils[s.ID] = until
	}
	pending := make(map[string]int)
	for _, l := range a.locks {
		s := a.stores[l.Store]
		until := untils[l.Store]
		if until == endOfTime || a.copies[l] != nil {
			l = a.viewed(l)
			a.judgeLock(s, l, until)
		}
		pending[s.ID] += len(l.Spans)
		a.stillHeld(l)
	}
	return a.report(horizons, pending)
}

// report is what the audit has found, when all is judged that can be.
func (a *Audit) report(horizons map[string]lockagent.StoreTime, pending map[string]int) Report {
	r := Report{Version: ReportVersion}
	for _, s := range sorted(a.stores) {
		j := Judged{Store: s.ID, Holds: s.Holds, Unproven: s.Unproven, From: max(s.From, s.First), Pending: pending[s.ID]}
		if until, living := horizons[s.ID]; living {
			j.To = max(s.Floor, until)
		}
		if j.Holds > 0 || j.Pending > 0 {
			r.Stores = append(r.Stores, j)
		}
		for _, x := range slices.Concat(s.Resets, s.Steps) {
			r.Resets.add(x.StoreReset)
		}
	}
	a.found.fill(&r)
	if s := a.stores[""]; s != nil && s.Holds > 0 && len(r.Stores) > 1 {
		r.Joined.add(Note(fmt.Sprintf("%d tenures do not say of which store they are, and there are several", s.Holds)))
	}
	r.Locks = len(a.names)
	r.Verdict = r.verdict()
	return r
}

// endOfTime is later than any time of a store.
const endOfTime = math.MaxInt64

// stillHeld lists the holds of a lock that go on.
func (a *Audit) stillHeld(lock *lockLog) {
	for _, s := range lock.Spans {
		if s.Open > 0 {
			a.found.OpenHolds.add(a.hold(lock.LockKey, s, &s.Last))
		}
	}
}
