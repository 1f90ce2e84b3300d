package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
)

// text builds many strings in one piece of memory. The zero text is usable.
type text struct {
	b    strings.Builder
	from int // where the next string begins
	room int // how many bytes the latest pieces have needed

	lease    time.Duration // of the last call of milliseconds
	leaseStr string        // its text: most leases are the same
}

// begin starts another piece of memory: the strings in the last one may still be in use.
func (t *text) begin() {
	t.room = max(t.b.Len(), t.room-t.room/8) // a large batch is seldom the only one
	t.b.Reset()
	t.b.Grow(t.room)
	t.from = 0
}

// cut returns the text that was written since the last cut.
func (t *text) cut() string {
	s := t.b.String()[t.from:]
	t.from = t.b.Len()
	return s
}

// of returns the parts as one string.
func (t *text) of(parts ...string) string {
	for _, part := range parts {
		t.b.WriteString(part)
	}
	return t.cut()
}

func (t *text) number(n uint64) string {
	if n < 10 {
		return "0123456789"[n : n+1]
	}
	return t.digits(n).cut()
}

func (t *text) digits(n uint64) *text {
	var buffer [20]byte
	t.b.Write(strconv.AppendUint(buffer[:0], n, 10))
	return t
}

// known is the greatest time or token that scripts are told of. A floor is marked with a "+": it
// comes from a caller, who may be wrong. An exact one is marked with "+0".
func (t *text) known(seen lockagent.StoreTime, floor lockagent.Token, exact bool) string {
	if floor <= lockagent.Token(seen) {
		return t.number(uint64(seen))
	}
	t.b.WriteByte('+')
	if exact {
		t.b.WriteByte('0')
	}
	return t.digits(uint64(floor)).cut()
}

// tenure is [lockagent.Tenure.String].
func (t *text) tenure(of lockagent.Tenure) string {
	t.b.WriteString(string(of.Agent))
	t.b.WriteByte(':')
	return t.digits(of.Number).cut()
}

// milliseconds is the text of a duration in milliseconds, rounded up.
func (t *text) milliseconds(d time.Duration) string {
	if d != t.lease || t.leaseStr == "" {
		t.lease = d
		t.leaseStr = strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
	}
	return t.leaseStr
}
