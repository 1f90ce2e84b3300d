// Package logtest has records, logs, and what bad disks and liars make of them, for tests of those who read logs.
package logtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
)

// corruption changes a log.
type corruption struct {
	Name string
	// do returns the changed log, or nil if it cannot change that one. It may change the log that
	// it is given. The messages of the result need new positions if order is changed.
	Do func(r *rand.Rand, log []events.Record) []events.Record
}

// Retirement is what a stream does that keeps its messages for a while. The positions tell of it.
const Retirement = "the beginning of the stream is removed"

// The corruptions that leave each record as its agent wrote it. The true history is still that of the
// log, apart from what is missing.
var Removals = []corruption{
	{"a record is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		return slices.Delete(log, i, i+1)
	}},
	{"several records are removed", func(r *rand.Rand, log []events.Record) []events.Record {
		for range 2 + r.IntN(6) {
			i := r.IntN(len(log))
			log = slices.Delete(log, i, i+1)
		}
		return log
	}},
	{"a message is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		at := log[r.IntN(len(log))].Position
		return slices.DeleteFunc(log, func(x events.Record) bool { return x.Position == at })
	}},
	{"the tail of an agent is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		first := log[i]
		return slices.DeleteFunc(log, func(x events.Record) bool {
			return x.Agent == first.Agent && events.ComparePlaces(&x, &first) >= 0
		})
	}},
	{"the tail of an epoch is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		first := log[i]
		return slices.DeleteFunc(log, func(x events.Record) bool {
			return x.Agent == first.Agent && x.Epoch == first.Epoch && x.Seq >= first.Seq
		})
	}},
	{"an epoch is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		of := log[r.IntN(len(log))]
		return slices.DeleteFunc(log, func(x events.Record) bool { return x.Agent == of.Agent && x.Epoch == of.Epoch })
	}},
	{"an agent is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		of := log[r.IntN(len(log))].Agent
		return slices.DeleteFunc(log, func(x events.Record) bool { return x.Agent == of })
	}},
	{"a stretch of the stream is removed", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		return slices.Delete(log, i, i+1+r.IntN(len(log)-i))
	}},
	{Retirement, func(r *rand.Rand, log []events.Record) []events.Record {
		at := log[r.IntN(len(log))].Position
		return slices.DeleteFunc(log, func(x events.Record) bool { return x.Position < at })
	}},
}

// Repetitions say nothing new.
var Repetitions = []corruption{
	{"a record comes twice", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		return slices.Insert(log, i+1+r.IntN(min(20, len(log)-i)), log[i])
	}},
	{"a stretch of the stream comes twice", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		j := i + 1 + r.IntN(min(20, len(log)-i))
		return slices.Insert(log, j, slices.Clone(log[i:j])...)
	}},
}

// Disorders change the order of arrival.
var Disorders = []corruption{
	{"two records are swapped", func(r *rand.Rand, log []events.Record) []events.Record {
		i, j := r.IntN(len(log)), r.IntN(len(log))
		log[i], log[j] = log[j], log[i]
		return log
	}},
	{"a record comes late", func(r *rand.Rand, log []events.Record) []events.Record {
		i := r.IntN(len(log))
		late := log[i]
		log = slices.Delete(log, i, i+1)
		return slices.Insert(log, i+r.IntN(len(log)-i+1), late)
	}},
	{"the tail of an agent comes late", func(r *rand.Rand, log []events.Record) []events.Record {
		first := log[r.IntN(len(log))]
		var late []events.Record
		log = slices.DeleteFunc(log, func(x events.Record) bool {
			if x.Agent != first.Agent || events.ComparePlaces(&x, &first) < 0 {
				return false
			}
			late = append(late, x)
			return true
		})
		return append(log, late...)
	}},
}

