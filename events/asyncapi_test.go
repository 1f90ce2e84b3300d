package events

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Const      string            `json:"const"`
	Examples   []string          `json:"examples"`
	Maximum    uint64            `json:"maximum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      struct {
		Examples []string `json:"examples"`
	} `json:"items"`
	Defs map[string]schema `json:"$defs"`
}

type ref struct {
	Ref string `json:"$ref"`
}

type asyncAPI struct {
	Version            string `json:"asyncapi"`
	DefaultContentType string `json:"defaultContentType"`
	Channels           map[string]struct {
		Address    string `json:"address"`
		Parameters map[string]struct {
			Examples []string `json:"examples"`
			Enum     []string `json:"enum"`
			Default  string   `json:"default"`
		} `json:"parameters"`
		Messages  map[string]ref `json:"messages"`
		JetStream map[string]any `json:"x-jetstream"`
	} `json:"channels"`
	Operations map[string]struct {
		Action  string `json:"action"`
		Channel ref    `json:"channel"`
	} `json:"operations"`
	Components struct {
		Messages map[string]struct {
			Name        string `json:"name"`
			Summary     string `json:"summary"`
			ContentType string `json:"contentType"`
			Headers     ref    `json:"headers"`
			Payload     struct {
				Format string `json:"schemaFormat"`
				Schema schema `json:"schema"`
			} `json:"payload"`
		} `json:"messages"`
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// same reports what a document and the code do not agree about.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: the document has %v, the code %v", what, got, want)
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestAsyncAPI holds asyncapi.json against the code: each has exactly the kinds and the
// classes of the other. TestSchemaIsComplete does so with the fields.
func TestAsyncAPI(t *testing.T) {
	var doc asyncAPI
	readJSON(t, "asyncapi.json", &doc)
	same(t, "version", doc.Version, "3.1.0")
	same(t, "content type", doc.DefaultContentType, ContentType)

	channel := doc.Channels["events"]
	same(t, "address", channel.Address, "{prefix}.{agent}.{class}.{name}")
	same(t, "parameters", slices.Sorted(maps.Keys(channel.Parameters)), []string{"agent", "class", "name", "prefix"})
	same(t, "prefix", channel.Parameters["prefix"].Default, DefaultPrefix)
	same(t, "stream", channel.JetStream, recommendedStream(t))
	same(t, "action", doc.Operations["record"].Action, "send")
	same(t, "operation's channel", doc.Operations["record"].Channel.Ref, "#/channels/events")

	names, classes := []string{"batch"}, make(map[string]bool)
	for _, kind := range lockagent.EventKinds() {
		name := kind.String()
		names = append(names, name)
		classes[Class(kind)] = true
		message := doc.Components.Messages[name]
		same(t, name, message.Name, wire.TypeOf[kind])
		same(t, name+": content type", message.ContentType, ContentType)
		same(t, name+": headers", message.Headers.Ref, "#/components/schemas/headers")
		same(t, name+": schema", message.Payload.Schema.Ref, "./"+schemaFile)
		same(t, name+": type", message.Payload.Schema.Properties["type"].Const, wire.TypeOf[kind])
	}
	batch := doc.Components.Messages["batch"]
	same(t, "batch: content type", batch.ContentType, BatchContentType)
	same(t, "batch: headers", batch.Headers.Ref, "#/components/schemas/batchHeaders")
	same(t, "batch: schema", batch.Payload.Schema.Ref, "./"+schemaFile+"#/$defs/batch")
	// Tables are no messages of their own.
	same(t, "batch: tables", strings.Contains(batch.Summary, wire.TableType), true)
	slices.Sort(names)
	same(t, "classes", slices.Sorted(slices.Values(channel.Parameters["class"].Examples)),
		slices.Sorted(maps.Keys(classes)))
	same(t, "that there are no more classes", channel.Parameters["class"].Enum, []string(nil))
	same(t, "messages", slices.Sorted(maps.Keys(doc.Components.Messages)), names)
	same(t, "messages of the channel", slices.Sorted(maps.Keys(channel.Messages)), names)
	for _, name := range names {
		same(t, name+" in the channel", channel.Messages[name].Ref, "#/components/messages/"+name)
	}

	schemas := doc.Components.Schemas
	same(t, "headers", slices.Sorted(maps.Keys(schemas["headers"].Properties)),
		[]string{"Content-Type", OriginHeader, "Nats-Msg-Id", "traceparent"})
	same(t, "content type header", schemas["headers"].Properties["Content-Type"].Const, ContentType)
	same(t, "headers of a batch", slices.Sorted(maps.Keys(schemas["batchHeaders"].Properties)),
		[]string{"Content-Type", OriginHeader, "Nats-Msg-Id"})
	same(t, "content type header of a batch", schemas["batchHeaders"].Properties["Content-Type"].Const,
		BatchContentType)
}

// recommendedStream is the stream that docs/nats.md recommends, without its bounds.
func recommendedStream(t *testing.T) (stream map[string]any) {
	t.Helper()
	page, err := os.ReadFile("../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n```json\n")
	text, _, _ = strings.Cut(text, "\n```\n")
	if err := json.Unmarshal([]byte(text), &stream); err != nil {
		t.Fatal(err)
	}
	for _, bound := range []string{"num_replicas", "max_consumers", "max_msgs", "max_bytes", "max_age"} {
		delete(stream, bound)
	}
	return stream
}

