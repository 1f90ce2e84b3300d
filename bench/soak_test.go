//go:build soak

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

func TestSoakEveryScenarioRuns(t *testing.T) {
	machinetest.Needs(t, driver.Available())
	allAreReported(t, scenariosRun(t, scenarios))
}

// allAreReported writes what all scenarios have found.
func allAreReported(t *testing.T, found []*results) {
	b := smoke(t)
	for _, r := range found {
		b.results.Tables = append(b.results.Tables, r.Tables...)
	}
	if len(b.results.Tables) != len(scenarios) {
		t.Errorf("%d tables of %d scenarios", len(b.results.Tables), len(scenarios))
	}
	for _, table := range b.results.Tables {
		if row := b.results.find(table.Name, us); row == nil {
			t.Errorf("%s says nothing of lockagent", table.Name)
			continue
		}
	}
	for _, v := range b.results.verdicts() {
		if v.Reached == "not measured" {
			t.Errorf("%s: not measured", v.Target)
		}
	}
	dir := t.TempDir()
	if err := b.results.write(dir); err != nil {
		t.Fatal(err)
	}
	var read results
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil || len(read.Tables) != len(scenarios) {
		t.Errorf("read back: %d tables, %v", len(read.Tables), err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, plotted := range regexp.MustCompile(`\]\((\S+\.svg)\)`).FindAllStringSubmatch(string(page), -1) {
		svg, err := os.ReadFile(filepath.Join(dir, plotted[1]))
		if err != nil || !bytes.Contains(svg, []byte("</svg>")) {
			t.Errorf("%s: %v", plotted[1], err)
		}
	}
	if !strings.Contains(string(page), "| target | measured | reached? |") {
		t.Error("the page has no table of targets")
	}
}
