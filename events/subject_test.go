package events

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
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
		"TooManyTokens": {lockagent.Name(strings.Repeat("x/", 16) + "x"), "=-.f91f72c99b3f744a0c2d1aa2383baed2"},
		"LongestName":   {lockagent.Name(strings.Repeat("x", 512)), strings.Repeat("x", 512)},
		"TooLong":       {lockagent.Name(strings.Repeat("/", 512)), "=-.8be9dd9aa2ce4f6ca129ec12a928e715"},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(AppendSubject(nil, "a.b", "agent", lockagent.EventGranted, test.lock))
			if want := "a.b.agent.lock." + test.want; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestClass(t *testing.T) {
	agents := []lockagent.EventKind{lockagent.EventAlive}
	urgent := []lockagent.EventKind{
		lockagent.EventUncertain, lockagent.EventExpired, lockagent.EventLost, lockagent.EventBroken,
		lockagent.EventUnclaimed,
		lockagent.EventStoreReset, lockagent.EventGraceBegan, lockagent.EventGraceEnded, lockagent.EventAgentStarted,
		lockagent.EventAgentStopped,
		lockagent.EventDropped,
	}
	for _, kind := range append(lockagent.EventKinds(), 0) {
		want := "lock"
		if slices.Contains(agents, kind) {
			want = "agent"
		} else if slices.Contains(urgent, kind) {
			want = kind.String()
		}
		if got := Class(kind); got != want || Urgent(kind) != slices.Contains(urgent, kind) {
			t.Errorf("%v: got %q, urgent: %v", kind, got, Urgent(kind))
		}
	}
}

func TestParseSubject(t *testing.T) {
	for text, want := range map[string]Subject{
		"a.b.agent.lock.orders.42":        {Agent: "agent", Class: "lock", Lock: "orders/42"},
		"a.b.agent.agent.=":               {Agent: "agent", Class: "agent"},
		"a.b.agent.lost.=.x":              {Agent: "agent", Class: "lost", Lock: "/x"},
		"a.b.agent.a-later-class.orders":  {Agent: "agent", Class: "a-later-class", Lock: "orders"},
		"a.b.agent.lock.=-." + aHash("f"): {Agent: "agent", Class: "lock", Hashed: true},
	} {
		if got, err := ParseSubject("a.b", text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func aHash(digit string) string { return strings.Repeat(digit, 32) }

func TestParseSubjectRefuses(t *testing.T) {
	for _, text := range []string{
		"", "lockagent.v1", "lockagent.v1.a.lock", "locks.v1.a.lock.x", "lockagent.v1..lock.x", "lockagent.v2.a.lock.x",
		"lockagent.v1.a=20.lock.x", "lockagent.v1.a..x", "lockagent.v1.a.*.x", "lockagent.v1.a.lock.",
		"lockagent.v1.a.lock.x.",
		"lockagent.v1.a.lock.=4", "lockagent.v1.a.lock.=4g", "lockagent.v1.a.lock.=41", "lockagent.v1.a.lock.=c3",
		"lockagent.v1.a.lock.=-", "lockagent.v1.a.lock.=-.00", "lockagent.v1.a.lock.=-." + aHash("A"),
		"lockagent.v1.a.lock.=-" + aHash("0"),
		"lockagent.v1.a.lock.*", "lockagent.v1.a.lock.a b", "lockagent.v1.a.lock.=2F",
	} {
		if s, err := ParseSubject(DefaultPrefix, text); err == nil {
			t.Errorf("%q: got %+v", text, s)
		}
	}
}

func TestPrefix(t *testing.T) {
	for _, good := range []string{DefaultPrefix, "a", "A_-9.b.c", strings.Repeat("x", MaxPrefix)} {
		if err := CheckPrefix(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", ".", "a.", ".a", "a..b", "a.*", "a.>", "a b", "é", strings.Repeat("x", MaxPrefix+1),
	} {
		if err := CheckPrefix(bad); !errors.Is(err, lockagent.ErrBadOption) || !strings.Contains(err.Error(), "use") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("billing/invoices/42", "x")
	f.Add("", "/")
	f.Add("=-", "*.>")
	f.Add(strings.Repeat("/", 20), strings.Repeat("ü", 256))
	f.Fuzz(func(t *testing.T, a, b string) {
		first := AppendSubject(nil, DefaultPrefix, eventstest.Agent, lockagent.EventLost, lockagent.Name(a))
		second := AppendSubject(nil, DefaultPrefix, eventstest.Agent, lockagent.EventLost, lockagent.Name(b))
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
		want := Subject{Agent: eventstest.Agent, Class: "lost", Lock: lockagent.Name(a)}
		if tokens[4]+"." == hashPrefix {
			want.Lock, want.Hashed = "", true
		}
		if got, err := ParseSubject(DefaultPrefix, string(first)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", first, got, err)
		}
	})
}

func FuzzParseSubject(f *testing.F) {
	f.Add("lockagent.v1.a.lock.x.=.=41")
	f.Add("lockagent.v1.a.lost.=-.00112233445566778899aabbccddeeff")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSubject(DefaultPrefix, text)
		if err != nil || s.Hashed {
			return
		}
		kind, _ := lockagent.ParseEventKind(s.Class)
		if Class(kind) != s.Class {
			return // nothing that this version writes
		}
		if again := string(AppendSubject(nil, DefaultPrefix, s.Agent, kind, s.Lock)); again != text {
			t.Errorf("%q is parsed as %+v, which is %q", text, s, again)
		}
	})
}

func BenchmarkAppendSubject(b *testing.B) {
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = AppendSubject(text[:0], DefaultPrefix, eventstest.Agent, lockagent.EventGranted, "billing/invoices/0042")
	}
}
