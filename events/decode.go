package events

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// Decode is the inverse of [Append]. It takes any spelling that JSON allows: blanks, any
// order of the fields, escapes, integers with an exponent. A field with the value null is
// one that is left out.
//
// What a later version may add is no error: an attribute or a field, a kind, a reason, a
// How. Then Raw of the record is text, on one line. The Kind or the How of such a record is 0, its
// Reason is [lockagent.LostUnknown]. Of an event of another version than v1 only the
// envelope is decoded.
//
// Everything else that Append does not write is an error. These are errors, too:
//
//   - a known field that comes twice, because two readers could take different ones;
//   - a grant or an end without a count;
//   - a table of several holds, which [DecodeMessage] reads.
func Decode(text []byte) (Record, error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	var r Record
	if err := d.decode(text, &r); err != nil {
		return Record{}, err
	}
	return r, nil
}

var decoders = sync.Pool{New: func() any { return newDecoder() }}

// decoder decodes many records, one after the other. It is not safe for concurrent use.
type decoder struct {
	message tokens // the whole text
	inside  tokens // the data of an event
	rows    tokens // the rows of a table
	object  tokens // a field of the data that is an object

	texts   *interner
	people  *people
	asks    lockagent.Process // the one that is read
	records []Record          // of DecodeMessage
	agent   lockagent.AgentID // the last one; it is valid
	record  Record            // the present one, or what all rows of the table have in common
	columns []column          // of the table
	unknown bool              // the record has something that this version does not know
}

func newDecoder() *decoder { return &decoder{texts: newInterner(), people: newPeople()} }

// decode reads one event, which is all of text.
func (d *decoder) decode(text []byte, r *Record) error {
	d.message.read(text)
	d.records = d.event(d.records[:0], true)
	d.message.end()
	if err := d.failure(); err != nil {
		return err
	}
	*r = d.records[0]
	return nil
}

// failure returns what went wrong.
func (d *decoder) failure() error {
	if err := d.message.err; err != nil {
		return fmt.Errorf("events: decode: %w", err)
	}
	return nil
}

// names are those of the members of an object.
type names struct {
	list  []string
	index map[string]int
}

func newNames(list ...string) names {
	n := names{list, make(map[string]int)}
	for i, name := range list {
		n.index[name] = i
	}
	return n
}

// member reads a name and its value. It returns the index of the name in n. It returns -1 if there is nothing to do:
// the name is unknown, or the value is null.
func (d *decoder) member(t *tokens, n names) (int, jsontext.Value, stretch) {
	key, _ := t.value()
	if t.err != nil {
		return -1, nil, stretch{}
	}
	name, _ := textOf(key)
	i, known := n.index[string(name)]
	v, at := t.value()
	switch {
	case t.err != nil:
		return -1, nil, stretch{}
	case !known:
		d.unknown = true
		return -1, nil, stretch{}
	case v.Kind() == 'n':
		return -1, nil, stretch{}
	}
	return i, v, at
}

// The attributes of an event, in the order in which Append writes them. Append does not write
// datacontenttype and sequence, which other programs may add.
const (
	attrSpecVersion = iota
	attrID
	attrSource
	attrType
	attrSubject
	attrTime
	attrTraceParent
	attrContentType
	attrSequence
	attrData // the only one that is no string
)

// dataType is the type of the data if no datacontenttype says it.
const dataType = "application/json"

var attributeNames = newNames([]string{
	attrSpecVersion: "specversion",
	attrID:          "id",
	attrSource:      "source",
	attrType:        "type",
	attrSubject:     "subject",
	attrTime:        "time",
	attrTraceParent: "traceparent",
	attrContentType: "datacontenttype",
	attrSequence:    "sequence",
	attrData:        "data",
}...)

// envelope has the texts of the attributes.
type envelope struct {
	texts    [attrData][]byte
	id       stretch
	sequence stretch
	data     stretch // none if there is none
}

// event reads the next event, and appends its record, or that of each row if it is a table. If there is an error it
// appends nothing. If single, a table may have one row only.
func (d *decoder) event(records []Record, single bool) []Record {
	t := &d.message
	var env envelope
	d.unknown = false
	t.open('{', "an event")
	start := int(t.decoder.InputOffset()) - 1
	for t.more() {
		i, v, at := d.member(t, attributeNames)
		switch {
		case i < 0:
			continue
		case i == attrData:
			env.data = at
			continue
		case i == attrID:
			env.id = at
		case i == attrSequence:
			env.sequence = at
		}
		text, err := textOf(v)
		if err != nil {
			t.fail("%s: %w", attributeNames.list[i], err)
		}
		env.texts[i] = text
	}
	if t.err != nil {
		return records
	}
	event := stretch{start, int(t.decoder.InputOffset())}
	n := len(records)
	var err error
	if records, err = d.understand(records, &env, event, single); err != nil {
		t.fail("%w", err)
		return records[:n]
	}
	return records
}

// understand appends what an event says.
func (d *decoder) understand(records []Record, env *envelope, event stretch, single bool) ([]Record, error) {
	r := &d.record
	*r = Record{}
	if env.data.to == 0 {
		return records, errors.New("it has no data")
	}
	kind, data := env.texts[attrType], d.message.text[env.data.from:env.data.to]
	table := string(kind) == wire.TableType
	var rows stretch
	var err error
	switch {
	case table:
		r.Kind = lockagent.EventHeld
		rows, err = d.table(r, data)
	case kindOf[string(kind)] != 0:
		r.Kind = kindOf[string(kind)]
		err = d.data(r, data)
	case otherVersion(kind): // its fields can mean something else
		d.unknown, r.OtherVersion = true, true
	default:
		d.unknown = true
		err = d.data(r, data)
	}
	if err == nil {
		err = d.identify(r, env)
	}
	if err != nil {
		return records, err
	}
	if table {
		rows.from, rows.to = env.data.from+rows.from, env.data.from+rows.to
		return d.unfold(records, &tableText{env, event, rows}, single)
	}
	if d.unknown {
		r.Raw = oneLine(d.message.text[event.from:event.to])
	}
	return append(records, *r), nil
}

