package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// Independent is a second opinion on a log. It judges without [Audit] and [fold.Fold], and can be reviewed in ten
// minutes. It keeps all records in memory. The zero value is an empty log. It is not safe for concurrent use.
//
//   - A log has no verdict unless it is whole: each agent has told of all from its start to its stop, by records that
//     this program knows, and of one store, which nobody has reset, and of which nobody has set the clock. Stores with
//     different names are judged apart.
//   - A tenure is the time for which the store gives a lock to one agent. It is over when the agent says that the last
//     hold ended, or that the store took the lock back. But it lasts for as long as the agent says that it held the
//     lock, and until the store confirmed the lease for the last time, whatever the agent says of the end.
//   - Tenures that exclude each other must not overlap, permits must suffice, and tokens must grow. If not, the log is
//     violated. The opinion knows no causes, such as breaks.
//   - Otherwise a log has no verdict if it contradicts itself, or does not tell which of two times came first.
type Independent struct {
	records  []events.Record
	position uint64
	why      string // the log is not whole
	doubt    string // the first
	odd      bool   // the log contradicts itself
	pairs    []OpinionPair
	locks    map[fold.LockKey][]oneTenure
}

// Visit adds what a [natslog.Reader] or [events.ReadLines] passes. A Position says which message had the record: then
// messages in between must not be missing. A caller whose positions leave out some sets each [events.Record.Position]
// to 0.
func (x *Independent) Visit(r *events.Record, err error) error {
	if err != nil {
		x.why = cmp.Or(x.why, fmt.Sprintf("a record cannot be read: %v", err))
		return nil
	}
	if r.Position > x.position+1 {
		x.why = cmp.Or(x.why, fmt.Sprintf("message %d is missing", x.position+1))
	}
	x.position = max(x.position, r.Position)
	x.records = append(x.records, *r)
	return nil
}

func (x *Independent) contradicts(r *events.Record, why string) {
	x.doubt, x.odd = cmp.Or(x.doubt, fmt.Sprintf("record %s (%v): %s", placeText(r), r.Kind, why)), true
}

func (x *Independent) pair(first, second *events.Record, what string) {
	x.pairs = append(x.pairs, OpinionPair{second.Lock, placeText(first), placeText(second), what})
}

