package events

import (
	"errors"
	"time"

	"github.com/lockagent/lockagent"
)

// errUncommon ends the reading of an event that is not a common one. Nobody gets to see it.
var errUncommon = errors.New("the event is not a common one")

// common reads an event whose fields are in the order in which an agent writes them. It knows the
// fields of the usual events about locks, and tables. Nearly all events of a log are like that. It reports false
// for any other, and then the caller asks general, which takes several times as long. Both read
// the values with the same methods. They differ only in how they find the fields.
func (d *decoder) common(records []Record) ([]Record, bool) {
	start, n := d.scanner, len(records)
	records = oneMore(records)
	r := &records[n]
	*r = Record{}
	d.unknown = false
	d.must(`{"specversion":"1.0","id":"`)
	r.Epoch = d.digits()
	d.must(`:`)
	r.Seq = d.digits()
	d.must(`","source":`)
	r.Agent = d.commonSource()
	d.must(`,"type":`)
	table := d.has(`"` + tableType + `"`)
	if table {
		r.Kind = lockagent.EventHeld
	} else {
		r.Kind = d.commonKind()
	}
	var subject string
	if d.has(`,"subject":`) {
		subject = d.word(fieldLock)
	}
	if d.has(`,"time":`) {
		r.Time = d.commonTime()
	}
	if d.has(`,"traceparent":`) {
		r.TraceParent = string(d.string())
	}
	d.must(`,"data":{"store":`)
	seen := d.commonData(r)
	if counted(r.Kind) && seen&(1<<fieldCount) == 0 || subject != "" && subject != string(r.Lock) || r.Epoch > maxEpoch || r.Seq > maxSeq {
		d.uncommon()
	}
	if table {
		records = d.commonRows(records, seen)
	}
	d.must(`}}`)
	if d.err != nil || d.unknown {
		d.scanner = start
		return nil, false
	}
	if !table {
		r.imply()
	}
	return records, true
}

// commonData reads the data behind the key of its first field. It returns which fields there are.
func (d *decoder) commonData(r *Record) (seen uint64) {
	r.Store = d.word(fieldStore)
	if d.has(`,"lock":`) {
		seen |= 1 << fieldLock
		r.Lock = lockagent.Name(d.word(fieldLock))
	}
	if d.has(`,"kind":`) {
		seen |= 1 << fieldKind
		r.LockKind = lockagent.LockKind(d.word(fieldKind))
	}
	if d.has(`,"mode":`) {
		seen |= 1 << fieldMode
		r.Mode = lockagent.Mode(d.word(fieldMode))
	}
	if d.has(`,"owner":`) {
		seen |= 1 << fieldOwner
		r.Owner = lockagent.Owner(d.word(fieldOwner))
	}
	if d.has(`,"request":`) {
		seen |= 1 << fieldRequest
		r.Request = d.unsigned()
	}
	if d.has(`,"tenure":`) {
		seen |= 1 << fieldTenure
		r.Tenure = d.unsigned()
	}
	if d.has(`,"token":`) {
		seen |= 1 << fieldToken
		r.Token = lockagent.Token(d.unsigned())
	}
	if d.has(`,"how":`) {
		seen |= 1 << fieldHow
		r.How = d.how()
	}
	if d.has(`,"count":`) {
		seen |= 1 << fieldCount
		r.Count = int(d.signed())
	}
	if d.has(`,"permits":`) {
		seen |= 1 << fieldPermits
		r.Permits = int(d.signed())
	}
	if d.has(`,"total":`) {
		seen |= 1 << fieldTotal
		r.Total = int(d.signed())
	}
	if d.has(`,"replicas":`) {
		seen |= 1 << fieldReplicas
		r.Replicas = int(d.signed())
	}
	if d.has(`,"holds":`) {
		seen |= 1 << fieldHolds
		r.Holds = int(d.signed())
	}
	if d.has(`,"waiters":`) {
		seen |= 1 << fieldWaiters
		r.Waiters = int(d.signed())
	}
	if d.has(`,"holder":`) {
		seen |= 1 << fieldHolder
		r.Holder = d.word(fieldHolder)
	}
	if d.has(`,"waited_us":`) {
		seen |= 1 << fieldWaited
		r.Waited = d.duration()
	}
	if d.has(`,"held_us":`) {
		seen |= 1 << fieldHeld
		r.Held = d.duration()
	}
	if d.has(`,"lease_us":`) {
		seen |= 1 << fieldLease
		r.Lease = d.duration()
	}
	if d.has(`,"remaining_us":`) {
		seen |= 1 << fieldRemaining
		r.Remaining = d.duration()
	}
	if d.has(`,"fixed":`) {
		seen |= 1 << fieldFixed
		r.Fixed = d.boolean()
	}
	if d.has(`,"store_time_us":`) {
		seen |= 1 << fieldStoreTime
		r.StoreTime = d.storeTime()
	}
	if d.has(`,"confirmed_us":`) {
		seen |= 1 << fieldConfirmed
		r.Confirmed = d.storeTime()
	}
	if d.has(`,"until_us":`) {
		seen |= 1 << fieldUntil
		r.Until = d.storeTime()
	}
	if d.has(`,"returned_us":`) {
		seen |= 1 << fieldReturned
		r.Returned = d.storeTime()
	}
	if d.has(`,"incarnation":`) {
		seen |= 1 << fieldIncarnation
		r.Incarnation = d.word(fieldIncarnation)
	}
	if d.has(`,"reason":`) {
		seen |= 1 << fieldReason
		r.Reason = d.reason()
	}
	return seen
}

