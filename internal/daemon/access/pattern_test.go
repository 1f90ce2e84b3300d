package access

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
)

// pattern is a pattern that a test knows to be right.
func pattern(t testing.TB, text string) Pattern {
	t.Helper()
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPattern(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		yes, not string // with spaces between names; "-" is the empty name
	}{
		{"orders", "orders", "- order orders/ orders/1 xorders"},
		{"*", "- a a.b", "/ a/ a/b /a"},
		{"**", "- a a/b /", ""},
		{"orders/*", "orders/ orders/42", "orders orders/42/x xorders/42"},
		{"orders/**", "orders/ orders/42 orders/42/x", "orders"},
		{"*/lock", "a/lock /lock", "lock a/b/lock a/lock2"},
		{"**/lock", "a/lock a/b/lock a/lock/lock", "lock a/lock/x"},
		{"a*b*c", "abc axbxc abbcbc aXbYc abcc", "ab abcd a/bc ab/c"},
		{"a*/x*b", "a/xb aa/xxb", "a/x/xb ab"},
		{"**a*b", "ab a/ab a/xaxb aaab", "a/b ba aab/"},
		{"**/a*b/**", "x/ab/ x/a/ab/y /ab/a", "ab/ x/ab x/a/b/"},
		{"ü*", "ü üx", "x ux"},
	} {
		p := pattern(t, test.pattern)
		for want, names := range map[bool]string{true: test.yes, false: test.not} {
			for name := range strings.FieldsSeq(names) {
				if name == "-" {
					name = ""
				}
				if p.Match(name) != want {
					t.Errorf("%q matches %q: %v, want %v", test.pattern, name, !want, want)
				}
			}
		}
	}
}

func TestParsePatternErrors(t *testing.T) {
	for text, says := range map[string]string{
		"":                       `write "**" for all names`,
		"a***":                   "three stars",
		"****":                   "three stars",
		strings.Repeat("a", 513): "513 bytes",
	} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParsePattern(%.10q) returned %v, want what says %q", text, err, says)
		}
	}
}

// reference is a pattern as a regular expression.
func reference(text string) *regexp.Regexp {
	e := regexp.QuoteMeta(text)
	e = strings.ReplaceAll(e, `\*\*`, `(?:any)`)
	e = strings.ReplaceAll(e, `\*`, `[^/]*`)
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(e, `(?:any)`, `.*`) + `$`)
}

func agrees(t interface{ Errorf(string, ...any) }, text, name string) {
	p, err := ParsePattern(text)
	if err != nil {
		return
	}
	if got := p.String(); got != text {
		t.Errorf("the text of %q is %q", text, got)
	}
	if got, want := p.Match(name), reference(text).MatchString(name); got != want {
		t.Errorf("%q matches %q: %v, want %v", text, name, got, want)
	}
}

func TestPatternsMatchAsRegularExpressionsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(
			rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "/", "a/", "*", "**"}), 1, 8).Draw(t, "pattern"), "",
		)
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/"}), 0, 12).Draw(t, "name"), "")
		agrees(t, text, name)
	})
}

// Sets of places have several words then. A name is made of the pattern, or it would hardly ever match.
func TestLongPatternsMatchAsRegularExpressionsDo(t *testing.T) {
	run := strings.Repeat("a", 40)
	rapid.Check(t, func(t *rapid.T) {
		text, name := "", ""
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{run, run, "b", "/", "*", "**"}), 1, 12)
		for _, part := range parts.Draw(t, "pattern") {
			if text += part; strings.HasPrefix(part, "*") {
				part = rapid.SampledFrom([]string{"", "a", "b", "/", run, "b" + run + "/"}).Draw(t, "star")
			}
			name += part
		}
		agrees(t, text, name)
		agrees(t, text, name+"a")
	})
}

// Clients choose patterns and names. A byte of a name costs as many steps as a set of places has words, whatever the
// two are made of.
func TestTheWorkOfAPatternIsBounded(t *testing.T) {
	for _, text := range []string{
		"team/**" + strings.Repeat("a*", 245) + "b",
		"**a" + strings.Repeat("*a", 200) + "*b*c",
		strings.Repeat("*/", lockagent.MaxNameLen/2),
		strings.Repeat("*", 2) + strings.Repeat("/", lockagent.MaxNameLen-3) + "*",
	} {
		p := pattern(t, text)
		if p.places == nil {
			t.Fatalf("%.20q has no places", text)
		}
		if words := len(p.places.stars); words > lockagent.MaxNameLen/word {
			t.Errorf("a byte of a name costs %d steps with %.20q", words, text)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ pattern, name string }{
		{"orders/**", "orders/42/x"},
		{"**/a*b", "orders/42/acb"},
		{"**a" + strings.Repeat("*a", 250) + "*b*c", strings.Repeat("a", 511) + "c"},
	} {
		p := pattern(b, c.pattern)
		b.Run(fmt.Sprintf("%.9s", c.pattern), func(b *testing.B) {
			for b.Loop() {
				p.Match(c.name)
			}
		})
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("a*/x*b", "a/xb")
	f.Add("**a*b**", "a/ab")
	f.Add("*", "\n")
	f.Fuzz(func(t *testing.T, text, name string) {
		if utf8.ValidString(text) && utf8.ValidString(name) { // as names are; an expression takes nothing else
			agrees(t, text, name)
		}
	})
}
