package lockstate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// payload has the names of fields of an [Event].
type payload map[string]bool

func (p payload) String() string { return strings.Join(slices.Sorted(maps.Keys(p)), ", ") }

// add adds the payload of an event.
func (p payload) add(e *Event) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Kind" && name != "Now" && !v.Field(i).IsZero() {
			p[name] = true
		}
	}
}

// payloads has what the comment of each Kind names as its payload, in its last sentence.
func payloads(t *testing.T) map[Kind]payload {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	byKind := make(map[Kind]payload)
	ast.Inspect(file, func(n ast.Node) bool {
		of, ok := n.(*ast.ValueSpec)
		if !ok || of.Names[0].Name == "_" {
			return true
		}
		name := of.Names[0].Name
		kind := Kind(slices.Index(kindNames[:], name))
		if int(kind) >= len(kindNames) {
			t.Fatalf("kindNames lacks %s", name)
		}
		text := strings.Join(strings.Fields(of.Doc.Text()), " ")
		if !strings.HasPrefix(text, name+": ") {
			t.Errorf("the comment of %s does not begin with its name: %q", name, text)
		}
		byKind[kind] = make(payload)
		sentences := strings.Split(strings.TrimSuffix(text, "."), ". ")
		last := strings.Split(sentences[len(sentences)-1], ", ")
		for _, field := range last {
			if _, ok := reflect.TypeFor[Event]().FieldByName(field); ok {
				byKind[kind][field] = true
			}
		}
		if n := len(byKind[kind]); n != 0 && n != len(last) {
			t.Errorf("the comment of %s names something else among the fields of an event: %q", name, last)
		}
		return true
	})
	return byKind
}

// An event has only what the comment of its kind names as its payload. Some event of the kind has each of these fields.
// The events are those of walks through all small worlds.
func TestPayloads(t *testing.T) {
	seen := make(map[Kind]payload)
	noted = func(e *Event) {
		if seen[e.Kind] == nil {
			seen[e.Kind] = make(payload)
		}
		seen[e.Kind].add(e)
	}
	defer func() { noted = nil }()
	for _, v := range variants {
		e := newExploration(v.longer(20))
		for seed := range uint64(5) {
			e.walk(rand.New(rand.NewPCG(seed, 0)), 400)
		}
	}
	for _, v := range latchVariants {
		e := latchExploration{t: t, count: v.count, left: v.left}
		e.run(newLatchWorld(v.left, v.count), few/10)
	}
	for kind, want := range payloads(t) {
		if got := seen[kind]; got == nil || got.String() != want.String() {
			t.Errorf("events %s have the payload %v, but the comment names %v", kindNames[kind], got, want)
		}
	}
}
