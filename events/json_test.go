package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// scan reads text with one method of the scanner.
func scan[T any](text []byte, read func(*scanner) T) (T, error) {
	s := scanner{text: text}
	v := read(&s)
	s.end()
	return v, s.err
}

func skipAll(s *scanner) bool {
	s.skip(0)
	return true
}

// FuzzJSON holds the scanner against encoding/json.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,-2.5e+7,true,false,null,{}],"b":"\ud83d\ude00\n"}`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00\ud800"`, "\"\x7f\"", `[1,]`, `01`, `-`,
		`1.`, `.5`, `1e`, `"\x"`, "\"\n\"", `tru`, `{"a"}`, `{,}`, `[`, `{"a":1`, "\ufeff1", `1 2`, `""""`, "1\x00",
		`"12345678\"12345678\u0041"`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return // encoding/json takes it
		}
		if _, err := scan(text, skipAll); (err == nil) != json.Valid(text) {
			t.Errorf("%q: got %v", text, err)
		}
		var want string
		if json.Unmarshal(text, &want) == nil && !bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
			if got, err := scan(text, (*scanner).string); err != nil || string(got) != want {
				t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
			}
		}
	})
}

// TestDeep nests values as deep as they may be, and deeper.
func TestDeep(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if _, err := scan(text, skipAll); (err == nil) != json.Valid(text) {
			t.Errorf("%d: %v", depth, err)
		}
	}
}

// TestIntegers holds our reading of numbers against exact arithmetic.
func TestIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,4}0{0,3})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		type number struct {
			negative bool
			n        uint64
		}
		got, err := scan([]byte(text), func(s *scanner) number {
			negative, n := s.integer()
			return number{negative, n}
		})
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%s is no number", text)
		}
		amount := new(big.Rat).Abs(exact)
		if allowed := amount.IsInt() && amount.Num().IsUint64(); allowed != (err == nil) {
			t.Fatalf("%s: %v", text, err)
		}
		if err == nil && (got.n != amount.Num().Uint64() || got.n > 0 && got.negative != (exact.Sign() < 0)) {
			t.Fatalf("%s: got %+v", text, got)
		}
	})
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
	short := map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '"': `\"`, '\\': `\\`, '/': `\/`}
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
		if err != nil || got != want {
			t.Fatalf("%s\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, kind := range lockagent.EventKinds() {
		f.Add(Append(nil, fullRecord(kind)))
	}
	f.Add([]byte(`{"specversion":"1.0"}`))
	f.Add([]byte(`{"data":{"x":[]},` + "\n" + `"type":"io.lockagent.lock.new.v1","sequence":"0000000003-0000000000000009","source":"/lockagent/agent/a","id":"3:9","specversion":"1.0"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		// A decoder of its own: what others remember would look like new ways through the code.
		var r Record
		if newDecoder().decode(text, &r) != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("%q is no JSON", text)
		}
		line := Append(nil, r)
		again, err := Decode(line)
		if err != nil || again != r || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%s\ndecodes to %+v\nand then   %+v, %v", text, r, again, err)
		}
	})
}
