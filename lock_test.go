package lockagent_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestParseName(t *testing.T) {
	t.Run("OK", func(t *testing.T) {
		for _, s := range []string{
			"x", "orders/42", "a:b c\n\x00", "ä", strings.Repeat("n", lockagent.MaxNameLen),
			"{a}", "a{b}c", "{a}b", "{a}{", "{a}}", "{{a}", "{a}{}",
		} {
			if name, err := lockagent.ParseName(s); err != nil || string(name) != s {
				t.Errorf("ParseName(%.20q) = %.20q, %v", s, name, err)
			}
		}
	})
	for _, c := range []struct{ name, reason string }{
		{"", "it is empty"},
		{strings.Repeat("n", lockagent.MaxNameLen+1), "it has 513 bytes, the limit is 512"},
		{"a\xffb", "it is not valid UTF-8"},
		{"x{", "it has a '{' without a '}', so a cluster could not release it; leave the braces out or balance them"},
		{"{", "it has a '{' without a '}'"},
		{"a}b", "it has a '}' without a '{', so a cluster could not release it; leave the braces out or balance them"},
		{"}x", "it has a '}' without a '{'"},
		{"x}{y", "it has a '}' before its first '{'"},
		{"x}{y}", "it has a '}' before its first '{'"},
		{
			"{}z",
			"it has nothing between its first braces, so a cluster could not release it; name a hash tag there or leave the " +
				"braces out",
		},
		{"x{}y", "it has nothing between its first braces"},
		{"{}{a}", "it has nothing between its first braces"},
	} {
		name, err := lockagent.ParseName(c.name)
		wrong, ok := errors.AsType[*lockagent.NameError](err)
		if name != "" || !ok || wrong.Name != c.name || !strings.HasPrefix(wrong.Reason, c.reason) {
			t.Errorf("ParseName(%.20q) = %q, %v, want a NameError because %s", c.name, name, err, c.reason)
		}
	}
}

// A name is accepted only if all keys of its lock fall into one slot of a Redis
// Cluster, and refused for its braces only if they do not, or if programs that
// look for the first '}' anywhere would see another slot than the cluster.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{
		"x", "orders/42", "{a}", "a{b}c", "x{", "a}b", "{}z", "}x", "x{}y", "x}{y", "x}{y}", "{a}}", "{{a}", "{a}{}", "a{{}}",
		"\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := lockagent.ParseName(s)
		if err == nil {
			for _, key := range auxiliaryKeys(s) {
				if hashTag(key) != hashTag(s) {
					t.Errorf("%q is accepted: the cluster hashes %q of it, but %q of %q", s, hashTag(s), hashTag(key), key)
				}
			}
			return
		}
		if wrong, ok := errors.AsType[*lockagent.NameError](err); !ok || !strings.Contains(wrong.Reason, "cluster") {
			return
		}
		apart := false
		for _, key := range auxiliaryKeys(s) {
			apart = apart || hashTag(key) != hashTag(s)
		}
		open, end := strings.Index(s, "{"), strings.Index(s, "}")
		if misordered := end >= 0 && end < open; !apart && !misordered {
			t.Errorf("%q is refused, but all its keys are in one slot: %v", s, err)
		}
	})
}

// auxiliaryKeys are names of keys that belong to the lock n, as Redisson makes
// them: it looks for a '{' anywhere, and for nothing else.
func auxiliaryKeys(n string) []string {
	if strings.Contains(n, "{") {
		return []string{"prefix:" + n, n + ":suffix"}
	}
	return []string{"prefix:{" + n + "}", "{" + n + "}:suffix"}
}

// hashTag is the part of a key that a Redis Cluster hashes, after the
// specification of the cluster: what stands between the first '{' and the first
// '}' on its right, if there is something, and otherwise the whole key.
func hashTag(key string) string {
	for i := range len(key) {
		if key[i] != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j == i+1 {
					return key
				}
				return key[i+1 : j]
			}
		}
		return key
	}
	return key
}

// The examples are those of the Redis Cluster specification.
func TestHashTag(t *testing.T) {
	for key, want := range map[string]string{
		"{user1000}.following": "user1000",
		"foo{}{bar}":           "foo{}{bar}",
		"foo{{bar}}zap":        "{bar",
		"foo{bar}{zap}":        "bar",
		"foo":                  "foo",
	} {
		if got := hashTag(key); got != want {
			t.Errorf("hashTag(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestParseOwner(t *testing.T) {
	for _, s := range []string{"alice", "x{", "a b\n", strings.Repeat("o", lockagent.MaxNameLen)} {
		if owner, err := lockagent.ParseOwner(s); err != nil || string(owner) != s {
			t.Errorf("ParseOwner(%.20q) = %.20q, %v", s, owner, err)
		}
	}
	for s, reason := range map[string]string{
		"": "it is empty", strings.Repeat("o", lockagent.MaxNameLen+1): "the limit is 512", "\xff": "it is not valid UTF-8",
	} {
		owner, err := lockagent.ParseOwner(s)
		wrong, ok := errors.AsType[*lockagent.OwnerError](err)
		if owner != "" || !ok || wrong.Owner != s || !strings.Contains(wrong.Reason, reason) {
			t.Errorf("ParseOwner(%.20q) = %q, %v, want an OwnerError because %s", s, owner, err, reason)
		}
	}
}

func TestMaxToken(t *testing.T) {
	const greatest = lockagent.MaxToken
	if got := lockagent.Token(float64(greatest)); got != greatest {
		t.Errorf("%d is %d after it was a double", greatest, got)
	}
	if above := float64(greatest + 2); lockagent.Token(above) == greatest+2 {
		t.Errorf("doubles count without a gap beyond %d", greatest)
	}
}

func TestNewAgentID(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[lockagent.AgentID]bool)
	for range 1000 {
		id := lockagent.NewAgentID()
		if !uuid.MatchString(string(id)) {
			t.Fatalf("%q is no random UUID", id)
		}
		if seen[id] {
			t.Fatalf("%q came twice", id)
		}
		seen[id] = true
	}
}

func TestCheckLease(t *testing.T) {
	for _, d := range []time.Duration{lockagent.MinLease, time.Second, lockagent.MaxLease} {
		if err := lockagent.CheckLease(d); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
	for d, reason := range map[time.Duration]string{
		-time.Second:             "shorter than the shortest lease, 1ms; leave it out",
		0:                        "shorter than the shortest lease, 1ms; leave it out",
		lockagent.MinLease - 1:   "shorter than the shortest lease, 1ms; leave it out",
		lockagent.MaxLease + 1:   "longer than the longest lease, 8760h0m0s; leave it out",
		time.Duration(1<<63 - 1): "longer than the longest lease, 8760h0m0s; leave it out",
	} {
		wrong, ok := errors.AsType[*lockagent.OptionError](lockagent.CheckLease(d))
		if !ok || wrong.Option != "lease" || !strings.Contains(wrong.Reason, reason) {
			t.Errorf("%v: %v, want an OptionError that says %s", d, wrong, reason)
		}
	}
}