// Opinion judges the records. Call it once.
func (x *Independent) Opinion() Opinion {
	x.locks = make(map[fold.LockKey][]oneTenure)
	slices.SortStableFunc(x.records, func(a, b events.Record) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	a, last := oneLife{}, &events.Record{Event: lockagent.Event{Kind: lockagent.EventAgentStopped}}
	for i := range x.records {
		r := &x.records[i]
		r.Position, r.Stored, r.Origin = 0, time.Time{}, "" // the agent did not tell of these
		if r.Equal(last) {
			continue // it is there twice
		}
		if r.Kind == lockagent.EventAgentStarted {
			a = oneLife{tenures: make(map[tenureID][]*events.Record), tokens: make(map[fold.LockKey]lockagent.Token)}
		}
		a.store = cmp.Or(a.store, r.Store)
		if x.why = cmp.Or(x.why, a.misses(last, r)); x.why != "" {
			break
		}
		x.follow(&a, r)
		last = r
	}
	if last.Kind != lockagent.EventAgentStopped || len(x.records) == 0 {
		x.why = cmp.Or(x.why, fmt.Sprintf("record %s is the last one, and its agent did not stop", placeText(last)))
	}
	holds, names := 0, make(map[fold.LockKey]bool)
	for key, all := range x.locks {
		name := fold.LockKey{Store: key.Store, Lock: key.Lock}
		if key.Excludes() && names[name] {
			x.why = cmp.Or(x.why, fmt.Sprintf("lock %q is used as two kinds of lock, which exclude each other", key.Lock))
		}
		names[name] = names[name] || key.Excludes()
		holds += x.compare(key, all)
	}
	return x.opinion(holds)
}

// oneLife is what an agent has told since its start.
type oneLife struct {
	store   string
	tenures map[tenureID][]*events.Record // those that the store has not taken back
	tokens  map[fold.LockKey]lockagent.Token
	open    int                 // holds
	sum     uint64              // of these
	free    lockagent.StoreTime // when the store had taken back the last one
}

type tenureID struct {
	fold.LockKey
	number uint64
}

// misses says why the log is not whole up to r, which comes after last.
func (a *oneLife) misses(last, r *events.Record) string {
	before, place := events.Place{Epoch: last.Epoch, Seq: last.Seq}, events.Place{Epoch: r.Epoch, Seq: r.Seq}
	if r.Agent != last.Agent {
		before = events.Place{}
	}
	begins := last.Kind == lockagent.EventAgentStopped
	follows := !begins && r.Agent == last.Agent && place == events.Place{Epoch: before.Epoch, Seq: before.Seq + 1}
	starts := begins && r.Count == 0 && r.Sum == 0 && r.Follows == before &&
		place == events.Place{Epoch: before.Epoch + 1, Seq: 1}
	key := fold.KeyOf(r.Store, r)
	foreign := r.Token != 0 && !judged(key) || r.Op == lockagent.ReleasePermit
	switch {
	case !follows && !starts, starts != (r.Kind == lockagent.EventAgentStarted):
		return fmt.Sprintf("between records %s and %s something is missing or contradicts", placeText(last), placeText(r))
	case r.Kind == 0 || r.OtherVersion || r.Raw != "":
		return fmt.Sprintf("record %s has something that this program does not know", placeText(r))
	case r.Kind == lockagent.EventDropped || r.Kind == lockagent.EventStoreReset:
		return fmt.Sprintf("record %s tells of what makes times or numbers incomparable: %v", placeText(r), r.Kind)
	case r.Store != "" && r.Store != a.store, r.Store == "" && r.Lock != "":
		return fmt.Sprintf("record %s does not name the store of its agent", placeText(r))
	case foreign, key.HasPermits() && r.How == lockagent.ByStore && r.Total == 0:
		return fmt.Sprintf("record %s is about a lock that the second opinion does not judge", placeText(r))
	}
	return ""
}

// imprecise is by how much times may differ that are computed. The nodes of a quorum have a clock each.
func imprecise(store string) time.Duration {
	if strings.HasPrefix(store, "quorum-") {
		return time.Second
	}
	return 10 * time.Millisecond
}

// follow follows one record of an agent.
func (x *Independent) follow(a *oneLife, r *events.Record) {
	id := tenureID{fold.KeyOf(r.Store, r), r.Tenure}
	log := append(a.tenures[id], r)
	switch {
	case r.Kind == lockagent.EventAlive:
		if r.Count != a.open {
			x.contradicts(r, fmt.Sprintf("it counts %d holds, and the log has %d", r.Count, a.open))
		} else if r.Sum != a.sum {
			x.contradicts(r, "it has other holds than the log")
		} else if len(a.tenures) == 0 && r.Confirmed > a.free.Add(imprecise(a.store)) {
			x.contradicts(r, "a lease was renewed when all tenures were over")
		}
		return
	case r.Kind == lockagent.EventAgentStopped:
		for _, log := range a.tenures {
			x.judge(log)
		}
		return
	case (r.Kind == lockagent.EventReturned || r.Kind == lockagent.EventRenewed) && len(log) > 1:
	case r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventReentered || r.Kind == lockagent.EventHolding:
	case r.Kind.EndsHold() && r.Token != 0: // else it tells of the hold of another agent
	default:
		return
	}
	a.tenures[id] = log
	if r.Kind == lockagent.EventHolding || r.Kind == lockagent.EventRenewed {
		return
	}
	if r.How == lockagent.ByStore && r.Token <= a.tokens[id.LockKey] && !id.HasPermits() {
		x.contradicts(r, "its token is not greater than that of the tenure before")
	} else if r.How == lockagent.ByStore {
		a.tokens[id.LockKey] = r.Token
	}
	if r.Kind == lockagent.EventGranted {
		a.open++
		a.sum += lockagent.HoldSum(r.Lock, r.Tenure, r.Token)
	} else if r.Kind.EndsHold() && r.Kind != lockagent.EventHeld && r.Count == 0 {
		a.open--
		a.sum -= lockagent.HoldSum(r.Lock, r.Tenure, r.Token)
	}
	if r.Returned != 0 {
		x.judge(log)
		delete(a.tenures, id)
		a.free = max(a.free, r.Returned, r.Until)
	}
}

// oneTenure went on from start until a time between least and most, on the clock of the store.
type oneTenure struct {
	grant                         *events.Record // the first
	start, least, most, confirmed lockagent.StoreTime
	last                          lockagent.Token // the greatest that its owners may have used
	holds, permits, total         int             // a lock has one permit in all
}

// judge makes a tenure of its records.
func (x *Independent) judge(log []*events.Record) {
	first, near := log[0], imprecise(log[0].Store)
	key := fold.KeyOf(first.Store, first)
	t := oneTenure{grant: first, start: first.StoreTime, permits: 1, total: 1}
	if key.HasPermits() {
		t.permits, t.total = max(1, first.Permits), first.Total
	}
	type hold struct {
		grant  *events.Record
		from   lockagent.StoreTime
		grants int
		lasted lockagent.StoreTime // it went on then, as a record told before its end
	}
	open := make(map[lockagent.Token]*hold)
	denied := lockagent.StoreTime(0) // when the lease was over of a hold that was lost because the store denied it
	ended := &events.Record{}        // the end of the last hold
	for i, r := range log {
		h, shared := open[r.Token], r.Mode == lockagent.Shared
		begins := r.Kind == lockagent.EventGranted || r.Kind == lockagent.EventHeld
		ofTenure := r.Token == 0 && (r.Kind == lockagent.EventReturned || r.Kind == lockagent.EventRenewed)
		switch {
		case !ofTenure && begins != (h == nil), begins && r.Token <= t.last,
			begins && (i == 0) != (r.How == lockagent.ByStore), begins && r.StoreTime == 0:
			x.contradicts(r, "it does not fit what came before it in its tenure")
			return
		case r.Mode != first.Mode:
			x.why = cmp.Or(x.why, fmt.Sprintf("record %s is of a tenure that is exclusive and shared", placeText(r)))
		case begins && r.StoreTime < first.StoreTime:
			x.why = cmp.Or(x.why, fmt.Sprintf("record %s tells of a decision before its tenure began", placeText(r)))
		case begins && !shared && len(open) > 0:
			x.pair(first, r, "the agent granted the second before the end of the first")
		}
		if begins {
			h = &hold{grant: r, from: r.StoreTime, grants: 1}
			if !shared && len(open) == 0 {
				h.from = max(h.from, t.least) // it follows the hold before
			}
			open[r.Token] = h
			t.start, t.least = min(t.start, r.StoreTime), max(t.least, r.StoreTime)
			t.confirmed = max(t.confirmed, r.StoreTime, r.Confirmed)
			t.last, t.holds = r.Token+lockagent.Token(max(1, r.Holds)-1), t.holds+1
		}
		if r.Kind == lockagent.EventReentered {
			h.grants++
		}
		if (r.Kind == lockagent.EventRenewed || r.Kind == lockagent.EventReentered) && len(open) > 0 {
			t.confirmed, t.least = max(t.confirmed, r.StoreTime), max(t.least, r.StoreTime)
			for _, of := range open {
				if len(open) == 1 { // else one of several readers had the lock
					of.lasted = max(of.lasted, r.StoreTime)
				}
			}
		}
		if r.Kind.EndsHold() {
			if h.grants--; h.grants > 0 {
				h.lasted = max(h.lasted, h.from.Add(r.Held-r.Held/drift), r.Confirmed)
			}
		}
		if r.Kind == lockagent.EventHolding {
			if g := h.grant; r.StoreTime != g.StoreTime || r.Owner != g.Owner || r.Incarnation != g.Incarnation ||
				r.Permits != g.Permits || r.Holds != g.Holds || r.Total != 0 && r.Total != g.Total ||
				r.How == lockagent.ByStore && r.How != g.How {
				x.contradicts(r, "it does not tell of its hold what the grant told")
			}
			t.confirmed = max(t.confirmed, r.Confirmed)
			h.lasted = max(h.lasted, r.Confirmed, h.from.Add(r.Held-r.Held/drift))
			if r.Lease != 0 && h.from.Add(slowed(r.Held)) > t.confirmed.Add(r.Lease+near) {
				x.contradicts(r, "its hold goes on beyond its lease")
			}
		}
		if h != nil && h.grants != r.Count {
			x.contradicts(r, fmt.Sprintf("it leaves %d grants, and the log has %d", r.Count, h.grants))
		}
		if r.Kind.EndsHold() && h.grants == 0 {
			delete(open, r.Token)
			ended = r
			t.confirmed = max(t.confirmed, r.Confirmed)
			least := max(h.from.Add(r.Held-r.Held/drift), r.Confirmed, h.lasted)
			t.least = max(t.least, least)
			until, limit := r.Until, t.confirmed.Add(r.Lease)
			switch {
			case r.Kind == lockagent.EventExpired || r.Reason == lockagent.LostDeadline:
				until = min(until, limit) // the agent trusts no lease beyond its end
			case r.Kind == lockagent.EventLost && r.Reason == lockagent.LostDenied && r.Lease != 0:
				until, denied = min(until, max(limit, least)), limit // the answer that tells of it may be slow
			}
			t.most = max(t.most, t.least, until)
			if r.Until < max(least.Add(-near), t.start) || r.Lease != 0 && until > limit {
				x.contradicts(r, "its hold ended before the time for which it was held, or beyond its lease")
			}
		}
		if r.Returned == 0 {
			continue
		}
		least, leaseEnd := t.least, denied
		if r.Kind == lockagent.EventReturned && r.Reason != 0 {
			least = t.confirmed // the store found that the tenure was over, perhaps before the agent knew it
			if denied != 0 {    // by that the agent lost it
				t.least, t.most = max(t.least, r.Returned), max(t.most, r.Returned)
			}
			if r.Reason == lockagent.LostDenied && ended.Reason == lockagent.LostDenied && ended.Lease != 0 {
				leaseEnd = t.confirmed.Add(ended.Lease) // whatever kind the record of its end has
			}
		}
		if r.Returned < least.Add(-near) || len(open) > 0 {
			x.contradicts(r, "its tenure was over before the time for which it was held")
		} else if leaseEnd != 0 && r.Returned > leaseEnd.Add(near) {
			x.contradicts(r, "its hold went on beyond its lease")
		} else if r.Reason == 0 {
			t.most = max(t.least, min(t.most, r.Returned))
		}
	}
	if len(open) > 0 {
		x.why = cmp.Or(x.why, fmt.Sprintf("record %s begins a tenure with a hold that has no end", placeText(first)))
	}
	x.locks[key] = append(x.locks[key], t)
}

// compare looks whether the tenures of a lock exclude each other, and whether their tokens grow. It counts the holds.
func (x *Independent) compare(key fold.LockKey, all []oneTenure) (holds int) {
	slices.SortFunc(all, func(a, b oneTenure) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.grant.Token, b.grant.Token))
	})
	var goOn []*oneTenure
	var began, used lockagent.Token // the greatest tokens; began leaves out those that readers used later
	for i := range all {
		t := &all[i]
		reads := t.grant.Mode == lockagent.Shared
		goOn = slices.DeleteFunc(goOn, func(g *oneTenure) bool { return g.most <= t.start })
		surely, perhaps, beside := t.permits, t.permits, t
		for _, g := range goOn {
			if reads && g.grant.Mode == lockagent.Shared {
				continue
			}
			if perhaps += g.permits; t.start < g.least.Add(-imprecise(key.Store)) {
				surely, beside = surely+g.permits, g
			}
		}
		if surely > t.total {
			x.pair(beside.grant, t.grant, "the store granted the second before the end of the first")
		} else if perhaps > t.total {
			x.doubt = cmp.Or(x.doubt, fmt.Sprintf("record %s: another hold ended at about that time", placeText(t.grant)))
		}
		least, last := used, t.last
		if reads {
			least, last = began, t.grant.Token
		}
		if t.grant.Token <= least {
			x.pair(all[i-1].grant, t.grant, "the token of the second is not greater than those before")
		}
		goOn, began, used, holds = append(goOn, t), max(began, last), max(used, t.last), holds+t.holds
	}
	return holds
}
