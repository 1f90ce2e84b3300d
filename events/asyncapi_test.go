package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
)

type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Const      string            `json:"const"`
	Enum       []string          `json:"enum"`
	Maximum    uint64            `json:"maximum"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	AllOf      []schema          `json:"allOf"`
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
			Enum []string `json:"enum"`
		} `json:"parameters"`
		Messages  map[string]ref `json:"messages"`
		JetStream struct {
			Stream   string   `json:"stream"`
			Subjects []string `json:"subjects"`
		} `json:"x-jetstream"`
	} `json:"channels"`
	Operations map[string]struct {
		Action  string `json:"action"`
		Channel ref    `json:"channel"`
	} `json:"operations"`
	Components struct {
		Messages map[string]struct {
			Name    string `json:"name"`
			Headers ref    `json:"headers"`
			Payload schema `json:"payload"`
		} `json:"messages"`
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// TestAsyncAPI holds asyncapi.json against the code: each has exactly the kinds,
// the attributes and the fields of the other.
func TestAsyncAPI(t *testing.T) {
	text, err := os.ReadFile("asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc asyncAPI
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the document has %v, the code %v", what, got, want)
		}
	}
	same("version", doc.Version, "3.1.0")
	same("content type", doc.DefaultContentType, ContentType)

	channel := doc.Channels["events"]
	same("address", channel.Address, DefaultPrefix+".{agent}.{kind}.{name}")
	same("parameters", slices.Sorted(maps.Keys(channel.Parameters)), []string{"agent", "kind", "name"})
	same("stream", channel.JetStream.Stream, DefaultStream)
	same("subjects", channel.JetStream.Subjects, []string{AllSubjects})
	same("action", doc.Operations["record"].Action, "send")
	same("operation's channel", doc.Operations["record"].Channel.Ref, "#/channels/events")

	var kinds []string
	for _, kind := range lockagent.EventKinds() {
		name := kind.String()
		kinds = append(kinds, name)
		message := doc.Components.Messages[name]
		same(name, message.Name, typeOf[kind])
		same(name+" in the channel", channel.Messages[name].Ref, "#/components/messages/"+name)
		same(name+": headers", message.Headers.Ref, "#/components/schemas/headers")
		if len(message.Payload.AllOf) != 2 || message.Payload.AllOf[0].Ref != "#/components/schemas/event" {
			t.Errorf("%s: it is not an event with a type of its own: %+v", name, message.Payload)
			continue
		}
		same(name+": type", message.Payload.AllOf[1].Properties["type"].Const, typeOf[kind])
	}
	same("kinds of the subject", channel.Parameters["kind"].Enum, kinds)
	same("messages", slices.Sorted(maps.Keys(doc.Components.Messages)), slices.Sorted(slices.Values(kinds)))
	same("messages of the channel", slices.Sorted(maps.Keys(channel.Messages)), slices.Sorted(slices.Values(kinds)))

	var event struct {
		Data struct {
			Reset json.RawMessage `json:"reset"`
		} `json:"data"`
	}
	full := Append(nil, fullRecord(lockagent.EventGranted))
	var data struct {
		Data json.RawMessage `json:"data"`
	}
	for _, into := range []any{&event, &data} {
		if err := json.Unmarshal(full, into); err != nil {
			t.Fatal(err)
		}
	}
	schemas := doc.Components.Schemas
	same("attributes", properties(schemas["event"]), fields(t, full))
	same("fields", properties(schemas["data"]), fields(t, data.Data))
	same("fields of a reset", properties(schemas["reset"]), fields(t, event.Data.Reset))
	same("headers", slices.Sorted(maps.Keys(schemas["headers"].Properties)), []string{"Content-Type", "Nats-Msg-Id", "traceparent"})
	same("content type header", schemas["headers"].Properties["Content-Type"].Const, ContentType)
	same("greatest token", schemas["data"].Properties["token"].Maximum, uint64(lockagent.MaxToken))
	same("hows", schemas["data"].Properties["how"].Enum, []string{lockagent.ByStore.String(), lockagent.ByHandOff.String()})
	var reasons []string
	for _, r := range lossReasons() {
		reasons = append(reasons, r.String())
	}
	same("reasons", schemas["data"].Properties["reason"].Enum, reasons)

	// What is required is what an event with nothing set has.
	bare := fields(t, Append(nil, Record{Event: lockagent.Event{Kind: lockagent.EventAgentStarted, Agent: "a"}, Epoch: 1, Seq: 1}))
	same("required attributes", slices.Sorted(slices.Values(schemas["event"].Required)), slices.Sorted(maps.Keys(bare)))
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
		case map[string]any:
			types[name] = "object"
		}
	}
	return types
}
