package events

import "slices"

// The fields of the data that only a table has.
const (
	fieldColumns = fieldDropped + 1 + iota
	fieldRows
)

// fieldTime stands for the time of an event, which is a column and no field of the data.
const fieldTime = fieldRows + 1

var tableNames = newNames(append(slices.Clone(fieldNames.plain), "columns", "rows")...)

// tableText is where the parts of a table are in the text that is decoded.
type tableText struct {
	event, id, rows stretch
	columns         []int // the field of each, or -1 if it is unknown
}

// tableData reads the data of a table up to its rows, of which it notes the place. r gets what they have in common.
func (d *decoder) tableData(r *Record, t *tableText) {
	fields := members{names: tableNames}
	counted := false
	d.open('{', "an object")
	for n := 0; d.more('}', n); n++ {
		switch field := d.member(&fields); field {
		case fieldColumns:
			t.columns = d.columns(t.columns[:0])
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
	case fields.seen&(1<<fieldColumns) == 0 || t.rows.to == 0:
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

// columns reads the names of the columns, and appends their fields.
func (d *decoder) columns(columns []int) []int {
	d.open('[', "a list of columns")
	for n := 0; d.more(']', n); n++ {
		name := d.string()
		field := tableNames.find(name)
		if string(name) == "time" {
			field = fieldTime
		}
		d.unknown = d.unknown || field < 0
		columns = append(columns, field)
	}
	return columns
}

// rows reads the rows of a table, and appends a record for each. first has what they have in common, and
// the number of the first one.
func (d *decoder) rows(records []Record, first Record, t *tableText) []Record {
	text, unknown := d.text, d.unknown
	d.open('[', "a list of rows")
	n := 0
	for ; d.more(']', n); n++ {
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
	rows := append(append([]byte{'['}, text[row.from:row.to]...), ']')
	first, firstText, second, secondText := t.id, id, t.rows, rows
	if t.rows.from < t.id.from {
		first, firstText, second, secondText = t.rows, rows, t.id, id
	}
	return oneLine(slices.Concat(text[t.event.from:first.from], firstText, text[first.to:second.from], secondText, text[second.to:t.event.to]))
}
