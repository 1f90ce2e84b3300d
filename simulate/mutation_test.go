package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutationNames are the names of all mutations.
func mutationNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(mutations, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, ok := strings.CutSuffix(filepath.Base(file), ".patch")
		if !ok {
			t.Errorf("%s is no patch", file)
		}
		names = append(names, name)
	}
	return names
}

// Each mutation can be put into the locks as they are today, and says what shows it.
func TestMutationsApply(t *testing.T) {
	for _, name := range mutationNames(t) {
		m, err := readMutation(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.overlay(t.Context(), t.TempDir()); err != nil {
			t.Error(err)
		}
		if _, err := m.run.plan(); err != nil || m.run.seed == 0 || m.shows == "" {
			t.Errorf("%s lacks a seed or what it shows, or its plan is wrong: %v", m.file, err)
		}
	}
}

// A mutation that does not apply is an error, and so is a line that says nothing of the run.
func TestMutationsThatAreWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Join("simulate", mutations), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("simulate")
	for name, text := range map[string]string{
		"other": "seed: 1\n\n--- a/lock.go\n+++ b/lock.go\n@@ -1 +1 @@\n-something else\n+a defect\n",
		"none":  "seed: 1\n\nno patch\n",
		"seed":  "seed: soon\n\n",
		"word":  "mood: bad\n\n",
	} {
		for file, text := range map[string]string{
			"../lock.go": "something\n", filepath.Join(mutations, name+".patch"): text,
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, err := readMutation(name)
		if err == nil {
			_, err = m.overlay(t.Context(), t.TempDir())
		}
		if err == nil {
			t.Errorf("%q is a mutation", text)
		}
	}
	if _, err := readMutation("absent"); err == nil {
		t.Error("a mutation without a file is one")
	}
}

// shown finds the mutations that the track record has.
var shown = regexp.MustCompile("`go -C simulate run \\. -mutation ([a-z-]+)`")

// Each defect of the track record has a mutation, and each mutation is there once.
func TestTrackRecord(t *testing.T) {
	text, err := os.ReadFile("../docs/track-record.md")
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for _, found := range shown.FindAllStringSubmatch(string(text), -1) {
		times[found[1]]++
	}
	names := mutationNames(t)
	for _, name := range names {
		if times[name] != 1 {
			t.Errorf("the mutation %s is in docs/track-record.md %d times", name, times[name])
		}
		delete(times, name)
	}
	if len(times) > 0 || len(names) == 0 {
		t.Errorf("docs/track-record.md has %q, and there are no such mutations", slices.Sorted(maps.Keys(times)))
	}
}
