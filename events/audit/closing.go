package audit

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// Report judges a log that has come to its end. An agent that has not stopped is dead. More may be
// added afterwards: then the log went on after all.
func (a *Audit) Report() Report {
	c := a.clone()
	c.cutOff = a.unstopped()
	return c.close(a.alive(time.Time{}))
}

// ReportAt judges a log that goes on, as it is at the time now on the clock of the server, see
// [natslog.StreamState].Now. An agent lives unless it was silent for longer than the Patience. What such
// agents have not told yet is pending: the report says up to when the log is judged.
//
// What follows a missing record is pending, too, as long as that may still come.
func (a *Audit) ReportAt(now time.Time) Report {
	c, alive := a.clone(), a.alive(now)
	idle := max(0, now.Sub(a.clock.Stored))
	return c.closeWith(c.depart(alive, func(l *agentLog) bool {
		return alive(l) && c.clock.Now-l.Since+idle <= recordPatience
	}))
}

// alive tells which agents live at a time; if it is zero, none does.
func (a *Audit) alive(now time.Time) func(*agentLog) bool {
	clock, patience := a.clock, a.Patience
	idle := max(0, now.Sub(clock.Stored))
	return func(l *agentLog) bool { return !now.IsZero() && clock.Now-l.Heard+idle <= patience }
}

// depart notes which agents are gone. It returns the stores with agents that live. wait says of which
// agents a missing record may still come.
func (a *Audit) depart(alive, wait func(*agentLog) bool) map[string]bool {
	for _, l := range sorted(a.logs) {
		a.drain(l, !wait(l))
	}
	living := make(map[string]bool)
	for _, l := range sorted(a.logs) {
		switch {
		case len(l.pending) > 0:
			living[l.Store] = true
		case l.Stopped || l.Dead:
			a.departed(l, a.livedUntil(l, l.Store, l.low()))
		case alive(l):
			living[l.Store] = true
		default:
			a.died(l)
		}
		a.place(l)
	}
	return living
}

// close judges all that can be judged. The audit is of no use afterwards.
func (a *Audit) close(alive func(*agentLog) bool) Report {
	return a.closeWith(a.depart(alive, noWait))
}

func noWait(*agentLog) bool { return false }

// closeWith judges all that can be judged of stores of which agents live, or not.
func (a *Audit) closeWith(living map[string]bool) Report {
	a.stillOpen()
	var judged []Judged
	resets := make(map[StoreReset]bool)
	for _, s := range sorted(a.stores) {
		j := Judged{Store: s.ID}
		a.found.Locks += len(s.Names)
		until := lockagent.StoreTime(endOfTime)
		if living[s.ID] || living[""] {
			until = s.Floor
			if h := a.horizon(s); h > 0 && !a.clock.outage(a.Tail) {
				until = max(until, h.Add(-delay)) // the record of an earlier decision may be under way
			}
			j.To = until
		}
		a.judge(s, until)
		for _, l := range a.locks {
			if l.Store == s.ID {
				j.Pending += a.stillHeld(s, l)
			}
		}
		j.Holds, j.Unproven, j.From = s.Holds, s.Unproven, max(s.From, s.First)
		j.laterProven = s.Last > s.Unproven
		if a.cover(s, &j); !a.within.IsZero() {
			j.Holds = s.Within
		}
		if j.Holds > 0 || j.Pending > 0 {
			judged = append(judged, j)
		}
		for _, x := range slices.Concat(s.Resets, s.Steps) {
			if !resets[x.StoreReset] { // else an agent told of it, and named its store then
				a.found.Resets.add(x.StoreReset) // those that are forgotten are there
			}
			resets[x.StoreReset] = true
		}
		for _, g := range s.Graces {
			a.found.Graces.add(g.of(s))
		}
	}
	a.nameless()
	r := a.found.Report
	r.Version, r.Within, r.Stores = ReportVersion, a.within, judged
	r.Verdict = r.verdict()
	for i := range r.Stores {
		if r.Violations.Count+r.Unreadable.Count+r.Joined.Count+r.Unchecked+r.Unknown+r.Late.Count > 0 {
			r.Stores[i].laterProven = false
		}
	}
	return r
}

// nameless notes that holds may be of any of several stores.
func (a *Audit) nameless() {
	judged := 0
	for _, s := range a.stores {
		if s.Holds > 0 {
			judged++
		}
	}
	s := a.stores[""]
	if s == nil || s.Holds <= s.Accepted {
		return
	}
	text := fmt.Sprintf("%d tenures do not say of which store they are", s.Holds-s.Accepted)
	if judged > 1 {
		text += ", and there are several"
	}
	a.found.Joined.add(Note(text))
}

// endOfTime is later than any time of a store.
const endOfTime = math.MaxInt64

// stillHeld lists the holds of a lock that go on, and returns how many tenures there are to judge.
func (a *Audit) stillHeld(store *storeLog, lock *lockLog) (pending int) {
	for _, s := range lock.Spans {
		if a.outside(store, s, a.atMost(s)) {
			continue
		}
		pending++
		if s.Open > 0 {
			a.found.OpenHolds.add(NamedHold{a.hold(lock.LockKey, s, &s.Last)})
		}
	}
	return pending
}

// sorted returns the values of a map in the order of their keys.
