package script

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

// All that belongs to a lock is in its slot, and no other lock has the same keys.
func TestKeysOfALock(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) lockagent.Name {
		return lockagent.Name(rapid.StringOf(rapid.RuneFrom([]rune("ab{}:"))).Filter(func(s string) bool {
			return CheckName(lockagent.Name(s)) == nil
		}).Draw(t, "name"))
	})
	rapid.Check(t, func(t *rapid.T) {
		one, two := name.Draw(t, "one"), name.Draw(t, "two")
		calls := func(name lockagent.Name) (acquire, release Call) {
			Sharded.Acquire(&acquire, []lockagent.AcquireRequest{{Name: name}}, Past{})
			Sharded.Release(&release, []ReleaseRequest{{ReleaseRequest: lockagent.ReleaseRequest{Name: name}}}, Past{})
			return acquire, release
		}
		acquire, release := calls(one)
		keys := append(
			[]string{Channel(one), AgentsChannel(one), AgentChannelOf(agentA, one)},
			append(acquire.Keys, release.Keys...)...,
		)
		for _, key := range keys {
			if hashslot.Of(key) != hashslot.Of(string(one)) {
				t.Errorf("%q is in slot %d, %q in %d", key, hashslot.Of(key), one, hashslot.Of(string(one)))
			}
		}
		acquire2, release2 := calls(two)
		if one != two && (acquire.Keys[1] == acquire2.Keys[1] || release.Keys[1] == release2.Keys[1] ||
			AgentsChannel(one) == AgentsChannel(two)) {
			t.Errorf("%q and %q share a key", one, two)
		}
	})
}

func TestNamesOfLocks(t *testing.T) {
	for name, good := range map[lockagent.Name]bool{
		"orders/42": true, "lockagent": true, "redisson": true, "my_redisson_lock": true,
		"": false, "lockagent_": false, "lockagent_clock": false, "redisson_lock_queue:{a}": false, "x{": false,
	} {
		if err := CheckName(name); (err == nil) != good || !good && !errors.Is(err, lockagent.ErrBadName) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

// Beside a lock of Redisson there are keys, whose names do not always tell one lock from another.
func TestNamesWithKeysOfTheirOwn(t *testing.T) {
	for name, good := range map[lockagent.Name]bool{
		"a": true, "{a}:lock": true, "x{a}": true, "{a}{b}": true, "{{a}": true, "{a}}": true, "a b": true,
		"{a}": false, "{user 1}": false,
	} {
		if err := CheckSharedKeys(name); (err == nil) != good || !good && !errors.Is(err, lockagent.ErrBadName) {
			t.Errorf("CheckSharedKeys(%q) = %v", name, err)
		}
	}
	name := rapid.Custom(func(t *rapid.T) lockagent.Name {
		return lockagent.Name(rapid.StringOf(rapid.RuneFrom([]rune("ab{}:"))).Filter(func(s string) bool {
			return CheckName(lockagent.Name(s)) == nil && CheckSharedKeys(lockagent.Name(s)) == nil
		}).Draw(t, "name"))
	})
	rapid.Check(t, func(t *rapid.T) {
		one, two := name.Draw(t, "one"), name.Draw(t, "two")
		if one != two && Channel(one) == Channel(two) {
			t.Errorf("%q and %q share the keys beside them", one, two)
		}
	})
}
