package redisstore

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

	lease    time.Duration // the last one that was asked for
	leaseStr string        // and its text: most are the same
}

// begin starts another piece: the strings of the one before may still be in use.
func (t *text) begin() {
	size := t.b.Len()
	t.b.Reset()
	t.b.Grow(size) // most batches are like the one before
	t.from = 0
}

// cut returns what was written since the last cut.
func (t *text) cut() string {
	s := t.b.String()[t.from:]
	t.from = t.b.Len()
	return s
}

func (t *text) digits(n uint64) {
	var buffer [20]byte
	t.b.Write(strconv.AppendUint(buffer[:0], n, 10))
}

func (t *text) number(n uint64) string {
	if n < 10 {
		return "0123456789"[n : n+1]
	}
	t.digits(n)
	return t.cut()
}

func (t *text) milliseconds(d time.Duration) string {
	if d != t.lease {
		t.lease, t.leaseStr = d, milliseconds(d)
	}
	return t.leaseStr
}

// tenure is what [lockagent.Tenure.String] returns, and the number in it with so many
// digits that scripts can compare it as text.
func (t *text) tenure(tenure lockagent.Tenure) (whole, number string) {
	t.b.WriteString(string(tenure.Agent))
	t.b.WriteByte(':')
	t.digits(tenure.Number)
	whole = t.cut()
	t.b.WriteString("0000000000000000000"[:19-(len(whole)-len(tenure.Agent)-1)])
	t.digits(tenure.Number)
	return whole, t.cut()
}
