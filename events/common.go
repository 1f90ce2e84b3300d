package events

import (
	"errors"
	"time"

	"github.com/lockagent/lockagent"
)

// errUncommon ends the reading of an event that is not a common one. Nobody gets to see it.
var errUncommon = errors.New("the event is not a common one")

// common reads an event whose fields are in the order in which Append writes them. It knows the
// fields of the usual events about locks. Nearly all events of a log are like that. It reports false
// for any other, and then the caller asks general, which takes several times as long. Both read
// the values with the same methods. They differ only in how they find the fields.
func (d *decoder) common(r *Record) bool {
	start := d.scanner
	*r = Record{}
	d.unknown = false
	d.must(`{"specversion":"1.0","id":"`)
	r.Epoch = d.digits()
	d.must(`:`)
	r.Seq = d.digits()
	d.must(`","source":`)
	r.Agent = d.commonSource()
	d.must(`,"type":`)
	r.Kind = d.commonKind()
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
	counted := d.commonData(r) || !counted(r.Kind)
	d.must(`}}`)
	if d.err != nil || d.unknown || !counted || subject != "" && subject != string(r.Lock) ||
		r.Epoch > maxEpoch || r.Seq > maxSeq {
		d.scanner = start
		return false
	}
	r.imply()
	return true
}

// commonData reads the data behind the key of its first field. It reports whether there is a count.
func (d *decoder) commonData(r *Record) (counted bool) {
	r.Store = d.word(fieldStore)
	if d.has(`,"lock":`) {
		r.Lock = lockagent.Name(d.word(fieldLock))
	}
	if d.has(`,"kind":`) {
		r.LockKind = lockagent.LockKind(d.word(fieldKind))
	}
	if d.has(`,"mode":`) {
		r.Mode = lockagent.Mode(d.word(fieldMode))
	}
	if d.has(`,"owner":`) {
		r.Owner = lockagent.Owner(d.word(fieldOwner))
	}
	if d.has(`,"request":`) {
		r.Request = d.unsigned()
	}
	if d.has(`,"tenure":`) {
		r.Tenure = d.unsigned()
	}
	if d.has(`,"token":`) {
		r.Token = lockagent.Token(d.unsigned())
	}
	if d.has(`,"how":`) {
		r.How = d.how()
	}
	if counted = d.has(`,"count":`); counted {
		r.Count = int(d.signed())
	}
	if d.has(`,"waiters":`) {
		r.Waiters = int(d.signed())
	}
	if d.has(`,"holder":`) {
		r.Holder = d.word(fieldHolder)
	}
	if d.has(`,"waited_us":`) {
		r.Waited = d.duration()
	}
	if d.has(`,"held_us":`) {
		r.Held = d.duration()
	}
	if d.has(`,"lease_us":`) {
		r.Lease = d.duration()
	}
	if d.has(`,"remaining_us":`) {
		r.Remaining = d.duration()
	}
	if d.has(`,"fixed":`) {
		r.Fixed = d.boolean()
	}
	if d.has(`,"store_time_us":`) {
		r.StoreTime = d.storeTime()
	}
	if d.has(`,"confirmed_us":`) {
		r.Confirmed = d.storeTime()
	}
	if d.has(`,"until_us":`) {
		r.Until = d.storeTime()
	}
	if d.has(`,"returned_us":`) {
		r.Returned = d.storeTime()
	}
	if d.has(`,"incarnation":`) {
		r.Incarnation = d.word(fieldIncarnation)
	}
	if d.has(`,"reason":`) {
		r.Reason = d.reason()
	}
	return counted
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
		return ""
	}
	d.lastSource = sourceRoot + string(agent)
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