// imply adds what a record says without a field.
func (r *Record) imply() {
	if r.Kind == lockagent.EventHeld && r.Confirmed == 0 {
		r.Confirmed = r.StoreTime
	}
}

// oneLine returns text without line breaks, which JSON has between its tokens only.
func oneLine(text []byte) string {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return string(text)
	}
	return string(bytes.Map(func(c rune) rune {
		if c == '\n' || c == '\r' {
			return ' '
		}
		return c
	}, text))
}

var kindOf = func() map[string]lockagent.EventKind {
	kinds := make(map[string]lockagent.EventKind)
	for _, k := range lockagent.EventKinds() {
		kinds[wire.TypeOf[k]] = k
	}
	return kinds
}()

func otherVersion(kind []byte) bool { return !bytes.HasSuffix(kind, []byte(wire.TypeVersion)) }

// identify takes what the envelope says about the record, and holds it against the data.
func (d *decoder) identify(r *Record, env *envelope) error {
	attrs := &env.texts
	if v := attrs[attrSpecVersion]; string(v) != wire.SpecVersion {
		return fmt.Errorf("specversion is %q, not %q", v, wire.SpecVersion)
	}
	if v := attrs[attrContentType]; len(v) > 0 && string(v) != dataType {
		return fmt.Errorf("datacontenttype is %q, not %q", v, dataType)
	}
	if v := attrs[attrType]; !bytes.HasPrefix(v, []byte(wire.TypeRoot)) {
		return fmt.Errorf("type %q does not begin with %s", v, wire.TypeRoot)
	}
	var ok bool
	if r.Agent, ok = d.source(attrs[attrSource]); !ok {
		return fmt.Errorf("source %q is not %s<agent>", attrs[attrSource], wire.SourceRoot)
	}
	if r.Epoch, r.Seq, ok = parseID(attrs[attrID]); !ok {
		return fmt.Errorf("id %q is not <epoch>:<sequence>", attrs[attrID])
	}
	if v := attrs[attrSequence]; len(v) > 0 {
		if epoch, seq, ok := parseSequence(v); !ok || epoch != r.Epoch || seq != r.Seq {
			return fmt.Errorf("sequence is %q, but id is %q", v, attrs[attrID])
		}
	}
	if v := attrs[attrTime]; len(v) > 0 {
		if r.Time, ok = parseTime(v); !ok {
			return timeError(v)
		}
	}
	r.TraceParent = string(attrs[attrTraceParent])
	return d.about(r, attrs[attrSubject], attrs[attrType])
}

// parseTime is the inverse of appendTime. It takes other spellings of RFC 3339 as well.
func parseTime(text []byte) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}, false
	}
	t = t.UTC().Truncate(time.Microsecond)
	return t, t.Year() >= 0 && t.Year() <= 9999
}

func timeError(text []byte) error {
	return fmt.Errorf("time %q is not of the form 2006-01-02T15:04:05.999999Z, in the years 0 to 9999", text)
}

// about holds the subject of an event against its data. Of another version only the subject
// is known.
func (d *decoder) about(r *Record, subject, kind []byte) error {
	if r.Kind == 0 && otherVersion(kind) {
		r.Lock = lockagent.Name(d.texts.text(subject))
	} else if len(subject) > 0 && string(subject) != string(r.Lock) {
		return fmt.Errorf("subject %q is not the lock %q", subject, r.Lock)
	}
	return nil
}

// source returns the agent that a source names.
func (d *decoder) source(text []byte) (lockagent.AgentID, bool) {
	id, ok := bytes.CutPrefix(text, []byte(wire.SourceRoot))
	if !ok {
		return "", false
	}
	if string(id) == string(d.agent) && len(id) > 0 {
		return d.agent, true
	}
	agent := lockagent.AgentID(d.texts.text(id))
	if !validAgent(agent) {
		return "", false
	}
	d.agent = agent
	return agent, true
}

// parseID is the inverse of appendID. It takes no other spelling, because an id is compared as
// text.
func parseID(text []byte) (epoch, seq uint64, ok bool) {
	a, b, _ := bytes.Cut(text, []byte(":"))
	if len(a) == 0 || a[0] == '0' || len(b) == 0 || b[0] == '0' {
		return 0, 0, false
	}
	epoch, ok1 := parseDigits(a)
	seq, ok2 := parseDigits(b)
	return epoch, seq, ok1 && ok2 && epoch <= MaxEpoch && seq <= MaxSeq
}

// parseSequence reads <epoch>-<sequence>, which others pad with zeros so that it sorts as text.
func parseSequence(text []byte) (epoch, seq uint64, ok bool) {
	a, b, _ := bytes.Cut(text, []byte("-"))
	epoch, ok1 := parseDigits(a)
	seq, ok2 := parseDigits(b)
	return epoch, seq, ok1 && ok2
}

// parseDigits returns the value of some decimal digits, at most 19.
func parseDigits(text []byte) (n uint64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(text) <= 19
}
