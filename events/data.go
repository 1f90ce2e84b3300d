package events

import (
	"math"
	"time"

	"github.com/lockagent/lockagent"
)

// The fields of the data, in the order in which Append writes them.
const (
	fieldStore = iota
	fieldLock
	fieldKind
	fieldMode
	fieldOwner
	fieldRequest
	fieldTenure
	fieldToken
	fieldHow
	fieldCount
	fieldPermits
	fieldTotal
	fieldOp
	fieldPermit
	fieldReplicas
	fieldHolds
	fieldWaiters
	fieldHolder
	fieldWaited
	fieldHeld
	fieldLease
	fieldRemaining
	fieldFixed
	fieldStoreTime
	fieldConfirmed
	fieldUntil
	fieldReturned
	fieldIncarnation
	fieldReason
	fieldOperator
	fieldError
	fieldReset
	fieldProcess
	fieldFollows
	fieldDropped
)

var fieldNames = newNames([]string{
	fieldStore:       "store",
	fieldLock:        "lock",
	fieldKind:        "kind",
	fieldMode:        "mode",
	fieldOwner:       "owner",
	fieldRequest:     "request",
	fieldTenure:      "tenure",
	fieldToken:       "token",
	fieldHow:         "how",
	fieldCount:       "count",
	fieldPermits:     "permits",
	fieldTotal:       "total",
	fieldOp:          "op",
	fieldPermit:      "permit",
	fieldReplicas:    "replicas",
	fieldHolds:       "holds",
	fieldWaiters:     "waiters",
	fieldHolder:      "holder",
	fieldWaited:      "waited_us",
	fieldHeld:        "held_us",
	fieldLease:       "lease_us",
	fieldRemaining:   "remaining_us",
	fieldFixed:       "fixed",
	fieldStoreTime:   "store_time_us",
	fieldConfirmed:   "confirmed_us",
	fieldUntil:       "until_us",
	fieldReturned:    "returned_us",
	fieldIncarnation: "incarnation",
	fieldReason:      "reason",
	fieldOperator:    "operator",
	fieldError:       "error",
	fieldReset:       "reset",
	fieldProcess:     "process",
	fieldFollows:     "follows",
	fieldDropped:     "dropped",
}...)

// data reads the data of an event whose Kind is known, or whose type is of this version.
func (d *decoder) data(r *Record) {
	fields := members{names: fieldNames}
	counted := !counted(r.Kind)
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		field := d.member(&fields)
		d.field(field, r)
		counted = counted || field == fieldCount
	}
	if !counted {
		d.fail("a grant or an end has no count")
	}
	r.imply()
}

// field reads the value of a field. Of -1 there is none.
func (d *decoder) field(field int, r *Record) {
	switch field {
	case fieldStore:
		r.Store = d.word(fieldStore)
	case fieldLock:
		r.Lock = lockagent.Name(d.word(fieldLock))
	case fieldKind:
		r.LockKind = lockagent.LockKind(d.word(fieldKind))
	case fieldMode:
		r.Mode = lockagent.Mode(d.word(fieldMode))
	case fieldOwner:
		r.Owner = lockagent.Owner(d.word(fieldOwner))
	case fieldRequest:
		r.Request = d.unsigned()
	case fieldTenure:
		r.Tenure = d.unsigned()
	case fieldToken:
		r.Token = lockagent.Token(d.unsigned())
	case fieldHow:
		r.How = d.how()
	case fieldCount:
		r.Count = int(d.signed())
	case fieldPermits:
		r.Permits = int(d.signed())
	case fieldTotal:
		r.Total = int(d.signed())
	case fieldOp:
		r.Op = lockagent.PermitsOp(d.word(fieldOp))
	case fieldPermit:
		r.Permit = lockagent.PermitID(d.rareWord())
	case fieldReplicas:
		r.Replicas = int(d.signed())
	case fieldHolds:
		r.Holds = int(d.signed())
	case fieldWaiters:
		r.Waiters = int(d.signed())
	case fieldHolder:
		r.Holder = d.word(fieldHolder)
	case fieldWaited:
		r.Waited = d.duration()
	case fieldHeld:
		r.Held = d.duration()
	case fieldLease:
		r.Lease = d.duration()
	case fieldRemaining:
		r.Remaining = d.duration()
	case fieldFixed:
		r.Fixed = d.boolean()
	case fieldStoreTime:
		r.StoreTime = d.storeTime()
	case fieldConfirmed:
		r.Confirmed = d.storeTime()
	case fieldUntil:
		r.Until = d.storeTime()
	case fieldReturned:
		r.Returned = d.storeTime()
	case fieldIncarnation:
		r.Incarnation = d.word(fieldIncarnation)
	case fieldReason:
		r.Reason = d.reason()
	case fieldOperator:
		r.Operator = d.word(fieldOperator)
	case fieldError:
		r.Err = d.word(fieldError)
	case fieldReset:
		d.reset(&r.Reset)
	case fieldProcess:
		d.process(&r.Process)
	case fieldFollows:
		d.follows(&r.Follows)
	case fieldDropped:
		d.dropped(&r.Dropped)
	}
}

