package redisstore

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each command that a script runs is rehearsed when a store is opened, and is in the rules
// that the documentation has for a user; and nothing is that no script needs.
func TestCommandsOfScripts(t *testing.T) {
	called := regexp.MustCompile(`call\('([A-Z]+)'(?:, '(NUMSUB)')?`)
	of := func(sources ...string) map[string]bool {
		commands := make(map[string]bool)
		for _, source := range sources {
			for _, m := range called.FindAllStringSubmatch(source, -1) {
				commands[strings.ToLower(strings.TrimSuffix(m[1]+"|"+m[2], "|"))] = true
			}
		}
		return commands
	}
	needed := of(acquireSource, renewSource, releaseSource, breakSource, inspectSource, incarnationSource)
	rehearsed := of(rehearseSource)
	if !maps.Equal(needed, rehearsed) {
		t.Errorf("the scripts need %q, and rehearsed are %q", slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(rehearsed)))
	}

	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(doc), "//	~orders/*")
	rules, _, _ = strings.Cut(rules, "and in a Cluster")
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\+([a-z|]+)`).FindAllStringSubmatch(rules, -1) {
		documented[m[1]] = true
	}
	for _, own := range []string{"eval", "evalsha", "ping", "select", "subscribe", "unsubscribe", "publish"} {
		if !documented[own] {
			t.Errorf("+%s is not documented", own)
		}
		delete(documented, own)
	}
	delete(needed, "publish") // which some scripts have as an argument
	if !maps.Equal(needed, documented) {
		t.Errorf("the scripts need %q, and documented are %q", slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(documented)))
	}
}
