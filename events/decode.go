package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
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
	scanner
	texts      *interner
	records    []Record          // of DecodeMessage
	agent      lockagent.AgentID // the last one; it is valid
	lastSource string            // it names agent
	lastKind   lockagent.EventKind
	minute     minute
	words      [fieldError + 1]string // the last one of each field, if it has no escapes
	table      tableText
	single     bool // the text may have only one record
	unknown    bool // the record has something that this version does not know
}

func newDecoder() *decoder { return &decoder{texts: newInterner()} }

// decode reads one event, which is all of text.
func (d *decoder) decode(text []byte, r *Record) error {
	d.scanner, d.single = scanner{text: text}, true
	d.records = d.event(d.records[:0])
	d.end()
	if d.err == nil {
		*r = d.records[0]
	}
	return d.failure()
}

// failure returns what went wrong, and lets go of the text.
func (d *decoder) failure() error {
	err := d.err
	d.scanner = scanner{}
	if err != nil {
		return fmt.Errorf("events: decode: %w", err)
	}
	return nil
}

// innerDepth is how deep, at most, an unknown value is nested itself: a batch, an event, its
// data and an object in that are around it.
const innerDepth = 4

// names are those of the fields of an object, in the order in which they mostly come.
type names struct {
	plain  []string
	quoted []string // as a key, with its colon
}

func newNames(plain ...string) *names {
	n := &names{plain: plain}
	for _, name := range plain {
		n.quoted = append(n.quoted, `"`+name+`":`)
	}
	return n
}

// members tells the fields of one object apart.
type members struct {
	*names
	seen uint64
	next int // the index behind that of the last one
}

// member reads a key and returns its index in the names. It returns -1 if the value is read
// as well, because it is null or its key is unknown.
func (d *decoder) member(m *members) int {
	i := m.guess(d.text[d.at:])
	if i >= 0 {
		d.at += len(m.quoted[i])
	} else if i = m.find(d.key()); i < 0 {
		d.unknown = true
		d.skip(innerDepth)
		return -1
	}
	if m.seen&(1<<i) != 0 {
		d.fail("the field %q comes twice", m.plain[i])
		return -1
	}
	m.seen |= 1 << i
	m.next = i + 1
	if d.null() {
		return -1
	}
	return i
}

// guess returns the index of the key at the start of text if it is spelled as Append does, and
// in the same order. That saves a third of the time that an event takes.
func (m *members) guess(text []byte) int {
	if len(text) < 2 {
		return -1
	}
	for i := m.next; i < len(m.quoted); i++ {
		key := m.quoted[i]
		if key[1] == text[1] && len(key) <= len(text) && key == string(text[:len(key)]) {
			return i
		}
	}
	return -1
}

func (n *names) find(key []byte) int {
	return slices.IndexFunc(n.plain, func(name string) bool { return name == string(key) })
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

// envelope has the texts of the attributes. They are parts of the text that is decoded.
type envelope struct {
	texts [attrData][]byte
	data  int // where the data begins, or 0 if there is none
}

// event reads an event, and appends its record, or that of each row if it is a table. If there is an error
// it appends nothing.
func (d *decoder) event(records []Record) []Record {
	d.peek()
	n := len(records)
	if all, ok := d.common(records); ok {
		return all
	}
	records = d.general(records[:n])
	if d.err != nil {
		return records[:n]
	}
	return records
}

// imply adds what a record says without a field.
func (r *Record) imply() {
	if r.Kind == lockagent.EventHeld && r.Confirmed == 0 {
		r.Confirmed = r.StoreTime
	}
}

// general reads any event.
func (d *decoder) general(records []Record) []Record {
	records = oneMore(records)
	r := &records[len(records)-1]
	*r = Record{}
	d.unknown = false
	d.table = tableText{columns: d.table.columns[:0]}
	t := &d.table
	var env envelope
	attributes := members{names: attributeNames}
	text, start := d.text, d.at
	read := false // the data is
	d.open('{', "an event")
	for n := 0; d.more('}', n); n++ {
		switch i := d.member(&attributes); {
		case i < 0:
		case i < attrData:
			d.peek()
			from := d.at
			env.texts[i] = d.string()
			switch i {
			case attrID:
				t.id = stretch{from, d.at}
			case attrSequence:
				t.sequence = stretch{from, d.at}
			}
		default:
			env.data = d.at
			if read = env.texts[attrType] != nil; read {
				d.typed(env.texts[attrType], r)
			} else {
				d.skip(innerDepth)
			}
		}
	}
	end := d.at
	if env.data > 0 && !read && d.err == nil {
		d.at = env.data
		d.typed(env.texts[attrType], r)
		d.at = end
	}
	if d.err == nil {
		d.err = d.identify(r, &env)
	}
	if t.rows.to > 0 && d.err == nil {
		t.event = stretch{start, end}
		first := *r
		d.at = t.rows.from
		records = d.rows(records[:len(records)-1], first, t)
		d.at = end
	} else if d.err == nil && d.unknown {
		r.Raw = oneLine(text[start:end])
	}
	return records
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
		kinds[typeOf[k]] = k
	}
	return kinds
}()

// typed reads the data of an event of the given type.
func (d *decoder) typed(kind []byte, r *Record) {
	if string(kind) == tableType {
		r.Kind = lockagent.EventHeld
		d.tableData(r, &d.table)
		return
	}
	r.Kind = kindOf[string(kind)]
	if r.Kind == 0 {
		d.unknown = true
		if otherVersion(kind) {
			r.OtherVersion = true
			d.skip(innerDepth) // its fields can mean something else
			return
		}
	}
	d.data(r)
}

func otherVersion(kind []byte) bool { return !bytes.HasSuffix(kind, []byte(typeVersion)) }

// identify takes what the envelope says about the record, and holds it against the data.
func (d *decoder) identify(r *Record, env *envelope) error {
	attrs := &env.texts
	if v := attrs[attrSpecVersion]; string(v) != specVersion {
		return fmt.Errorf("specversion is %q, not %q", v, specVersion)
	}
	if v := attrs[attrContentType]; len(v) > 0 && string(v) != dataType {
		return fmt.Errorf("datacontenttype is %q, not %q", v, dataType)
	}
	if v := attrs[attrType]; !bytes.HasPrefix(v, []byte(typeRoot)) {
		return fmt.Errorf("type %q does not begin with %s", v, typeRoot)
	}
	var ok bool
	if r.Agent, ok = d.source(attrs[attrSource]); !ok {
		return fmt.Errorf("source %q is not %s<agent>", attrs[attrSource], sourceRoot)
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
		if r.Time, ok = d.minute.parse(v); !ok {
			return timeError(v)
		}
	}
	r.TraceParent = string(attrs[attrTraceParent])
	if env.data == 0 {
		return errors.New("it has no data")
	}
	return d.about(r, attrs[attrSubject], attrs[attrType])
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
	id, ok := bytes.CutPrefix(text, []byte(sourceRoot))
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
	d.agent, d.lastSource = agent, sourceRoot+string(agent)
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
	return epoch, seq, ok1 && ok2 && epoch <= maxEpoch && seq <= maxSeq
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