// commonRows reads the rest of the data of a table. The last record has what the rows have in common.
func (d *decoder) commonRows(records []Record, seen uint64) []Record {
	const columns = 1<<fieldOwner | 1<<fieldRequest | 1<<fieldTenure | 1<<fieldToken | 1<<fieldHow | 1<<fieldWaited |
		1<<fieldHeld | 1<<fieldStoreTime | 1<<fieldUntil | 1<<fieldReturned
	d.must(quotedColumns)
	if seen&columns != 0 {
		d.uncommon()
	}
	first := records[len(records)-1]
	for i := uint64(0); d.err == nil; i++ {
		if i > 0 {
			if d.has(`]`) {
				break
			}
			if d.single || i == mostRows {
				d.uncommon()
				break
			}
			d.must(`,`)
			records = oneMore(records)
		}
		r := &records[len(records)-1]
		*r = first
		r.Seq += i
		d.commonRow(r)
		r.imply()
	}
	if records[len(records)-1].Seq > maxSeq {
		d.uncommon()
	}
	return records
}

// commonRow reads a row with the columns that appendRow writes.
func (d *decoder) commonRow(r *Record) {
	d.must(`[`)
	r.Time = d.commonTime()
	d.must(`,`)
	r.Owner = lockagent.Owner(d.word(fieldOwner))
	d.must(`,`)
	r.Request = d.unsigned()
	d.must(`,`)
	r.Tenure = d.unsigned()
	d.must(`,`)
	r.Token = lockagent.Token(d.unsigned())
	d.must(`,`)
	r.How = d.how()
	d.must(`,`)
	r.Waited = d.duration()
	d.must(`,`)
	r.Held = d.duration()
	d.must(`,`)
	r.StoreTime = d.storeTime()
	d.must(`,`)
	r.Until = d.storeTime()
	d.must(`,`)
	r.Returned = d.storeTime()
	d.must(`]`)
}

// has reads text if it is next.
func (s *scanner) has(text string) bool {
	if len(s.text)-s.at < len(text) || string(s.text[s.at:s.at+len(text)]) != text {
		return false
	}
	s.at += len(text)
	return true
}

// must reads text, which is next in a common event.
func (d *decoder) must(text string) {
	if !d.has(text) {
		d.uncommon()
	}
}

func (d *decoder) uncommon() { d.scanner = scanner{err: errUncommon} }

// digits reads a number from 1 on in an id, which has no other spelling.
func (d *decoder) digits() uint64 {
	n, digits := leadingDigits(d.text[d.at:])
	if digits == 0 || digits > 19 || d.text[d.at] == '0' {
		d.uncommon()
		return 0
	}
	d.at += digits
	return n
}

// commonSource reads the source, which is mostly that of the record before.
func (d *decoder) commonSource() lockagent.AgentID {
	if d.lastSource != "" && d.again(d.lastSource) {
		return d.agent
	}
	agent, ok := d.source(d.string())
	if !ok {
		d.uncommon()
	}
	return agent
}

// commonKind reads the type, which is often that of the record before.
func (d *decoder) commonKind() lockagent.EventKind {
	if d.lastKind != 0 && d.again(typeOf[d.lastKind]) {
		return d.lastKind
	}
	kind := kindOf[string(d.string())]
	if kind == 0 {
		d.uncommon()
		return 0
	}
	d.lastKind = kind
	return kind
}

func (d *decoder) commonTime() time.Time {
	t, ok := d.minute.parse(d.string())
	if !ok {
		d.uncommon()
	}
	return t
}
