package redisstore_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Open rehearses each command that a script runs. The rules for a user in the documentation have
// each of these commands, and no others.
func TestCommandsOfScripts(t *testing.T) {
	called := regexp.MustCompile(`(?:call|try)\('([A-Z]+)'(?:, '(MYID)')?`)
	chosen := regexp.MustCompile(`local publish = .* and '([A-Z]+)' or '([A-Z]+)'`)
	rehearsed, needed := make(map[string]bool), make(map[string]bool)
	files, err := filepath.Glob("internal/script/*.lua")
	if err != nil || len(files) < 7 {
		t.Fatalf("scripts %q, %v", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands := needed
		if filepath.Base(file) == "rehearse.lua" {
			commands = rehearsed
		}
		for _, m := range called.FindAllStringSubmatch(string(source), -1) {
			commands[strings.ToLower(strings.TrimSuffix(m[1]+"|"+m[2], "|"))] = true
		}
		for _, m := range chosen.FindAllStringSubmatch(string(source), -1) {
			commands[strings.ToLower(m[1])], commands[strings.ToLower(m[2])] = true, true
		}
	}
	delete(needed, "info") // the scripts do without
	if !maps.Equal(needed, rehearsed) {
		t.Errorf("the scripts need %q, and rehearsed are %q",
			slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(rehearsed)))
	}

	documented := make(map[string]bool)
	for rule := range strings.FieldsSeq(documentedRules(t)) {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			documented[command] = true
		}
	}
	delete(needed, "pubsub") // its parts are documented
	own := "eval evalsha ping select wait cluster|slots asking subscribe unsubscribe ssubscribe sunsubscribe " +
		"pubsub|numsub pubsub|shardnumsub"
	for own := range strings.FieldsSeq(own) {
		if !documented[own] {
			t.Errorf("+%s is not documented", own)
		}
		delete(documented, own)
	}
	if !maps.Equal(needed, documented) {
		t.Errorf("the scripts need %q, and documented are %q",
			slices.Sorted(maps.Keys(needed)), slices.Sorted(maps.Keys(documented)))
	}
}
