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

// numbering is what a script makes the tenures of an agent from whose numbers have as many
// digits as that of t: what they all begin with; the zeros that make 19 digits of a number,
// so that scripts can compare it as text; and one of the numbers in this form.
func (t *text) numbering(of lockagent.Tenure, one uint64) (agent, zeros, padded string) {
	const digits = 19
	t.b.WriteString(string(of.Agent))
	t.b.WriteByte(':')
	agent = t.cut()
	t.digits(of.Number)
	zeros = "0000000000000000000"[:digits-len(t.cut())]
	t.b.WriteString(zeros)
	t.digits(one)
	return agent, zeros, t.cut()
}
