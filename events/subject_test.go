package events

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
)

func TestSubject(t *testing.T) {
	for name, test := range map[string]struct {
		lock lockagent.Name
		want string // the name in the subject
	}{
		"Plain":         {"orders", "orders"},
		"Hierarchy":     {"billing/invoices/42", "billing.invoices.42"},
		"Kept":          {"aZ_-09", "aZ_-09"},
		"Escaped":       {"a.b c*d>e=f", "a=2Eb=20c=2Ad=3Ee=3Df"},
		"UTF8":          {"é", "=C3=A9"},
		"NoLock":        {"", "="},
		"EmptyParts":    {"/a//", "=.a.=.="},
		"Dash":          {"-", "-"},
		"LooksHashed":   {"=-", "=3D-"},
		"SixteenTokens": {lockagent.Name(strings.Repeat("x/", 15) + "x"), strings.Repeat("x.", 15) + "x"},
		"TooManyTokens": {lockagent.Name(strings.Repeat("x/", 16) + "x"), "=-f91f72c99b3f744a0c2d1aa2383baed2"},
		"LongestName":   {lockagent.Name(strings.Repeat("x", 512)), strings.Repeat("x", 512)},
		"TooLong":       {lockagent.Name(strings.Repeat("/", 512)), "=-8be9dd9aa2ce4f6ca129ec12a928e715"},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(AppendSubject(nil, "agent", lockagent.EventGranted, test.lock))
			if want := "lockagent.v1.agent.granted." + test.want; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestParseSubjectRefuses(t *testing.T) {
	for _, text := range []string{
		"", "lockagent.v1", "lockagent.v1.a.granted", "locks.v1.a.granted.x", "lockagent.v1..granted.x",
		"lockagent.v1.a=20.granted.x", "lockagent.v1.a.unknown.x", "lockagent.v1.a.granted.", "lockagent.v1.a.granted.x.",
		"lockagent.v1.a.granted.=4", "lockagent.v1.a.granted.=4g", "lockagent.v1.a.granted.=41", "lockagent.v1.a.granted.=c3",
		"lockagent.v1.a.granted.=-", "lockagent.v1.a.granted.=-00", "lockagent.v1.a.granted.=-" + strings.Repeat("A", 32),
		"lockagent.v1.a.granted.*", "lockagent.v1.a.granted.a b", "lockagent.v1.a.granted.=2F",
	} {
		if s, err := ParseSubject(text); err == nil {
			t.Errorf("%q: got %+v", text, s)
		}
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("billing/invoices/42", "x")
	f.Add("", "/")
	f.Add("=-", "*.>")
	f.Add(strings.Repeat("/", 20), strings.Repeat("ü", 256))
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := AppendSubject(nil, testAgent, lockagent.EventLost, lockagent.Name(a)), AppendSubject(nil, testAgent, lockagent.EventLost, lockagent.Name(b))
		if (string(first) == string(second)) != (a == b) {
			t.Errorf("%q and %q share %s", a, b, first)
		}
		if len(first) > 700 || strings.ContainsAny(string(first), "*> \t\r\n\x00") {
			t.Errorf("%q: NATS does not take %q", a, first)
		}
		tokens := strings.Split(string(first), ".")
		for _, token := range tokens {
			if token == "" {
				t.Errorf("%q: empty token in %q", a, first)
			}
		}
		want := Subject{Agent: testAgent, Kind: lockagent.EventLost, Lock: lockagent.Name(a)}
		if strings.HasPrefix(tokens[4], hashToken) {
			want.Lock, want.Hashed = "", true
		}
		if got, err := ParseSubject(string(first)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", first, got, err)
		}
	})
}

func FuzzParseSubject(f *testing.F) {
	f.Add("lockagent.v1.a.granted.x.=.=41")
	f.Add("lockagent.v1.a.granted.=-00112233445566778899aabbccddeeff")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSubject(text)
		if err != nil || s.Hashed {
			return
		}
		if again := string(AppendSubject(nil, s.Agent, s.Kind, s.Lock)); again != text {
			t.Errorf("%q is parsed as %+v, which is %q", text, s, again)
		}
	})
}

func BenchmarkAppendSubject(b *testing.B) {
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = AppendSubject(text[:0], testAgent, lockagent.EventGranted, "billing/invoices/0042")
	}
}
