package events

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
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
			if filepath.Base(file) == "batch.json" {
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
	t.Run("LaterVersion", func(t *testing.T) {
		for _, change := range [][2]string{
			{`"data":{`, `"colour":"red","data":{"shape":[1],`}, {`"denied"`, `"bored"`}, {`"handoff"`, `"magic"`}, {`"plain"`, `"latch"`},
			{`lock.granted.v1`, `lock.upgraded.v1`}, {`"dropped":{`, `"dropped":{"upgraded":7,`},
		} {
			text := changed(t, lockagent.EventGranted, change[0], change[1])
			if err := valid(t, event, text); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		other := []byte(`{"specversion":"1.0","id":"3:9","source":"/lockagent/agent/a","type":"io.lockagent.lock.granted.v2",` +
			`"data":[7]}`)
		if err := valid(t, event, other); err != nil {
			t.Error(err)
		}
		if r, err := Decode(other); err != nil || r.Raw != string(other) {
			t.Errorf("got %+v, %v", r, err)
		}
	})
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
	case lockagent.EventReentered:
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
	case lockagent.EventAgentStarted:
		return []string{"process"}
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
			for _, name := range append(slices.Clone(attributeNames.plain), fieldNames.plain...) {
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
		"Drops":       {`"granted":3`, `"granted":0`},
	} {
		text := changed(t, lockagent.EventGranted, change[0], change[1])
		if valid(t, event, text) == nil || valid(t, batch, []byte("["+string(text)+"]")) == nil {
			t.Errorf("%s: it takes %s", name, text)
		}
	}
}
