package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lockagent/lockagent/events/internal/wire"
)

// The fields of the data that only a table has.
const (
	fieldColumns = fieldDropped + 1 + iota
	fieldRows
)

// fieldTime stands for the time of an event, which is a column and no field of the data.
const fieldTime = fieldRows + 1

var tableNames = newNames(append(slices.Clone(fieldNames.list), "columns", "rows")...)

// column is a column of a table.
type column struct {
	field int // or -1 if it is unknown
	name  string
}

// tableText is where the parts of a table are in the text that is decoded.
type tableText struct {
	*envelope
	event, rows stretch
}

// table reads the data of a table but for its rows, and returns where the rows are in text. r gets the fields that all
// rows have in common.
func (d *decoder) table(r *Record, text []byte) (rows stretch, err error) {
	t := &d.inside
	t.read(text)
	d.columns = d.columns[:0]
	var seen uint64
	t.open('{', "an object")
	for t.more() {
		field, v, at := d.member(t, tableNames)
		if field < 0 {
			continue
		}
		seen |= 1 << field
		switch field {
		case fieldColumns:
			if err := d.named(v); err != nil {
				t.fail("columns: %w", err)
			}
		case fieldRows:
			rows = at
		default:
			d.into(t, field, v, r)
		}
	}
	has := func(field int) bool { return seen&(1<<field) != 0 }
	switch {
	case t.err != nil:
		return rows, t.err
	case !has(fieldColumns) || !has(fieldRows):
		return rows, errors.New("a table has no columns or no rows")
	case !has(fieldCount) && !slices.ContainsFunc(d.columns, func(c column) bool { return c.field == fieldCount }):
		return rows, errors.New("the end of a hold has no count")
	}
	for i, c := range d.columns {
		again := func(other column) bool { return other.name == c.name }
		known := c.field >= 0 && c.field != fieldTime
		switch {
		case known && (c.field < fieldOwner || c.field >= fieldReset):
			return rows, fmt.Errorf("%q cannot be a column", c.name)
		case known && has(c.field) || slices.ContainsFunc(d.columns[:i], again):
			return rows, fmt.Errorf("the column %q comes twice", c.name)
		}
	}
	return rows, nil
}

// named reads the names of the columns.
func (d *decoder) named(v jsontext.Value) error {
	t := &d.rows
	t.read(v)
	t.open('[', "a list of columns")
	for t.more() {
		v, _ := t.value()
		name, err := textOf(v)
		if t.err != nil || err != nil {
			t.fail("%w", err)
			break
		}
		c := column{-1, d.texts.text(name)}
		if field, known := tableNames.index[c.name]; known {
			c.field = field
		} else if c.name == "time" {
			c.field = fieldTime
		} else {
			d.unknown = true
		}
		d.columns = append(d.columns, c)
	}
	return t.err
}

// unfold reads the rows of a table, and appends a record for each. d.record has what they have in common, and the
// number of the first one.
func (d *decoder) unfold(records []Record, text *tableText, single bool) ([]Record, error) {
	t, unknown, most := &d.rows, d.unknown, wire.MaxRecords
	if single {
		most = 1
	}
	t.read(d.message.text[text.rows.from:text.rows.to])
	t.open('[', "a list of rows")
	n := 0
	for ; t.more(); n++ {
		switch {
		case n == most && single:
			return records, errors.New("it is a table of several holds, not one event; DecodeMessage reads both")
		case n == most:
			return records, fmt.Errorf("a table has more than %d rows", most)
		}
		t.open('[', "a row")
		from := int(t.decoder.InputOffset()) - 1
		records = append(records, d.record)
		r := &records[len(records)-1]
		r.Seq += uint64(n)
		d.unknown = unknown
		d.row(t, r)
		if r.Seq > MaxSeq {
			t.fail("the number of row %d is out of range", n+1)
		}
		if t.err == nil && d.unknown {
			r.Raw = text.alone(d.message.text, t.text[from:t.decoder.InputOffset()], r)
		}
	}
	if t.err == nil && n == 0 {
		return records, errors.New("a table has no rows")
	}
	return records, t.err
}

// row reads the values of a row.
func (d *decoder) row(t *tokens, r *Record) {
	n := 0
	for ; t.more(); n++ {
		v, _ := t.value()
		if t.err != nil {
			return
		}
		if n == len(d.columns) {
			t.fail("the row has more than %d values", n)
			return
		}
		switch c := d.columns[n]; {
		case c.field < 0:
		case v.Kind() == 'n':
			if c.field == fieldCount {
				t.fail("the end of a hold has no count")
			}
		case c.field == fieldTime:
			text, err := textOf(v)
			if err != nil {
				t.fail("time: %w", err)
			} else if at, ok := parseTime(text); !ok {
				t.fail("%w", timeError(text))
			} else {
				r.Time = at
			}
		default:
			d.into(t, c.field, v, r)
		}
	}
	if t.err == nil && n < len(d.columns) {
		t.fail("the row has %d values instead of %d", n, len(d.columns))
	}
	r.imply()
}

// alone returns the text of a table that has one row of it, and the number of r.
func (text *tableText) alone(all, row []byte, r *Record) string {
	id := append(wire.AppendID([]byte{'"'}, r.Epoch, r.Seq), '"')
	type part struct {
		stretch
		text []byte
	}
	parts := []part{{text.id, id}, {text.rows, slices.Concat([]byte{'['}, row, []byte{']'})}}
	if text.sequence.to > 0 {
		parts = append(parts, part{text.sequence, bytes.Replace(id, []byte{':'}, []byte{'-'}, 1)})
	}
	slices.SortFunc(parts, func(p, q part) int { return p.from - q.from })
	var b []byte
	at := text.event.from
	for _, p := range parts {
		b = append(append(b, all[at:p.from]...), p.text...)
		at = p.to
	}
	return oneLine(append(b, all[at:text.event.to]...))
}
