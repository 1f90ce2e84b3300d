package journal

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// recordKind is the first byte of a payload.
type recordKind uint8

const (
	headerRecord recordKind = iota + 1
	entryRecord
	putRecord
	dropRecord
)

// record is what a payload says. Its kind decides which fields are set.
type record struct {
	kind   recordKind
	header header
	entry  actor.JournalEntry
	id     string
	data   []byte
}

// header begins a file.
type header struct {
	agent lockagent.AgentID
	last  uint64
	stamp actor.Stamp
	first uint64 // since format 2; before, the header ends here
}

// encoder appends values to a buffer. Numbers are variable in length, because most are small or 0.
type encoder struct{ b []byte }

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) int(n int64) { e.b = binary.AppendVarint(e.b, n) }

func encodeText[S ~string](e *encoder, s S) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) flags(flags ...bool) {
	var bits uint64
	for i, f := range flags {
		if f {
			bits |= 1 << i
		}
	}
	e.uint(bits)
}

// decoder takes the values out again. After the first error all values are zero.
type decoder struct {
	b   []byte
	err error
}

var errMalformed = errors.New("it has something else than this format allows")

func (d *decoder) fail() {
	d.b, d.err = nil, errMalformed
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

// bytes returns a part of the buffer.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func decodeText[S ~string](d *decoder) S { return S(d.bytes()) }

func (d *decoder) flags(flags ...*bool) {
	bits := d.uint()
	for i, f := range flags {
		*f = bits&(1<<i) != 0
	}
	if bits>>len(flags) != 0 {
		d.fail()
	}
}

func (e *encoder) stamp(s *actor.Stamp) {
	e.int(s.Wall.Unix())
	e.int(int64(s.Wall.Nanosecond()))
	encodeText(e, s.Boot)
	e.int(int64(s.Up))
	e.int(int64(s.At))
}

func (d *decoder) stamp() actor.Stamp {
	sec, nsec := d.int(), d.int()
	if nsec < 0 || nsec >= int64(time.Second) {
		d.fail()
	}
	return actor.Stamp{Wall: time.Unix(sec, nsec), Boot: decodeText[string](d), Up: time.Duration(d.int()), At: lockstate.Instant(d.int())}
}

func (e *encoder) header(h *header) {
	e.b = append(e.b, byte(headerRecord))
	encodeText(e, h.agent)
	e.uint(h.last)
	e.stamp(&h.stamp)
	e.uint(h.first)
}

func (e *encoder) entry(x *actor.JournalEntry) {
	e.b = append(e.b, byte(entryRecord))
	encodeText(e, x.Lock)
	encodeText(e, x.Kind)
	e.uint(x.Last)
	stamped := !x.Stamp.Wall.IsZero()
	e.flags(stamped)
	if stamped {
		e.stamp(&x.Stamp)
	}
	e.uint(uint64(len(x.Changes)))
	for i := range x.Changes {
		e.change(&x.Changes[i])
	}
}

func (e *encoder) record(kind recordKind, id string, data []byte) {
	e.b = append(e.b, byte(kind))
	encodeText(e, id)
	e.b = append(e.b, data...)
}

// record decodes a payload. The result does not refer to it.
func (d *decoder) record() (r record, err error) {
	if len(d.b) == 0 {
		return r, errMalformed
	}
	r.kind, d.b = recordKind(d.b[0]), d.b[1:]
	switch r.kind {
	case headerRecord:
		r.header = header{agent: decodeText[lockagent.AgentID](d), last: d.uint(), stamp: d.stamp()}
		if len(d.b) > 0 {
			r.header.first = d.uint()
		}
	case entryRecord:
		d.entry(&r.entry)
	case putRecord:
		r.id = decodeText[string](d)
		r.data, d.b = append([]byte{}, d.b...), nil
	case dropRecord:
		r.id = decodeText[string](d)
	default:
		d.fail()
	}
	if len(d.b) > 0 {
		d.fail()
	}
	return r, d.err
}

func (d *decoder) entry(x *actor.JournalEntry) {
	x.Lock, x.Kind, x.Last = decodeText[lockagent.Name](d), decodeText[lockagent.LockKind](d), d.uint()
	stamped := false
	if d.flags(&stamped); stamped {
		x.Stamp = d.stamp()
	}
	n := d.uint()
	if n > uint64(len(d.b)) { // each change takes at least a byte
		d.fail()
		return
	}
	x.Changes = make([]actor.Change, n)
	for i := range x.Changes {
		d.change(&x.Changes[i])
	}
}

func (e *encoder) change(c *actor.Change) {
	e.b = append(e.b, byte(c.Kind))
	switch c.Kind {
	case actor.FloorRose:
		e.int(int64(c.Token))
	case actor.TenureChanged:
		e.tenure(&c.Tenure)
	case actor.TenureOver:
		e.uint(c.Tenure.Number)
	case actor.RequestWaits:
		e.request(&c.Request)
	case actor.RequestOver, actor.GrantReceived:
		e.uint(uint64(c.ID))
	case actor.GrantMade:
		e.uint(uint64(c.ID))
		e.uint(c.Tenure.Number)
		e.int(int64(c.Token))
		e.instants(c.Since, c.Fixed, c.ClaimBy)
	case actor.LeaseExtended:
		e.uint(uint64(c.ID))
		e.instants(c.Fixed)
	case actor.LeaseKept:
		e.uint(uint64(c.ID))
		e.instants(c.Own)
	}
}

func (d *decoder) change(c *actor.Change) {
	if len(d.b) == 0 {
		d.fail()
		return
	}
	c.Kind, d.b = actor.ChangeKind(d.b[0]), d.b[1:]
	switch c.Kind {
	case actor.LockForgotten:
	case actor.FloorRose:
		c.Token = lockagent.Token(d.int())
	case actor.TenureChanged:
		d.tenure(&c.Tenure)
	case actor.TenureOver:
		c.Tenure.Number = d.uint()
	case actor.RequestWaits:
		d.request(&c.Request)
	case actor.RequestOver, actor.GrantReceived:
		c.ID = lockstate.RequestID(d.uint())
	case actor.GrantMade:
		c.ID, c.Tenure.Number, c.Token = lockstate.RequestID(d.uint()), d.uint(), lockagent.Token(d.int())
		d.instants(&c.Since, &c.Fixed, &c.ClaimBy)
	case actor.LeaseExtended:
		c.ID = lockstate.RequestID(d.uint())
		d.instants(&c.Fixed)
	case actor.LeaseKept:
		c.ID = lockstate.RequestID(d.uint())
		d.instants(&c.Own)
	default:
		d.fail()
	}
}

func (e *encoder) instants(at ...lockstate.Instant) {
	for _, i := range at {
		e.int(int64(i))
	}
}

func (d *decoder) instants(at ...*lockstate.Instant) {
	for _, i := range at {
		*i = lockstate.Instant(d.int())
	}
}

func (e *encoder) tenure(t *lockstate.SavedTenure) {
	e.uint(t.Number)
	e.uint(t.Part)
	e.flags(t.Asks, t.Queued, t.Mode == lockstate.Shared, t.Unanswered, t.Outsiders, t.Contested)
	e.int(int64(t.Open))
	e.instants(t.Until)
	if t.Asks {
		return
	}
	e.instants(t.Began, t.Sent, t.Replied, t.Deadline)
	e.int(int64(t.Lease))
	e.int(int64(t.StoreTime))
	encodeText(e, t.Incarnation)
	e.int(int64(t.Replicas))
	e.int(int64(t.First))
	e.int(int64(t.Last))
	e.int(int64(t.Holds))
}

func (d *decoder) tenure(t *lockstate.SavedTenure) {
	shared := false
	t.Number, t.Part = d.uint(), d.uint()
	d.flags(&t.Asks, &t.Queued, &shared, &t.Unanswered, &t.Outsiders, &t.Contested)
	if shared {
		t.Mode = lockstate.Shared
	}
	t.Open = time.Duration(d.int())
	d.instants(&t.Until)
	if t.Asks {
		return
	}
	d.instants(&t.Began, &t.Sent, &t.Replied, &t.Deadline)
	t.Lease, t.StoreTime = time.Duration(d.int()), lockagent.StoreTime(d.int())
	t.Incarnation = decodeText[string](d)
	t.Replicas, t.First, t.Last, t.Holds = int(d.int()), lockagent.Token(d.int()), lockagent.Token(d.int()), int(d.int())
}

func (e *encoder) request(w *actor.WaitingRequest) {
	r := &w.Request
	e.uint(uint64(r.ID))
	e.uint(w.Part)
	encodeText(e, r.Owner)
	encodeText(e, w.Tag)
	e.flags(r.Mode == lockstate.Shared, r.Try, r.Session, r.Outlive)
	e.int(int64(r.Permits))
	e.int(int64(r.Lease))
	e.instants(r.Arrived, w.Until)
}

func (d *decoder) request(w *actor.WaitingRequest) {
	r, shared := &w.Request, false
	r.ID, w.Part, r.Owner, w.Tag = lockstate.RequestID(d.uint()), d.uint(), decodeText[lockagent.Owner](d), decodeText[string](d)
	d.flags(&shared, &r.Try, &r.Session, &r.Outlive)
	if shared {
		r.Mode = lockstate.Shared
	}
	r.Permits, r.Lease = int(d.int()), time.Duration(d.int())
	d.instants(&r.Arrived, &w.Until)
}
