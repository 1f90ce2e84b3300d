package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// Independent is a second opinion on a log. It is simpler than [Audit], and judges by code of its own: it uses neither
// Audit nor [Fold]. It keeps all records in memory. The zero value is an empty log. It is not safe for concurrent use.
//
// It takes for granted that the store's clock runs evenly, that no agent is missing altogether, and that agents
// tell what they did. It does not believe an end that comes before the time for which a hold is said to have
// been held.
//
// It refuses to judge a log that is not whole: each life of an agent has to begin with number 1 and to end with
// its stop. It also refuses if the store was reset or its clock was set, if it does not know all of a record, or
// if the log contradicts itself. It knows no causes, such as breaks. It does not judge semaphores, nor a hold
// that is exclusive and shared at once. [Opinion] names such locks.
type Independent struct {
	records []Record
	opinion Opinion
	odd     string // the first contradiction: it leaves no verdict, unless holds overlapped
	holds   map[LockKey][]*oneHold
	places  map[string]string // the incarnation of each store
	without map[LockKey]bool  // locks that are not judged
}

// NoVerdict is the verdict of an [Opinion] on a log that [Independent] refuses to judge.
const NoVerdict Verdict = "none"

// Opinion is what an [Independent] says of a log.
type Opinion struct {
	Verdict   Verdict       `json:"verdict"`              // Proven, Violated or NoVerdict
	Why       string        `json:"why,omitempty"`        // there is no verdict
	Holds     int           `json:"holds"`                // that were compared
	Pairs     []OpinionPair `json:"pairs,omitempty"`      // of holds that overlapped, or whose tokens did not grow
	NotJudged []LockKey     `json:"not_judged,omitempty"` // the verdict is not about these locks
}

// OpinionPair are two holds of a lock that exclude each other.
type OpinionPair struct {
	LockKey
	First  string `json:"first"` // the record of its grant: agent, epoch and number
	Second string `json:"second"`
	What   string `json:"what"`
}

// oneHold is a hold. It went on from start until a time between least and most, on the clock of the store.
type oneHold struct {
	record             Record // its grant
	tenure             *oneTenure
	grants             int
	start, least, most lockagent.StoreTime
}

// oneTenure is a time for which the store gives a lock to an agent. Its holds follow each other.
type oneTenure struct {
	start, least lockagent.StoreTime // least is when its holds were over at the earliest
	confirmed    lockagent.StoreTime
	first, last  lockagent.Token
	holds        []*oneHold
	open         int // holds that go on
	over         bool
}

// Visit adds what a [Reader] or [ReadLines] passes. A caller sets the [Record.Position] to 0 if it tells nothing.
func (x *Independent) Visit(r *Record, err error) error {
	if err != nil {
		x.refuse("a record cannot be read: %v", err)
		return nil
	}
	x.records = append(x.records, *r)
	return nil
}

// refuse notes the first reason for which there is no verdict. contradicts notes the first contradiction.
func (x *Independent) refuse(format string, args ...any) {
	if x.opinion.Why == "" {
		x.opinion.Why = fmt.Sprintf(format, args...)
	}
}

func (x *Independent) contradicts(r *Record, why string) {
	if x.odd == "" {
		x.odd = fmt.Sprintf("record %s (%v) is in doubt: %s", placeText(r), r.Kind, why)
	}
}

func placeText(r *Record) string { return fmt.Sprintf("%s:%d:%d", r.Agent, r.Epoch, r.Seq) }

// Opinion judges the records. Call it once.
func (x *Independent) Opinion() Opinion {
	x.holds, x.places, x.without = make(map[LockKey][]*oneHold), make(map[string]string), make(map[LockKey]bool)
	x.positions()
	slices.SortStableFunc(x.records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	for i := 0; i < len(x.records); {
		j := i + 1
		for j < len(x.records) && x.records[j].Agent == x.records[i].Agent {
			j++
		}
		x.agent(x.records[i:j])
		i = j
	}
	o := &x.opinion
	for key, holds := range x.holds {
		if !x.without[key] {
			x.compare(key, holds)
		}
	}
	for key := range x.without {
		o.NotJudged = append(o.NotJudged, key)
	}
	slices.SortFunc(o.NotJudged, LockKey.compare)
	slices.SortFunc(o.Pairs, func(a, b OpinionPair) int {
		return cmp.Or(a.LockKey.compare(b.LockKey), cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second))
	})
	if len(o.Pairs) == 0 && o.Why == "" {
		o.Why = x.odd
	}
	switch {
	case len(x.records) == 0:
		x.refuse("there are no records")
		o.Verdict = NoVerdict
	case o.Why != "":
		o.Verdict, o.Pairs = NoVerdict, nil
	case len(o.Pairs) > 0:
		o.Verdict = Violated
	case o.Holds == 0 && len(o.NotJudged) > 0:
		x.refuse("no lock can be judged")
		o.Verdict = NoVerdict
	default:
		o.Verdict = Proven
	}
	return *o
}

