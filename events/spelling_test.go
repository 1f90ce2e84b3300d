package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// TestIntegers holds our reading of numbers against exact arithmetic.
func TestIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,4}0{0,3})?([eE][+-]?[0-9]{1,2})?`).
			Draw(t, "number")
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s is no number", text)
		}
		whole, err := unsigned(jsontext.Value(text))
		if allowed := exact.IsInt() && exact.Num().IsUint64(); allowed != (err == nil) {
			t.Fatalf("%s: %v", text, err)
		} else if allowed && whole != exact.Num().Uint64() {
			t.Fatalf("%s: got %d", text, whole)
		}
		n, err := signed(jsontext.Value(text))
		if allowed := exact.IsInt() && exact.Num().IsInt64(); allowed != (err == nil) {
			t.Fatalf("%s: %v", text, err)
		} else if allowed && n != exact.Num().Int64() {
			t.Fatalf("%s: got %d", text, n)
		}
	})
}

// TestAgentsInTurn: what a decoder remembers of an agent does not become part of the records of another.
func TestAgentsInTurn(t *testing.T) {
	d := newDecoder()
	first, other := typicalRecord(9), typicalRecord(9)
	other.Agent = "other"
	for range 2 {
		for _, want := range []Record{first, other} {
			var r Record
			if err := d.decode(Append(nil, want), &r); err != nil || !r.Equal(&want) {
				t.Errorf("got %+v, %v; want %+v", r, err, want)
			}
		}
	}
}

// respell writes a JSON value in another spelling.
func respell(t *rapid.T, b []byte, value any) []byte {
	blank := func() {
		b = append(b, rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t\r\n "}).Draw(t, "blank")...)
	}
	blank()
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, key := range rapid.Permutation(keys).Draw(t, "order") {
			if i > 0 {
				b = append(b, ',')
			}
			b = respell(t, b, key)
			b = append(b, ':')
			b = respell(t, b, v[key])
		}
		b = append(b, '}')
	case []any:
		b = append(b, '[')
		for i, of := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = respell(t, b, of)
		}
		b = append(b, ']')
	case string:
		b = append(b, '"')
		for _, c := range v {
			b = respellRune(t, b, c)
		}
		b = append(b, '"')
	case json.Number:
		spellings := []string{"", ".0", "e0", ".00E+00", "0e-1"}
		if v == "0" {
			spellings = spellings[:4] // no number begins with two zeros
		}
		b = append(append(b, v...), rapid.SampledFrom(spellings).Draw(t, "spelling")...)
	case bool:
		b = fmt.Append(b, v)
	default:
		t.Fatalf("%T", value)
	}
	blank()
	return b
}

func respellRune(t *rapid.T, b []byte, c rune) []byte {
	short := map[rune]string{
		'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\\': `\\`, '/': `\/`,
	}
	switch rapid.IntRange(0, 3).Draw(t, "escape") {
	case 0:
		if text, ok := short[c]; ok {
			return append(b, text...)
		}
		fallthrough
	case 1:
		if c > 0xffff {
			high, low := utf16.EncodeRune(c)
			return fmt.Appendf(b, `\u%04x\u%04X`, high, low)
		}
		return fmt.Appendf(b, `\u%04X`, c)
	}
	if c < ' ' || c == '"' || c == '\\' {
		return fmt.Appendf(b, `\u%04x`, c)
	}
	return utf8.AppendRune(b, c)
}

// TestAnySpelling decodes events that another program has written.
func TestAnySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawRecord(t)
		var value any
		decoder := json.NewDecoder(bytes.NewReader(Append(nil, want)))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		text := respell(t, nil, value)
		got, err := Decode(text)
		if err != nil || !got.Equal(&want) {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, kind := range lockagent.EventKinds() {
		f.Add(Append(nil, fullRecord(kind)))
	}
	f.Add([]byte(`{"specversion":"1.0"}`))
	// Empty texts, before there was any.
	f.Add(
		[]byte(
			`{"specversion":"1.0","id":"1:1","source":"/lockagent/agent/a","type":"","data":{"store":"","count":0}}`,
		),
	)
	f.Add(
		[]byte(
			`{"data":{"x":[]},` + "\n" + `"type":"io.lockagent.lock.new.v1","sequence":"0000000003-0000000000000009",` +
				`"source":"/lockagent/agent/a","id":"3:9","specversion":"1.0"}`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		// A decoder of its own: what others remember would look like new ways through the code.
		var r Record
		if newDecoder().decode(text, &r) != nil {
			return
		}
		if r.Raw == "" {
			checkMeaning(t, text, &r)
		}
		line := Append(nil, r)
		again, err := Decode(line)
		if err != nil || !again.Equal(&r) || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%s\ndecodes to %+v\nand then   %+v, %v", text, r, again, err)
		}
	})
}

// checkMeaning holds a record against what encoding/json finds in its text.
func checkMeaning(t *testing.T, text []byte, r *Record) {
	found, told := plainJSON(t, text), plainJSON(t, Append(nil, *r))
	for _, name := range []string{"specversion", "id", "source", "type", "traceparent"} {
		if a, b := found[name], told[name]; a != b && !(a == nil || a == "") {
			t.Errorf("%s: %s is %v, but was taken for %v", text, name, a, b)
		}
	}
	data, _ := found["data"].(map[string]any)
	again, _ := told["data"].(map[string]any)
	for _, name := range fieldNames.list[:fieldReset] {
		if a, b := data[name], again[name]; !sameJSON(a, b) {
			t.Errorf("%s: %s is %v, but was taken for %v", text, name, a, b)
		}
	}
}

func plainJSON(t *testing.T, text []byte) (values map[string]any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return values
}

// sameJSON reports whether two plain values are the same, or both zero.
func sameJSON(a, b any) bool {
	number := func(v any) *big.Rat {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		rat, _ := new(big.Rat).SetString(string(n))
		return rat
	}
	if x, y := number(a), number(b); x != nil && y != nil {
		return x.Cmp(y) == 0
	} else if x != nil || y != nil {
		return (x == nil || x.Sign() == 0) && (y == nil || y.Sign() == 0) && (a == nil || b == nil)
	}
	empty := func(v any) bool { return v == nil || v == "" || v == false }
	return a == b || empty(a) && empty(b)
}
