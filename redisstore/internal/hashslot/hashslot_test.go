package hashslot

import (
	"strconv"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
)

func TestSlotsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t, 1).Nodes[0]
	keys := []string{
		"", "a", "orders/42", "123456789", "\x00\xff", "{a}", "a{b}c", "{a}{b}", "{}", "{}a", "a{}b{c}", "{", "}",
		"a}b{c}d",
		"{{a}}", strings.Repeat("x", 512),
	}
	for i := range 100 {
		keys = append(keys, strconv.Itoa(i*7919))
	}
	for _, key := range keys {
		if got, want := int64(Of(key)), server.Do("CLUSTER", "KEYSLOT", key); got != want {
			t.Errorf("Of(%q) = %d, want %d", key, got, want)
		}
	}
}
