package redisstore

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestSlotsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t, 1).Nodes[0]
	keys := []string{
		"", "a", "orders/42", "123456789", "\x00\xff", "{a}", "a{b}c", "{a}{b}", "{}", "{}a", "a{}b{c}", "{", "}", "a}b{c}d",
		"{{a}}", strings.Repeat("x", 512),
	}
	for i := range 100 {
		keys = append(keys, strconv.Itoa(i*7919))
	}
	for _, key := range keys {
		if got, want := int64(slot(key)), server.Do("CLUSTER", "KEYSLOT", key); got != want {
			t.Errorf("slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// All that belongs to a lock is in the slot of the lock, and no other lock has the
// same keys.
func TestKeysOfALock(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) lockagent.Name {
		return lockagent.Name(rapid.StringOf(rapid.RuneFrom([]rune("ab{}:"))).Filter(func(s string) bool {
			_, err := lockagent.ParseName(s)
			return err == nil
		}).Draw(t, "name"))
	})
	tokenKey := func(name lockagent.Name) string { return new(text).tokenKey(name) }
	rapid.Check(t, func(t *rapid.T) {
		one, two := name.Draw(t, "one"), name.Draw(t, "two")
		in := home{cluster: true, slot: slot(string(one))}
		even, odd := new(text).releasedKeys("a", in)
		for _, key := range []string{tokenKey(one), channel(one), new(text).clockKey(in), even, odd} {
			if slot(key) != slot(string(one)) {
				t.Errorf("%q is in slot %d, %q in %d", key, slot(key), one, slot(string(one)))
			}
		}
		if one != two && tokenKey(one) == tokenKey(two) {
			t.Errorf("%q and %q have the key %q", one, two, tokenKey(one))
		}
	})
}
