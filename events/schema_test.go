package events

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

const schemaFile = "schema/event-v1.json"

// eventSchemas compiles the schema of an event and that of a batch.
func eventSchemas(t testing.TB) (event, batch *jsonschema.Schema) {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("event", doc); err != nil {
		t.Fatal(err)
	}
	compile := func(at string) *jsonschema.Schema {
		s, err := c.Compile(at)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return compile("event"), compile("event#/$defs/batch")
}

// valid returns what the schema says about a text.
func valid(t interface{ Fatal(...any) }, s *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

func TestSchema(t *testing.T) {
	event, batch := eventSchemas(t)
	t.Run("GoldenFiles", func(t *testing.T) {
		files, err := filepath.Glob("testdata/v1/*.json")
		if err != nil || len(files) < len(lockagent.EventKinds()) {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := event
			if slices.Contains([]string{"batch.json", "holds.json"}, filepath.Base(file)) {
				s = batch
			}
			if err := valid(t, s, text); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	})
	t.Run("Anything", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r := drawRecord(t)
			if err := valid(t, event, Append(nil, r)); err != nil {
				t.Fatalf("%s: %v", Append(nil, r), err)
			}
			if err := valid(t, batch, batchOf([]Record{r, r})); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("AnyTable", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			text := AppendBatch(nil, drawHolds(t))
			if !bytes.Contains(text, []byte(wire.TableType)) {
				t.Fatalf("%s is no table", text)
			}
			if err := valid(t, batch, text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		})
	})
	t.Run("LaterVersion", func(t *testing.T) {
		for _, change := range [][2]string{
			{`"data":{`, `"colour":"red","data":{"shape":[1],`},
			{`"denied"`, `"bored"`},
			{`"handoff"`, `"magic"`},
			{`"plain"`, `"latch"`},
			{`lock.granted.v1`, `lock.upgraded.v1`},
			{`"dropped":{`, `"dropped":{"upgraded":7,`},
		} {
			text := changed(t, lockagent.EventGranted, change[0], change[1])
			if err := valid(t, event, text); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		other := []byte(`{"specversion":"1.0","id":"3:9","source":"/lockagent/agent/a",` +
			`"type":"io.lockagent.lock.granted.v2",` +
			`"data":[7]}`)
		if err := valid(t, event, other); err != nil {
			t.Error(err)
		}
		if r, err := Decode(other); err != nil || r.Raw != string(other) {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("LaterTable", func(t *testing.T) {
		for _, change := range [][2]string{
			{`"data":{`, `"data":{"shape":[1],`},
			{`"returned_us"]`, `"shape"]`},
			{`"handoff"`, `"magic"`},
			{`,1500,`, `,null,`},
			{`"waited_us"`, `"lease_share"`},
			{`,1500,`, `,0.5,`},
		} {
			text := changedTable(t, change[0], change[1])
			if err := valid(t, batch, text); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// drawHolds draws records that are a table.
func drawHolds(t *rapid.T) (holds []Record) {
	short := func(text string) string {
		runes := []rune(text)
		return string(runes[:min(len(runes), wire.MaxText/40)])
	}
	first := drawRecord(t)
	for i := range rapid.IntRange(2, 5).Draw(t, "holds") {
		d := drawRecord(t)
		if d.Time.IsZero() { // such a hold is an event of its own
			d.Time = time.Unix(0, 0)
		}
		holds = append(holds, Record{
			Event: lockagent.Event{
				Kind: lockagent.EventHeld, Agent: first.Agent, Time: d.Time, Store: short(first.Store),
				Lock:     lockagent.Name(short(string(first.Lock))),
				LockKind: lockagent.LockKind(short(string(first.LockKind))),
				Mode:     lockagent.Mode(short(string(first.Mode))),
				Owner:    lockagent.Owner(short(string(d.Owner))), Request: d.Request, Tenure: d.Tenure, Token: d.Token,
				How:    d.How,
				Waited: d.Waited, Held: d.Held, Lease: first.Lease, Fixed: first.Fixed, StoreTime: d.StoreTime,
				Confirmed: d.StoreTime,
				Until:     d.Until, Returned: d.Returned, Incarnation: short(first.Incarnation),
			},
			Epoch: first.Epoch,
			Seq:   min(first.Seq, MaxSeq-5) + uint64(i),
		})
	}
	return holds
}

// changedTable is a batch with a table in which the first from is to.
func changedTable(t *testing.T, from, to string) []byte {
	t.Helper()
	good := AppendBatch(nil, goldenHolds())
	bad := bytes.Replace(good, []byte(from), []byte(to), 1)
	if bytes.Equal(bad, good) {
		t.Fatalf("%q is not in %s", from, good)
	}
	return bad
}

// required are the fields that the data of each kind must have, beside what all of the same
// group must have.
func required(kind lockagent.EventKind) (fields []string) {
	lock := []string{"lock", "kind", "mode"}
	end := append(slices.Clone(lock), "owner", "tenure", "token", "count")
	grant := append(slices.Clone(end), "request")
	switch kind {
	case lockagent.EventRequested, lockagent.EventQueued, lockagent.EventTimedOut, lockagent.EventCancelled:
		return append(lock, "owner", "request")
	case lockagent.EventGranted, lockagent.EventHeld:
		return append(grant, "how")
	case lockagent.EventReentered, lockagent.EventHolding:
		return grant
	case lockagent.EventReleased, lockagent.EventExpired, lockagent.EventUnclaimed:
		return end
	case lockagent.EventLost:
		return append(end, "reason")
	case lockagent.EventBroken:
		return append(lock, "count")
	case lockagent.EventUncertain:
		return append(lock, "owner", "tenure", "token")
	case lockagent.EventRenewed, lockagent.EventReturned:
		return append(lock, "tenure")
	case lockagent.EventStoreReset:
		return []string{"reset"}
	case lockagent.EventGraceBegan, lockagent.EventGraceEnded:
		return []string{"grace"}
	case lockagent.EventAgentStarted:
		return []string{"process"}
	case lockagent.EventPermits:
		return []string{"lock", "kind", "op"}
	case lockagent.EventDropped:
		return []string{"dropped"}
	}
	return nil
}

// TestSchemaRequires removes each field of each golden record: exactly those that the kind
// needs are missed.
func TestSchemaRequires(t *testing.T) {
	event, _ := eventSchemas(t)
	for _, kind := range lockagent.EventKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			text := Append(nil, goldenRecord(kind))
			for _, name := range append(slices.Clone(attributeNames.list), fieldNames.list...) {
				without := bytes.Replace(text, []byte(`"`+name+`":`), []byte(`"not_`+name+`":`), 1)
				if bytes.Equal(without, text) {
					if slices.Contains(required(kind), name) {
						t.Errorf("it has no %s", name)
					}
					continue
				}
				needed := slices.Contains([]string{"specversion", "id", "source", "type", "data"}, name) ||
					slices.Contains(required(kind), name)
				if err := valid(t, event, without); (err != nil) != needed {
					t.Errorf("without %s: %v", name, err)
				}
			}
		})
	}
}

// TestSchemaRequiresOfTables does the same with the golden table, and with its columns.
func TestSchemaRequiresOfTables(t *testing.T) {
	_, batch := eventSchemas(t)
	needed := append(required(lockagent.EventHeld), "specversion", "id", "source", "type", "data", "columns", "rows")
	check := func(name string, without []byte) {
		if err := valid(t, batch, without); (err != nil) != slices.Contains(needed, name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	text := string(AppendBatch(nil, goldenHolds()))
	seen := make(map[string]bool)
	for _, name := range append(slices.Clone(attributeNames.list), tableNames.list...) {
		if key := `"` + name + `":`; strings.Contains(text, key) {
			check(name, changedTable(t, key, `"not_`+name+`":`))
			seen[name] = true
		}
	}
	for _, name := range wire.TableColumns[1:] {
		check(name, changedTable(t, `"`+name+`"`, `"not_`+name+`"`))
		seen[name] = true
	}
	for _, name := range needed {
		if !seen[name] {
			t.Errorf("the table has no %s", name)
		}
	}
}

func TestSchemaRefusesTables(t *testing.T) {
	_, batch := eventSchemas(t)
	refused := func(name string, text []byte) {
		t.Helper()
		if valid(t, batch, text) == nil {
			t.Errorf("%s: the schema takes %s", name, text)
		}
		if err := DecodeMessage(BatchContentType, text, func(Record) error { return nil }); err == nil {
			t.Errorf("%s: DecodeMessage takes %s", name, text)
		}
	}
	text := string(AppendBatch(nil, goldenHolds()))
	_, rows, _ := strings.Cut(text, `"rows":`)
	fields, _, _ := strings.Cut(text[strings.Index(text, `"count"`):], `[`)
	for name, change := range map[string][2]string{
		"Fields":   {fields, `"names":`}, // neither columns nor a count
		"Columns":  {`"columns":[`, `"columns":7,"names":[`},
		"Column":   {`"waited_us"`, `7`},
		"Twice":    {`"waited_us"`, `"request"`},
		"Rows":     {`"rows":[`, `"rows":7,"lines":[`},
		"NoRows":   {rows, `[]}}]`},
		"Row":      {rows, `[7]}}]`},
		"Data":     {`"count":0`, `"count":"0"`},
		"Sequence": {`"3:19"`, `"3:0"`},
	} {
		refused(name, changedTable(t, change[0], change[1]))
	}
	refused("ManyRows", manyRows(wire.MaxRecords+1))
	refused("ColumnTwice", changedTable(t, `"columns":[`, `"columns":["colour","colour",`))
	refused("NullColumns", changedTable(t, `"columns":[`, `"columns":null,"names":[`))
	for i, name := range tableNames.list {
		if i < fieldOwner || i >= fieldReset {
			refused(name+" is a column", changedTable(t, `"waited_us"`, `"`+name+`"`))
		}
	}
	var full struct {
		Data map[string]json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(Append(nil, fullRecord(lockagent.EventGranted)), &full); err != nil {
		t.Fatal(err)
	}
	for _, name := range fieldNames.list[fieldOwner:fieldReset] {
		twice, column, field := text, `"`+name+`"`, `"`+name+`":`
		value := string(full.Data[name])
		if !strings.Contains(twice, field) {
			twice = strings.Replace(twice, `"data":{`, `"data":{`+field+value+`,`, 1)
		}
		if !slices.Contains(wire.TableColumns[:], name) {
			twice = strings.Replace(twice, `"columns":[`, `"columns":[`+column+`,`, 1)
			twice = strings.ReplaceAll(twice, `["2026`, `[`+value+`,"2026`)
		}
		refused(name+" is a column and a field", []byte(twice))
	}
}

func TestSchemaRefuses(t *testing.T) {
	event, batch := eventSchemas(t)
	for name, change := range map[string][2]string{
		"Version":     {`"specversion":"1.0"`, `"specversion":"0.3"`},
		"ContentType": {`"data":{`, `"datacontenttype":"text/xml","data":{`},
		"Type":        {`io.lockagent`, `com.example`},
		"Agent":       {`/agent/3f`, `/agent/3/f`},
		"ID":          {`"3:9"`, `"3:0"`},
		"IDWithAgent": {`"3:9"`, `"a:3:9"`},
		"Sequence":    {`"data":{`, `"sequence":"9","data":{`},
		"Time":        {`2026-11-21T`, `2026-13-21T`},
		"Token":       {`"token":`, `"token":-`},
		"Fraction":    {`"request":11`, `"request":1.5`},
		"Text":        {`"owner":"worker-7"`, `"owner":7`},
		"Data":        {`"data":{`, `"data":7,"date":{`},
		"Reset":       {`"after_us":23`, `"after_us":"23"`},
		"Step":        {`"step_us":-25`, `"step_us":-2.5`},
		"Grace":       {`"began_us":26`, `"began_us":"26"`},
		"Roll":        {`"roll":[`, `"roll":[7,`},
		"Drops":       {`"granted":3`, `"granted":0`},
	} {
		text := changed(t, lockagent.EventGranted, change[0], change[1])
		if valid(t, event, text) == nil || valid(t, batch, []byte("["+string(text)+"]")) == nil {
			t.Errorf("%s: it takes %s", name, text)
		}
	}
}
