package events

import (
	"bytes"
	"slices"
)

// The fields of the data that only a table has.
const (
	fieldColumns = fieldDropped + 1 + iota
	fieldRows
)

// fieldTime stands for the time of an event, which is a column and no field of the data.
const fieldTime = fieldRows + 1

var tableNames = newNames(append(slices.Clone(fieldNames.plain), "columns", "rows")...)

// mostRows is how many rows a table can have. A reader must not need much more memory than the text takes.
const mostRows = maxBatch

// tableText is where the parts of a table are in the text that is decoded.
type tableText struct {
	event, id, sequence, rows stretch // the sequence is an attribute that other programs may add

	columns []int    // the field of each, or -1 if it is unknown
	unknown []string // the names of those
}

// tableData reads the data of a table up to its rows, and notes where the rows are. r gets the fields that all rows
// have in common.
func (d *decoder) tableData(r *Record, t *tableText) {
	fields := members{names: tableNames}
	named, counted := false, false
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		switch field := d.member(&fields); field {
		case fieldColumns:
			d.columns(t)
			named = true
		case fieldRows:
			t.rows.from = d.at
			d.skip(innerDepth)
			t.rows.to = d.at
		default:
			d.field(field, r)
			counted = counted || field == fieldCount
		}
	}
	switch {
	case !named || t.rows.to == 0:
		d.fail("a table has no columns or no rows")
	case !counted && !slices.Contains(t.columns, fieldCount):
		d.fail("the end of a hold has no count")
	default:
		d.distinct(t.columns, fields.seen)
	}
}

// distinct fails unless each of the columns can be one, and says what nothing else says. seen are the fields
// that all rows have in common.
func (d *decoder) distinct(columns []int, seen uint64) {
	for i, field := range columns {
		switch {
		case field < 0:
		case field < fieldOwner || fieldReset <= field && field != fieldTime:
			d.fail("%q cannot be a column", tableNames.plain[field])
		case slices.Contains(columns[:i], field) || field != fieldTime && seen&(1<<field) != 0:
			d.fail("the column %q comes twice", columnName(field))
		}
	}
}

func columnName(field int) string {
	if field == fieldTime {
		return "time"
	}
	return fieldNames.plain[field]
}

// columns reads the names of the columns.
func (d *decoder) columns(t *tableText) {
	d.open('[', "a list of columns")
	for n := 0; d.more(']', n); n++ {
		name := string(d.string())
		field := tableNames.find([]byte(name))
		if name == "time" {
			field = fieldTime
		}
		if field < 0 {
			if slices.Contains(t.unknown, name) {
				d.fail("the column %q comes twice", name)
			}
			t.unknown = append(t.unknown, name)
			d.unknown = true
		}
		t.columns = append(t.columns, field)
	}
}

// rows reads the rows of a table, and appends a record for each. first has what they have in common, and
// the number of the first one.
func (d *decoder) rows(records []Record, first Record, t *tableText) []Record {
	text, unknown, most := d.text, d.unknown, mostRows
	if d.single {
		most = 1
	}
	d.open('[', "a list of rows")
	n := 0
	for ; d.more(']', n); n++ {
		if n == most {
			d.tooMany(most)
			break
		}
		d.peek()
		from := d.at
		records = oneMore(records)
		r := &records[len(records)-1]
		*r = first
		r.Seq += uint64(n)
		d.unknown = unknown
		d.row(r, t.columns)
		if r.Seq > maxSeq {
			d.fail("the number of row %d is out of range", n+1)
		}
		if d.unknown && d.err == nil {
			r.Raw = t.alone(text, stretch{from, d.at}, r)
		}
	}
	if n == 0 {
		d.fail("a table has no rows")
	}
	return records
}

func (d *decoder) tooMany(most int) {
	if d.single {
		d.fail("it is a table of several holds, not one event; DecodeMessage reads both")
	} else {
		d.fail("a table has more than %d rows", most)
	}
}

// row reads a row.
func (d *decoder) row(r *Record, columns []int) {
	d.open('[', "a row")
	n := 0
	for ; d.more(']', n); n++ {
		switch {
		case n == len(columns):
			d.fail("the row has more than %d values", n)
		case columns[n] < 0:
			d.skip(innerDepth)
		case d.null():
			if columns[n] == fieldCount {
				d.fail("the end of a hold has no count")
			}
		case columns[n] == fieldTime:
			d.rowTime(r)
		default:
			d.field(columns[n], r)
		}
	}
	if n < len(columns) {
		d.fail("the row has %d values instead of %d", n, len(columns))
	}
	r.imply()
}

func (d *decoder) rowTime(r *Record) {
	text, ok := d.string(), false
	if r.Time, ok = d.minute.parse(text); !ok {
		d.fail("%v", timeError(text))
	}
}

// alone returns the text of a table that has one row of t, and the number of r.
func (t *tableText) alone(text []byte, row stretch, r *Record) string {
	id := append(appendID([]byte{'"'}, r.Epoch, r.Seq), '"')
	type part struct {
		stretch
		text []byte
	}
	parts := []part{{t.id, id}, {t.rows, slices.Concat([]byte{'['}, text[row.from:row.to], []byte{']'})}}
	if t.sequence.to > 0 {
		parts = append(parts, part{t.sequence, bytes.Replace(id, []byte{':'}, []byte{'-'}, 1)})
	}
	slices.SortFunc(parts, func(p, q part) int { return p.from - q.from })
	var b []byte
	at := t.event.from
	for _, p := range parts {
		b = append(append(b, text[at:p.from]...), p.text...)
		at = p.to
	}
	return oneLine(append(b, text[at:t.event.to]...))
}
