package redisstore

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

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
		in := home{cluster: true, slot: transport.Slot(string(one))}
		even, odd := new(text).releasedKeys("a", in)
		for _, key := range []string{tokenKey(one), channel(one), new(text).clockKey(in), even, odd} {
			if transport.Slot(key) != transport.Slot(string(one)) {
				t.Errorf("%q is in slot %d, %q in %d", key, transport.Slot(key), one, transport.Slot(string(one)))
			}
		}
		if one != two && tokenKey(one) == tokenKey(two) {
			t.Errorf("%q and %q have the key %q", one, two, tokenKey(one))
		}
	})
}