// Renumbered gives the records new positions, and times of storage that do not go back.
func Renumbered(log []events.Record) []events.Record {
	var last time.Time
	for i := range log {
		log[i].Position = uint64(i) + 1
		if log[i].Stored.Before(last) {
			log[i].Stored = last
		}
		last = log[i].Stored
	}
	return log
}

// Alteration changes a field of one record. What the log then says is a lie.
type Alteration struct {
	Name string
	Do   func(r *rand.Rand, x *events.Record) bool // false if it does not fit

	// harmless says why the verdict may stay, if it may: what the altered log says is another
	// history that is possible, and in which no two holds overlapped. It is empty if the
	// alteration is always found.
	Harmless string
}

const (
	NeverRead   = "no verdict depends on the field"
	another     = "the hold was a little longer, shorter, earlier or later, beside no other"
	elsewhere   = "the record is about a lock, an agent or a store of which the log says nothing else"
	toldOnce    = "no verdict depends on the field, unless the log tells of the hold again while it goes on"
	unneeded    = "no overlap needs the reset as its cause, or another agent tells of it as well"
	excuses     = "no proof rests on a grace period, which only takes excuses from overlaps"
	notJudgedIt = "holds of that kind are not judged, and are counted"
)

func event(
	do func(*rand.Rand, *lockagent.Event), fits func(*lockagent.Event) bool,
) func(*rand.Rand, *events.Record) bool {
	return func(r *rand.Rand, x *events.Record) bool {
		if !fits(&x.Event) {
			return false
		}
		do(r, &x.Event)
		return true
	}
}

// ofGrace changes a copy of a grace period.
func ofGrace(do func(*rand.Rand, *lockagent.GracePeriod)) func(*rand.Rand, *events.Record) bool {
	return func(r *rand.Rand, x *events.Record) bool {
		if x.Grace == nil {
			return false
		}
		changed := *x.Grace
		do(r, &changed)
		x.Grace = &changed
		return true
	}
}

func aboutLock(e *lockagent.Event) bool { return e.Lock != "" }
func ofGrant(e *lockagent.Event) bool   { return e.Token != 0 }
func ofReset(e *lockagent.Event) bool   { return e.Kind == lockagent.EventStoreReset }
func always(*lockagent.Event) bool      { return true }

