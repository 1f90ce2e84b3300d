package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	known := []string{"redis", "nats", "agents", "lease", "leave"}
	for word, want := range map[string]string{
		"redis": "redis", "redi": "redis", "rdis": "redis", "redsi": "redis", "xredis": "redis", "agnets": "agents",
		"leas": "lease", "leaxe": "lease", "": "", "frobnicate": "", "ab": "", "nts": "nats", "nt": "",
		strings.Repeat("r", 1e6): "",
	} {
		if got := Of(word, slices.Values(known)); got != want {
			t.Errorf("the nearest of %.20q is %q, want %q", word, got, want)
		}
	}
}
