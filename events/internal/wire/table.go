package wire

import (
	"strings"

	"github.com/lockagent/lockagent"
)

// Most records of a busy lock are holds, one like the other. Holds that follow each other in a batch are one
// event, a table. It says once what all of them have in common, and has a row for each. That is a third of the
// bytes of as many events, and each byte is copied, sent and stored.

// MaxRecords is how many records a batch can have, and so how many rows a table: a reader must not need much more
// memory than the text takes.
const MaxRecords = 256

// MaxText bounds each text of an event. Names and owners that are valid are shorter.
const MaxText = 1024

// TableType is the CloudEvents type of a table.
const TableType = TypeRoot + "lock.holds" + TypeVersion

// TableColumns are the columns of the tables that agents write. A row has their values in this order.
var TableColumns = [...]string{
	"time", "owner", "request", "tenure", "token", "how", "waited_us", "held_us", "store_time_us", "until_us",
	"returned_us",
}

var quotedColumns = `,"columns":["` + strings.Join(TableColumns[:], `","`) + `"],"rows":[`

// Tabular reports whether f can be a row. A row is a hold that was not renewed. It has no field beside the
// columns and what all rows have in common, and its texts need not be cut.
func (f *Fact) Tabular() bool {
	return f.Kind == lockagent.EventHeld && f.Count == 0 && f.Confirmed == f.StoreTime && f.Reason == 0 &&
		f.TraceParent == "" && f.More == nil && encodable(f.time()) && len(f.Owner)+f.Common.bytes() <= MaxText
}

// bytes is how long the texts are.
func (c *Common) bytes() int {
	return len(c.Store) + len(c.Lock) + len(c.LockKind) + len(c.Mode) + len(c.Incarnation)
}

// Extends reports whether a table that has the row g, or none yet if g is nil, can have f as well.
func (f *Fact) Extends(g *Fact) bool {
	if !f.Tabular() || g == nil {
		return f.Tabular()
	}
	return f.Lease == g.Lease && f.Fixed == g.Fixed && f.Who == g.Who && (f.Common == g.Common || *f.Common == *g.Common)
}

// TableLen returns how many facts make a table, from the first one on. Of fewer than two there is none.
func TableLen(facts []*Fact) int {
	if !facts[0].Tabular() {
		return 0
	}
	n := 1
	for n < len(facts) && facts[n].Extends(facts[0]) {
		n++
	}
	return n
}

// AppendTable appends a table of facts. first has the number of the first one.
func AppendTable(b []byte, agent lockagent.AgentID, facts []*Fact, first Added, last *Before) []byte {
	var e lockagent.Event
	facts[0].Event(&e)
	b = append(b, `{"specversion":"`+SpecVersion+`","id":"`...)
	b = AppendID(b, first.Epoch, first.Seq)
	e.Agent = agent
	b = appendHead(b, &e, TableType, true)
	seconds := section{len(b) - len("2006-01-02T15:04:05."), len(b)}
	second := facts[0].second
	b = append(appendFraction(b, facts[0]), `,"data":`...)
	start := len(b)
	all := lockagent.Event{
		Kind: e.Kind, Lease: e.Lease, Fixed: e.Fixed, Incarnation: e.Incarnation, Permits: e.Permits, Total: e.Total,
		Replicas: e.Replicas, Holds: e.Holds, Who: e.Who,
	}
	b = append(appendRest(appendNames(b, &e), &all, last), quotedColumns...)
	for i, f := range facts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[', '"')
		if f.second == second {
			b = append(b, b[seconds.from:seconds.to]...)
		} else {
			b = appendSeconds(b, f.time())
			seconds, second = section{len(b) - (seconds.to - seconds.from), len(b)}, f.second
		}
		b = appendRow(appendFraction(b, f), f)
	}
	return append(closeObject(append(b, ']'), start), '}')
}

// appendFraction appends the end of a time, from the microseconds on.
func appendFraction(b []byte, f *Fact) []byte {
	return append(appendPadded(b, uint64(f.nanosecond/1000), 6), 'Z', '"')
}

// appendRow appends the columns behind the time, and the end of the row.
func appendRow(b []byte, f *Fact) []byte {
	b = appendString(append(b, ','), string(f.Owner))
	b = appendNumber(append(b, ','), f.Request)
	b = appendNumber(append(b, ','), f.Tenure)
	b = appendNumber(append(b, ','), uint64(f.Token))
	b = appendString(append(b, ','), f.How.String())
	b = appendSigned(append(b, ','), f.Waited.Microseconds())
	b = appendSigned(append(b, ','), f.Held.Microseconds())
	b = appendSigned(append(b, ','), int64(f.StoreTime))
	b = appendSigned(append(b, ','), int64(f.Until))
	b = appendSigned(append(b, ','), int64(f.Returned))
	return append(b, ']')
}