var Alterations = []Alteration{
	{"token", event(func(r *rand.Rand, e *lockagent.Event) { e.Token += lockagent.Token(jump(r)) }, ofGrant), another},
	{"tenure", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Tenure += 1 + r.Uint64N(3)
	}, func(e *lockagent.Event) bool { return e.Tenure != 0 }), another},
	{"store time", event(func(r *rand.Rand, e *lockagent.Event) {
		e.StoreTime += jump(r)
	}, func(e *lockagent.Event) bool { return e.StoreTime != 0 }), another},
	{"until", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Until += jump(r)
	}, func(e *lockagent.Event) bool { return e.Until != 0 }), another},
	{"confirmed", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Confirmed += jump(r)
	}, func(e *lockagent.Event) bool { return e.Confirmed != 0 }), another},
	{"returned", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Returned += jump(r)
	}, func(e *lockagent.Event) bool { return e.Returned != 0 }), another},
	{"held", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Held += time.Duration(jump(r)) * time.Microsecond
	}, func(e *lockagent.Event) bool { return e.Held != 0 }), another},
	{"lease", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Lease = time.Duration(r.IntN(20)) * time.Second
	}, func(e *lockagent.Event) bool { return e.Lease != 0 }), another},
	{"fixed", event(func(r *rand.Rand, e *lockagent.Event) { e.Fixed = !e.Fixed }, ofGrant), another},
	{"count", event(func(r *rand.Rand, e *lockagent.Event) { e.Count++ }, ofGrant), another},
	{"no count", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Count = 0
	}, func(e *lockagent.Event) bool { return e.Kind == lockagent.EventReleased && e.Count > 0 }), ""},
	{"sum", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Sum += 1 + r.Uint64N(9)
	}, func(e *lockagent.Event) bool { return e.Sum != 0 }), ""},
	{"lock", event(func(r *rand.Rand, e *lockagent.Event) { e.Lock += "x" }, aboutLock), elsewhere},
	{"other lock", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Lock = "a"
	}, func(e *lockagent.Event) bool { return e.Lock != "" && e.Lock != "a" }), another},
	{"kind of lock", event(func(r *rand.Rand, e *lockagent.Event) { e.LockKind = "barrier" }, aboutLock), notJudgedIt},
	{"shared", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Mode = lockagent.Shared
	}, func(e *lockagent.Event) bool { return e.Mode == lockagent.Exclusive }), another},
	{"exclusive", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Mode = lockagent.Exclusive
	}, func(e *lockagent.Event) bool { return e.Mode == lockagent.Shared }), another},
	{"store", event(func(r *rand.Rand, e *lockagent.Event) { e.Store = "other" }, always), elsewhere},
	{"kind", event(func(r *rand.Rand, e *lockagent.Event) { e.Kind = lockagent.EventRequested }, aboutLock), another},
	{"how", event(func(r *rand.Rand, e *lockagent.Event) {
		e.How = 3 - e.How
	}, func(e *lockagent.Event) bool { return e.How != 0 }), another},
	{"reason", event(func(r *rand.Rand, e *lockagent.Event) {
		if e.Reason != lockagent.LostDenied {
			e.Reason = lockagent.LostDenied
		} else {
			e.Reason = 0
		}
	}, func(e *lockagent.Event) bool { return e.Kind.EndsHold() && e.Token != 0 }), another},
	{"permits", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Permits += 1 + r.IntN(3)
	}, func(e *lockagent.Event) bool { return e.Permits != 0 && e.Kind != lockagent.EventPermits }), another},
	{"all permits", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Total += 1 + r.IntN(3)
	}, func(e *lockagent.Event) bool { return e.Total != 0 && e.How != 0 }), ""},
	{"a change of permits", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Permits++
	}, func(e *lockagent.Event) bool { return e.Kind == lockagent.EventPermits }), another},
	{"no change of permits", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Op = ""
	}, func(e *lockagent.Event) bool { return e.Kind == lockagent.EventPermits }), another},
	{"incarnation", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Incarnation += "x"
	}, func(e *lockagent.Event) bool { return e.Incarnation != "" }), another},
	{"owner", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Owner += "x"
	}, func(e *lockagent.Event) bool { return e.Owner != "" }), toldOnce},
	{"wall clock", event(func(r *rand.Rand, e *lockagent.Event) { e.Time = e.Time.Add(-time.Hour) }, always), NeverRead},
	{"request", event(func(r *rand.Rand, e *lockagent.Event) { e.Request += 1 + r.Uint64N(9) }, always), NeverRead},
	{"waiters", event(func(r *rand.Rand, e *lockagent.Event) { e.Waiters++ }, always), NeverRead},
	{"holder", event(func(r *rand.Rand, e *lockagent.Event) { e.Holder += "x" }, always), NeverRead},
	{"waited", event(func(r *rand.Rand, e *lockagent.Event) { e.Waited += time.Hour }, always), NeverRead},
	{"remaining", event(func(r *rand.Rand, e *lockagent.Event) { e.Remaining += time.Hour }, always), NeverRead},
	{"replicas", event(func(r *rand.Rand, e *lockagent.Event) { e.Replicas++ }, always), NeverRead},
	{"error", event(func(r *rand.Rand, e *lockagent.Event) { e.Err += "x" }, always), NeverRead},
	{"trace", event(func(r *rand.Rand, e *lockagent.Event) { e.TraceParent += "x" }, always), NeverRead},
	{"operator", event(func(r *rand.Rand, e *lockagent.Event) { e.Operator += "x" }, always), NeverRead},
	{"who", event(func(r *rand.Rand, e *lockagent.Event) {
		p := e.Who.Process()
		p.PID++
		e.Who = p.Who()
	}, always), NeverRead},
	{"process", event(func(r *rand.Rand, e *lockagent.Event) { e.Process.PID++ }, always), NeverRead},
	{"permit", event(func(r *rand.Rand, e *lockagent.Event) { e.Permit += "x" }, always), another},
	{"reset", event(func(r *rand.Rand, e *lockagent.Event) { e.Reset.Before += jump(r) }, always), another},
	{"reset after", event(func(r *rand.Rand, e *lockagent.Event) { e.Reset.After += jump(r) }, ofReset), another},
	{"reset from", event(func(r *rand.Rand, e *lockagent.Event) { e.Reset.From += "x" }, ofReset), unneeded},
	{"reset to", event(func(r *rand.Rand, e *lockagent.Event) { e.Reset.To += "x" }, ofReset), unneeded},
	{"no reset", event(func(r *rand.Rand, e *lockagent.Event) { e.Reset.To = e.Reset.From }, ofReset), unneeded},
	{"grace", ofGrace(func(r *rand.Rand, g *lockagent.GracePeriod) { g.Incarnation += "x" }), excuses},
	{"no grace", event(func(r *rand.Rand, e *lockagent.Event) {
		e.Grace = nil
	}, func(e *lockagent.Event) bool { return e.Grace != nil }), excuses},
	{"grace began", ofGrace(func(r *rand.Rand, g *lockagent.GracePeriod) { g.Began += jump(r) }), excuses},
	{"grace ended", ofGrace(func(r *rand.Rand, g *lockagent.GracePeriod) { g.Ended += jump(r) }), excuses},
	{"roll", ofGrace(func(r *rand.Rand, g *lockagent.GracePeriod) { g.Roll = nil }), excuses},
	{"holds", event(func(r *rand.Rand, e *lockagent.Event) { e.Holds += 1 + r.IntN(99) }, ofGrant), another},
	{"dropped", func(r *rand.Rand, x *events.Record) bool {
		x.Dropped[lockagent.EventGranted]++
		return true
	}, "only a record that is EventDropped has the field"},
	{"nothing dropped", func(r *rand.Rand, x *events.Record) bool {
		x.Dropped = events.Drops{}
		return x.Kind == lockagent.EventDropped
	}, ""},
	{"what came before", func(r *rand.Rand, x *events.Record) bool {
		x.Follows.Seq++
		return x.Kind == lockagent.EventAgentStarted
	}, another},
	{"other version", func(r *rand.Rand, x *events.Record) bool { x.OtherVersion = true; x.Kind = 0; return true }, ""},
	{"number", func(r *rand.Rand, x *events.Record) bool { x.Seq += 1 + r.Uint64N(5); return true }, ""},
	{"epoch", func(r *rand.Rand, x *events.Record) bool { x.Epoch++; return true }, ""},
	{"agent", func(r *rand.Rand, x *events.Record) bool { x.Agent += "x"; return true }, ""},
}

