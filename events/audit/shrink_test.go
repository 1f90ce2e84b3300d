package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// shrunk removes what it can from a history and its log, as long as the log fails. What is removed
// leaves no hole: the numbers of later records close up.
func shrunk(w *world, log []events.Record, fails func(*world, []events.Record) bool) (*world, []events.Record) {
	for again := true; again; {
		again = false
		for i := 0; i < len(log); i++ {
			switch log[i].Kind {
			case lockagent.EventStoreReset, lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventPermits:
				continue // without it, something else would be wrong
			}
			if smaller, rest := w.without(log, unitOf(&log[i])); fails(smaller, rest) {
				w, log, again = smaller, rest, true
				i--
			}
		}
	}
	return w, log
}

// unit is what can be removed alone: a tenure, or a record about none.
type unit struct {
	identity
	tenure uint64
}

func unitOf(r *events.Record) unit {
	if r.Tenure != 0 {
		return unit{identity{agent: r.Agent}, r.Tenure}
	}
	return unit{identity: identityOf(r)}
}

// without is the history without a unit.
func (w *world) without(log []events.Record, u unit) (*world, []events.Record) {
	smaller := &world{cfg: w.cfg, stores: w.stores, when: make(map[identity]int), had: w.had, lives: w.lives}
	for _, h := range w.holds {
		if u.tenure == 0 || u.agent != h.agent || u.tenure != h.tenure {
			smaller.holds = append(smaller.holds, h)
		}
	}
	gone := make(map[lifeOf][]uint64) // numbers
	for i := range log {
		if r := &log[i]; unitOf(r) == u && !slices.Contains(gone[lifeOf{r.Agent, r.Epoch}], r.Seq) {
			gone[lifeOf{r.Agent, r.Epoch}] = append(gone[lifeOf{r.Agent, r.Epoch}], r.Seq)
		}
	}
	closed := func(agent lockagent.AgentID, p events.Place) events.Place {
		before := 0
		for _, seq := range gone[lifeOf{agent, p.Epoch}] {
			if seq <= p.Seq {
				before++
			}
		}
		p.Seq -= min(uint64(before), p.Seq)
		return p
	}
	// open are the holds of the unit that went on at a time, and their sum.
	open := func(ms int) (holds int, sum uint64) {
		for _, h := range w.holds {
			if u.agent == h.agent && u.tenure == h.tenure && h.from <= ms && ms < h.until {
				holds++
				sum += lockagent.HoldSum(h.lock, h.tenure, h.token)
			}
		}
		return holds, sum
	}
	var rest []events.Record
	for _, r := range log {
		if unitOf(&r) == u {
			continue
		}
		at := w.when[identityOf(&r)]
		if (r.Kind == lockagent.EventAlive || r.Kind == lockagent.EventAgentStarted) && r.Agent == u.agent && u.tenure != 0 {
			r.Confirmed = 0 // it may have been that of the tenure
			holds, sum := open(at)
			r.Count, r.Sum = r.Count-holds, r.Sum-sum
		}
		p := closed(r.Agent, events.Place{Epoch: r.Epoch, Seq: r.Seq})
		r.Seq, r.Follows = p.Seq, closed(r.Agent, r.Follows)
		smaller.when[identityOf(&r)] = at
		rest = append(rest, r)
	}
	return smaller, rest
}

// logText is a log for people, a line for each record. Times are in milliseconds.
func logText(w *world, log []events.Record) string {
	var b strings.Builder
	ms := func(t lockagent.StoreTime) string {
		if t == 0 {
			return "-"
		}
		return fmt.Sprintf("%.3f", float64(t-clock(0))/1000)
	}
	for i := range log {
		r := &log[i]
		fmt.Fprintf(&b, "%d %s:%d:%d %v at %d stored %d", r.Position, r.Agent, r.Epoch, r.Seq, r.Kind, w.when[identityOf(r)],
			r.Stored.Sub(wall(0)).Milliseconds())
		if r.Lock != "" {
			fmt.Fprintf(&b, " %s/%s %s tenure %d token %s x%d", r.Store, r.Lock, r.Mode, r.Tenure,
				ms(lockagent.StoreTime(r.Token)), r.Count)
		}
		for _, f := range []struct {
			name string
			t    lockagent.StoreTime
		}{
			{"store", r.StoreTime},
			{"confirmed", r.Confirmed},
			{"until", r.Until},
			{"returned", r.Returned},
			{"after", r.Reset.After},
			{"before", r.Reset.Before},
		} {
			if f.t != 0 {
				fmt.Fprintf(&b, " %s %s", f.name, ms(f.t))
			}
		}
		for _, d := range []struct {
			name string
			d    time.Duration
		}{{"held", r.Held}, {"lease", r.Lease}} {
			if d.d != 0 {
				fmt.Fprintf(&b, " %s %v", d.name, d.d)
			}
		}
		if r.Op != "" {
			fmt.Fprintf(&b, " %s %d %s of %d", r.Op, r.Permits, r.Permit, r.Total)
		}
		if r.Reason != 0 {
			fmt.Fprintf(&b, " because %v", r.Reason)
		}
		if r.Follows != (events.Place{}) {
			fmt.Fprintf(&b, " follows %v", r.Follows)
		}
		if r.Incarnation != "" {
			fmt.Fprintf(&b, " of %s", r.Incarnation)
		}
		if r.Reset.To != "" {
			fmt.Fprintf(&b, " from %s to %s", r.Reset.From, r.Reset.To)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