// positions looks for messages of the stream that are missing.
func (x *Independent) positions() {
	var all []uint64
	for i := range x.records {
		if p := x.records[i].Position; p != 0 {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	for i, p := range slices.Compact(all) {
		if p != uint64(i)+1 {
			x.refuse("message %d is missing", i+1)
			return
		}
	}
}

// agent follows the records of an agent, in their order.
func (x *Independent) agent(log []Record) {
	var a oneAgent
	for i := range log {
		r := log[i]
		r.Position, r.Stored = 0, time.Time{}
		last := a.last
		if r == last {
			continue // it is there twice
		}
		next := r.Epoch == last.Epoch && r.Seq == last.Seq+1 &&
			last.Kind != lockagent.EventAgentStopped && r.Kind != lockagent.EventAgentStarted
		begins := r.Epoch == last.Epoch+1 && r.Seq == 1 && r.Kind == lockagent.EventAgentStarted && r.Count == 0 &&
			r.Follows == (Place{last.Epoch, last.Seq}) && (last.Epoch == 0 || last.Kind == lockagent.EventAgentStopped)
		switch {
		case !next && !begins:
			x.refuse("before record %s something is missing, or it is there twice", placeText(&r))
		case r.Kind.String() == lockagent.EventKind(0).String() || r.OtherVersion || r.Raw != "":
			x.refuse("record %s has something that this program does not know", placeText(&r))
		case r.Kind == lockagent.EventDropped:
			x.refuse("record %s tells of events that were dropped", placeText(&r))
		case r.Kind == lockagent.EventStoreReset:
			x.refuse("record %s tells that the store was reset, or that its clock was set", placeText(&r))
		case r.Store != "" && a.store != "" && r.Store != a.store || r.Store == "" && r.Lock != "":
			x.refuse("record %s does not name the store of its agent", placeText(&r))
		}
		if x.opinion.Why != "" {
			return
		}
		a.store, a.last = cmp.Or(r.Store, a.store), r
		x.record(&a, &r)
	}
	if a.last.Kind != lockagent.EventAgentStopped {
		x.refuse("record %s is the last of its agent, which did not stop", placeText(&a.last))
	}
}

// oneAgent is what the records of one life of an agent have told. Its store and its last record are of all lives.
type oneAgent struct {
	store   string
	last    Record
	tenures map[tenureOf]*oneTenure
	open    map[holdIn]*oneHold
	latest  map[LockKey]*oneTenure
	free    lockagent.StoreTime // when the last of its tenures was over that the log has the return of
}

type tenureOf struct {
	LockKey
	number uint64
}

type holdIn struct {
	*oneTenure
	token lockagent.Token
}

// imprecise is by how much times may differ that are computed from durations. The nodes of a quorum have a clock
// each.
func imprecise(store string) time.Duration {
	if strings.HasPrefix(store, "quorum-") {
		return time.Second
	}
	return 10 * time.Millisecond
}

// record follows one record of an agent.
func (x *Independent) record(a *oneAgent, r *Record) {
	key := LockKey{r.Store, cmp.Or(r.LockKind, lockagent.PlainLock), r.Lock}
	t := a.tenures[tenureOf{key, r.Tenure}]
	h := a.open[holdIn{t, r.Token}]
	switch {
	case r.Kind == lockagent.EventAgentStarted:
		a.tenures, a.open, a.free = make(map[tenureOf]*oneTenure), make(map[holdIn]*oneHold), 0
		a.latest = make(map[LockKey]*oneTenure)
	case r.Kind == lockagent.EventAgentStopped:
		for _, h := range a.open {
			x.refuse("record %s grants a hold whose end is missing", placeText(&h.record))
		}
	case r.Kind == lockagent.EventAlive:
		kept := false
		for _, t := range a.tenures {
			kept = kept || !t.over
		}
		if r.Count != len(a.open) {
			x.contradicts(r, fmt.Sprintf("it counts %d holds, and the log has %d", r.Count, len(a.open)))
		} else if !kept && r.Confirmed > a.free.Add(imprecise(a.store)) {
			x.contradicts(r, "a lease was renewed when all tenures were over")
		}
	case r.Lock == "":
	case r.Kind == lockagent.EventReentered || r.Kind.EndsHold() && r.Count > 0 && r.Kind != lockagent.EventHeld:
		by := 1
		if r.Kind != lockagent.EventReentered {
			by = -1
		}
		switch {
		case h == nil || r.Count != h.grants+by:
			x.contradicts(r, "the number of grants is another one")
		case r.Mode != h.record.Mode:
			x.without[key] = true // it is exclusive and shared
		}
		if h != nil {
			h.grants = r.Count
		}
	case r.Kind == lockagent.EventGranted:
		x.granted(a, key, t, r)
	case r.Kind == lockagent.EventHeld:
		if h = x.granted(a, key, t, r); r.Count == 0 {
			x.ended(a, h, r)
		} else {
			x.contradicts(r, "a whole hold has no grants left")
		}
	case r.Kind.EndsHold() && r.Token != 0:
		if h == nil || h.grants != 1 {
			x.contradicts(r, "it ends another number of grants than there are")
		}
		if h != nil {
			x.ended(a, h, r)
		}
	case r.Kind == lockagent.EventReturned && t != nil:
		if t.open > 0 {
			x.contradicts(r, "the tenure was returned while it was held")
		}
		x.returned(a, t, r)
	}
}

// granted begins a hold, and the tenure t if there is none.
func (x *Independent) granted(a *oneAgent, key LockKey, t *oneTenure, r *Record) *oneHold {
	switch key.Kind {
	case lockagent.PlainLock, lockagent.FairLock, lockagent.FencedLock, lockagent.SpinLock, lockagent.ReadWriteLock:
	default:
		x.without[key] = true
	}
	if before := x.places[key.Store]; before != "" && r.Incarnation != "" && before != r.Incarnation {
		x.refuse("record %s was granted by another incarnation of its store", placeText(r))
	}
	x.places[key.Store] = cmp.Or(x.places[key.Store], r.Incarnation)
	switch {
	case r.StoreTime == 0 || r.Token == 0 || (r.How == lockagent.ByStore) != (t == nil):
		x.contradicts(r, "the beginning of its tenure is missing, or there are two")
	case r.Mode != lockagent.Exclusive && r.Mode != lockagent.Shared && r.Mode != "":
		x.without[key] = true
	}
	if t != nil && t.over && r.How == lockagent.ByStore {
		t = nil // that was another one
	}
	if t == nil {
		if before := a.latest[key]; before != nil && r.Token <= before.last && r.StoreTime <= before.start {
			x.contradicts(r, "its tenure is older than the one that its agent had before")
		}
		t = &oneTenure{start: r.StoreTime, least: r.StoreTime, first: r.Token}
		a.tenures[tenureOf{key, r.Tenure}], a.latest[key] = t, t
	}
	if r.Kind == lockagent.EventGranted && r.Count != 1 || r.Token <= t.last || t.over {
		x.contradicts(r, "its count, its token or its tenure is not that of a new grant")
	}
	for _, other := range t.holds {
		_, goesOn := a.open[holdIn{t, other.record.Token}]
		if alone := other.record.Mode != lockagent.Shared; alone != (r.Mode != lockagent.Shared) {
			x.without[key] = true // the tenure is exclusive and shared
			if goesOn {
				x.contradicts(r, "a reader and a writer have the lock at once")
			}
		} else if goesOn && alone {
			x.pair(key, other, r, "the agent granted the second before the end of the first")
		}
	}
	h := &oneHold{record: *r, tenure: t, grants: 1, start: t.start, least: r.StoreTime}
	if t.start = min(t.start, r.StoreTime); t.open == 0 && r.Mode != lockagent.Shared {
		h.least = max(h.least, t.least)
	}
	t.holds, t.open = append(t.holds, h), t.open+1
	t.last = max(t.last, r.Token+lockagent.Token(max(1, r.Holds)-1))
	t.confirmed = max(t.confirmed, r.StoreTime, r.Confirmed)
	a.open[holdIn{t, r.Token}] = h
	x.holds[key] = append(x.holds[key], h)
	return h
}

// ended ends a hold. It went on for as long as it was held, and until the store confirmed its lease, whatever
// else is said.
func (x *Independent) ended(a *oneAgent, h *oneHold, r *Record) {
	t, near := h.tenure, imprecise(r.Store)
	delete(a.open, holdIn{t, r.Token})
	t.open--
	t.confirmed = max(t.confirmed, r.Confirmed)
	h.least = max(h.least.Add(r.Held-r.Held/1000), r.Confirmed)
	h.most = max(r.Until, h.least)
	byItself := r.Kind == lockagent.EventExpired || r.Reason == lockagent.LostDeadline
	switch limit := t.confirmed.Add(r.Lease); {
	case r.Until == 0 || r.Until < h.least.Add(-near) || r.Until < t.start:
		x.contradicts(r, "its hold ended before the time for which it was held")
	case r.Lease != 0 && r.Until > limit && !byItself:
		x.contradicts(r, "its hold went on beyond its lease")
	case r.Lease != 0 && byItself:
		h.least, h.most = min(h.least, limit), min(h.most, limit)
	}
	t.least = max(t.least, h.least)
	if r.Returned != 0 {
		x.returned(a, t, r)
	}
}

// returned notes that the store has ended a tenure, or had ended it before if there is a reason.
func (x *Independent) returned(a *oneAgent, t *oneTenure, r *Record) {
	least := t.least
	if r.Kind == lockagent.EventReturned && r.Reason != 0 {
		least = t.confirmed
	}
	if r.Returned != 0 && r.Returned < least.Add(-imprecise(r.Store)) {
		x.contradicts(r, "its tenure was over before the time for which it was held")
	}
	t.over, a.free = true, max(a.free, r.Returned, r.Until)
	for _, h := range t.holds {
		if r.Returned != 0 && r.Reason == 0 && h.most != 0 {
			h.most = max(h.least, min(h.most, r.Returned))
		}
	}
}

// compare looks whether two holds of a lock overlapped, and whether the tokens grew. A tenure excludes others
// from its start on, so each of its holds is taken to begin there.
func (x *Independent) compare(key LockKey, holds []*oneHold) {
	for _, h := range holds {
		h.start = h.tenure.start
	}
	slices.SortFunc(holds, func(a, b *oneHold) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.record.Token, b.record.Token))
	})
	x.opinion.Holds += len(holds)
	var greatest *oneHold // that with the greatest token before
	var goOn []*oneHold
	for _, h := range holds {
		shared := h.record.Mode == lockagent.Shared
		if g := greatest; g != nil && g.tenure != h.tenure {
			if readers := shared && g.record.Mode == lockagent.Shared; readers && h.tenure.first <= g.tenure.first {
				x.contradicts(&h.record, "its token is not greater than that of a reader that began before")
			} else if !readers && h.record.Token <= g.tenure.last {
				x.pair(key, g, &h.record, "the token of the second is not greater")
			}
		}
		if greatest == nil || h.record.Token > greatest.record.Token {
			greatest = h
		}
		goOn = slices.DeleteFunc(goOn, func(g *oneHold) bool { return g.most <= h.start })
		for _, g := range goOn {
			same := g.record.Agent == h.record.Agent && g.record.Epoch == h.record.Epoch // which tells their order
			switch {
			case g.tenure == h.tenure || shared && g.record.Mode == lockagent.Shared:
			case h.start < g.least.Add(-imprecise(key.Store)):
				x.pair(key, g, &h.record, "the store granted the second before the end of the first")
			case !same:
				x.contradicts(&h.record, fmt.Sprintf("the hold of record %s ended at about that time", placeText(&g.record)))
			}
		}
		goOn = append(goOn, h)
	}
}

// pair notes two holds that should not have been.
func (x *Independent) pair(key LockKey, first *oneHold, second *Record, what string) {
	x.opinion.Pairs = append(x.opinion.Pairs, OpinionPair{key, placeText(&first.record), placeText(second), what})
}