// jump is a time by which another one is wrong, in microseconds.
func jump(r *rand.Rand) lockagent.StoreTime {
	d := []lockagent.StoreTime{1, 1000, 100_000, 5_000_000, 40_000_000}[r.IntN(5)]
	if r.IntN(2) == 0 {
		return -d
	}
	return d
}

// leastCaught is how many of a hundred corruptions of each kind do not leave a log proven, at least. Others say so
// little that they may be true. For example, a record says that a lease was renewed, and names another kind of lock:
// nobody needs that record.
//
// The numbers of alterations come from seventeen runs over all worlds of the audit's tests. Each is the rate of all
// runs together, less three times what one run differs from the next. These are the rates:
//
//	token 91       lock 69          exclusive 79    confirmed 17
//	tenure 68      other lock 71    store time 36   returned 28
//	store 52       kind of lock 75  until 28        held 24
//	kind 56        how 78           reason 73
//
// A wrong how of a grant, or of a whole hold, is nearly always found. That of a record that a hold goes on is never
// found, because the log has the grant of that hold.
var leastCaught = map[string]int{
	"a record is removed": 90, "several records are removed": 90, "a message is removed": 90,
	"the tail of an agent is removed": 90, "the tail of an epoch is removed": 90, "a stretch of the stream is removed": 90,
	Retirement: 60, "an epoch is removed": 25, "an agent is removed": 0,

	"sum": 100, "token": 75, "tenure": 45, "store time": 5, "until": 8, "confirmed": 3, "returned": 10, "held": 4,
	"count": 90, "no count": 100,
	"lock": 45, "other lock": 45, "kind of lock": 50, "exclusive": 10, "store": 30, "kind": 30, "how": 60, "reason": 40,
	"no reset":      60,
	"other version": 100, "number": 100, "epoch": 100, "agent": 100,
}