var resetNames = newNames("from", "to", "reason", "after_us", "before_us", "store", "step_us")

func (d *decoder) reset(r *lockagent.Reset) {
	fields := members{names: resetNames}
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		switch d.member(&fields) {
		case 0:
			r.From = d.rareWord()
		case 1:
			r.To = d.rareWord()
		case 2:
			r.Reason = d.rareWord()
		case 3:
			r.After = d.storeTime()
		case 4:
			r.Before = d.storeTime()
		case 5:
			r.Store = d.rareWord()
		case 6:
			r.Step = d.duration()
		}
	}
}

var processNames = newNames("host", "program", "version", "pid")

func (d *decoder) process(p *lockagent.Process) {
	fields := members{names: processNames}
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		switch d.member(&fields) {
		case 0:
			p.Host = d.rareWord()
		case 1:
			p.Program = d.rareWord()
		case 2:
			p.Version = d.rareWord()
		case 3:
			p.PID = int(d.signed())
		}
	}
}

var followsNames = newNames("epoch", "seq")

func (d *decoder) follows(p *Place) {
	fields := members{names: followsNames}
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		switch d.member(&fields) {
		case 0:
			p.Epoch = d.unsigned()
		case 1:
			p.Seq = d.unsigned()
		}
	}
}

// droppedNames has the name of each kind, from the first.
var droppedNames = func() *names {
	var kinds []string
	for _, k := range lockagent.EventKinds() {
		kinds = append(kinds, k.String())
	}
	return newNames(kinds...)
}()

func (d *decoder) dropped(drops *Drops) {
	fields := members{names: droppedNames}
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		if i := d.member(&fields); i >= 0 {
			at, count := d.at, d.unsigned()
			if count > math.MaxUint32 {
				d.outOfRange(at)
			}
			drops[i+1] = uint32(count)
		}
	}
}

// word reads the string of a field. Mostly it is the same as in the record before.
func (d *decoder) word(field int) string {
	last := &d.words[field]
	if d.again(*last) {
		return *last
	}
	from := d.at
	text := d.texts.text(d.string())
	if d.at-from == len(text)+len(`""`) { // it has no escapes
		*last = text
	}
	return text
}

// rareWord reads a string of a field that few records have.
func (d *decoder) rareWord() string { return d.texts.text(d.string()) }

func (d *decoder) outOfRange(at int) {
	if d.err == nil {
		d.at = at
		d.fail("the number is out of range")
	}
}

func (d *decoder) unsigned() uint64 {
	at := d.at
	negative, n := d.integer()
	if negative && n > 0 {
		d.outOfRange(at)
	}
	return n
}

// signed reads an integer of 64 bits. An int is taken to have as many.
func (d *decoder) signed() int64 {
	at := d.at
	negative, n := d.integer()
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n)
	case !negative && n <= math.MaxInt64:
		return int64(n)
	}
	d.outOfRange(at)
	return 0
}

func (d *decoder) storeTime() lockagent.StoreTime { return lockagent.StoreTime(d.signed()) }

func (d *decoder) duration() time.Duration {
	const limit = math.MaxInt64 / int64(time.Microsecond)
	at, us := d.at, d.signed()
	if us > limit || us < -limit {
		d.outOfRange(at)
	}
	return time.Duration(us) * time.Microsecond
}

func (d *decoder) how() lockagent.How {
	switch how := d.string(); string(how) {
	case "":
		return 0
	case lockagent.ByStore.String():
		return lockagent.ByStore
	case lockagent.ByHandOff.String():
		return lockagent.ByHandOff
	case lockagent.ByRest.String():
		return lockagent.ByRest
	}
	d.unknown = true
	return 0
}

func (d *decoder) reason() lockagent.LossReason {
	reason, ok := lockagent.ParseLossReason(d.rareWord())
	if !ok {
		d.unknown = true
		return lockagent.LostUnknown
	}
	return reason
}