// TestAsyncAPIIsValid holds asyncapi.json against the JSON Schema of AsyncAPI.
func TestAsyncAPIIsValid(t *testing.T) {
	file, err := os.Open("testdata/asyncapi/3.1.0.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	specification, err := jsonschema.UnmarshalJSON(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const address = "http://asyncapi.com/definitions/3.1.0/asyncapi.json"
	if err := c.AddResource(address, specification); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(address)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := valid(t, compiled, text); err != nil {
		t.Error(err)
	}
	if err := valid(t, compiled,
		bytes.Replace(text, []byte(`"action": "send"`), []byte(`"action": "sing"`), 1)); err == nil {
		t.Error("an operation that AsyncAPI does not have is valid")
	}
}

// TestSchemaIsComplete holds the schema against the code: each has exactly the attributes and
// the fields of the other.
func TestSchemaIsComplete(t *testing.T) {
	var doc schema
	readJSON(t, schemaFile, &doc)
	var event struct {
		Data json.RawMessage `json:"data"`
	}
	full := Append(nil, fullRecord(lockagent.EventGranted))
	var data struct {
		Reset, Grace, Process, Who, Follows, Dropped json.RawMessage
	}
	if err := json.Unmarshal(full, &event); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(event.Data, &data); err != nil {
		t.Fatal(err)
	}
	attributes := properties(doc)
	attributes["data"] = "object" // the schema has it for the types of this version
	// Only others write these.
	delete(attributes, attributeNames.list[attrContentType])
	delete(attributes, attributeNames.list[attrSequence])
	same(t, "attributes", attributes, fields(t, full))
	same(t, "fields", properties(doc.Defs["data"]), fields(t, event.Data))
	same(t, "fields of a reset", properties(doc.Defs["reset"]), fields(t, data.Reset))
	same(t, "fields of a grace period", properties(doc.Defs["grace"]), fields(t, data.Grace))
	same(t, "fields of a process", properties(doc.Defs["process"]), fields(t, data.Process))
	same(t, "fields of a who", properties(doc.Defs["who"]), fields(t, data.Who))
	same(t, "fields of a place", properties(doc.Defs["follows"]), fields(t, data.Follows))
	same(t, "dropped kinds", properties(doc.Defs["dropped"]), fields(t, data.Dropped))

	known := doc.Defs["data"].Properties
	same(t, "greatest token", known["token"].Maximum, uint64(lockagent.MaxToken))
	same(t, "hows", known["how"].Examples,
		[]string{lockagent.ByStore.String(), lockagent.ByHandOff.String(), lockagent.ByRest.String()})
	same(t, "kinds of locks", known["kind"].Examples, []string{string(lockagent.PlainLock)})
	same(t, "modes", known["mode"].Examples, []string{string(lockagent.Exclusive), string(lockagent.Shared)})
	var reasons []string
	for _, r := range lossReasons() {
		reasons = append(reasons, r.String())
	}
	same(t, "reasons", known["reason"].Examples, reasons)
	same(t, "types", doc.Properties["type"].Examples, append(slices.Clone(wire.TypeOf[1:]), wire.TableType))

	table := doc.Defs["holdsData"].Properties
	same(t, "fields of a table", properties(doc.Defs["holdsData"]),
		map[string]string{"columns": "array", "rows": "array"})
	same(t, "columns", table["columns"].Items.Examples, wire.TableColumns[:])
}

// properties returns the properties of an object and their types.
func properties(s schema) map[string]string {
	types := make(map[string]string)
	for name, p := range s.Properties {
		switch {
		case p.Const != "":
			types[name] = "string"
		case p.Ref != "":
			types[name] = "object"
		default:
			types[name] = p.Type
		}
	}
	return types
}

// fields returns the same of an object itself.
func fields(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	types := make(map[string]string)
	for name, v := range values {
		switch v.(type) {
		case string:
			types[name] = "string"
		case json.Number:
			types[name] = "integer"
		case bool:
			types[name] = "boolean"
		case map[string]any:
			types[name] = "object"
		case []any:
			types[name] = "array"
		}
	}
	return types
}