// FewCaught returns an error unless enough corruptions of a kind were caught, of so many that were tried. Of a few
// there may be fewer: none of ten, if it is one in a hundred.
func FewCaught(name string, caught, tried int) error {
	least := leastCaught[name]
	if tried < 20 {
		least /= 4
	}
	if tried == 0 && least > 60 || caught < least*tried/100 {
		return fmt.Errorf("%s: %d of %d caught, want %d %% at least", name, caught, tried, least)
	}
	return nil
}

// FullRecord has every field set, whatever its kind.
func FullRecord(kind lockagent.EventKind) events.Record {
	r := events.Record{Event: eventstest.Full(kind), Epoch: 3, Seq: 9, Follows: events.Place{Epoch: 2, Seq: 26}}
	for _, k := range lockagent.EventKinds() {
		r.Dropped[k] = uint32(k)
	}
	return r
}

// BatchOf encodes records as one message without a table.
func BatchOf(records []events.Record) []byte {
	b := []byte{'['}
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = events.Append(b, r)
	}
	return append(b, ']')
}

// Waits are the kinds of events by which somebody waits for a lock, or for an answer. They say nothing of a hold. No
// verdict rests on them.
var Waits = []lockagent.EventKind{
	lockagent.EventRequested, lockagent.EventQueued, lockagent.EventUncertain, lockagent.EventTimedOut,
	lockagent.EventCancelled, lockagent.EventRefused,
}

// MissingNumbers counts the records that are missing by the numbers and the epochs of those that are
// there. Nobody misses those before the beginning of a stream that begins late, nor Waits that found no room.
func MissingNumbers(log []events.Record) (n int) {
	type life struct {
		agent lockagent.AgentID
		epoch uint64
	}
	lives := make(map[life][]uint64)
	follows := make(map[life]uint64)
	for i := range log {
		r := &log[i]
		seqs := append(lives[life{r.Agent, r.Epoch}], r.Seq)
		if r.Kind == lockagent.EventDropped && onlyWaits(&r.Dropped) {
			for n := range r.Dropped.Sum() {
				seqs = append(seqs, r.Seq-n-1)
			}
		}
		lives[life{r.Agent, r.Epoch}] = seqs
		if f := r.Follows; f.Epoch != 0 {
			follows[life{r.Agent, f.Epoch}] = f.Seq
		}
	}
	late := len(log) > 0 && log[0].Position > 1
	for of, seqs := range lives {
		slices.Sort(seqs)
		seqs = slices.Compact(seqs)
		if !late {
			n += int(seqs[0]) - 1
		}
		last := seqs[len(seqs)-1]
		n += int(max(last, follows[of])) - int(seqs[0]) + 1 - len(seqs)
	}
	for of, last := range follows {
		if lives[of] == nil && !late {
			n += int(last)
		}
	}
	return n
}

// onlyWaits reports whether nothing but Waits was dropped.
func onlyWaits(d *events.Drops) bool {
	waits := uint64(0)
	for _, kind := range Waits {
		waits += uint64(d[kind])
	}
	return waits == d.Sum()
}
