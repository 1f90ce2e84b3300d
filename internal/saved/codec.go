package saved

import (
	"encoding/binary"
	"errors"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

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

func (e *encoder) instants(at ...lockstate.Instant) {
	for _, i := range at {
		e.int(int64(i))
	}
}

func (e *encoder) kind(kind lockagent.LockKind) { encodeText(e, kind) }

// decoder takes the values out again. After the first error all values are zero.
type decoder struct {
	b   []byte
	err error
}

var errMalformed = errors.New("it has something else than this format allows")

func (d *decoder) fail() { d.b, d.err = nil, errMalformed }

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

func decodeText[S ~string](d *decoder) S {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := S(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) flags(flags ...*bool) {
	bits := d.uint()
	for i, f := range flags {
		*f = bits&(1<<i) != 0
	}
	if bits>>len(flags) != 0 {
		d.fail()
	}
}

func (d *decoder) instants(at ...*lockstate.Instant) {
	for _, i := range at {
		*i = lockstate.Instant(d.int())
	}
}

func (d *decoder) kind() lockagent.LockKind { return decodeText[lockagent.LockKind](d) }
