package script

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestSlotsAreThoseOfTheServer(t *testing.T) {
	server := redistest.StartCluster(t, 1).Nodes[0]
	keys := []string{
		"", "a", "orders/42", "123456789", "\x00\xff", "{a}", "a{b}c", "{a}{b}", "{}", "{}a", "a{}b{c}", "{", "}", "a}b{c}d",
		"{{a}}", strings.Repeat("x", 512),
	}
	for i := range 100 {
		keys = append(keys, strconv.Itoa(i*7919))
	}
	for _, key := range keys {
		if got, want := int64(Slot(key)), server.Do("CLUSTER", "KEYSLOT", key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

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
		keys := append([]string{Channel(one), AgentsChannel(one), AgentChannelOf(agentA, one)}, append(acquire.Keys, release.Keys...)...)
		for _, key := range keys {
			if Slot(key) != Slot(string(one)) {
				t.Errorf("%q is in slot %d, %q in %d", key, Slot(key), one, Slot(string(one)))
			}
		}
		acquire2, release2 := calls(two)
		if one != two && (acquire.Keys[1] == acquire2.Keys[1] || release.Keys[1] == release2.Keys[1] || AgentsChannel(one) == AgentsChannel(two)) {
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
