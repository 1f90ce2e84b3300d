//go:build soak

package main

import (
	"testing"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

func TestSoakEveryScenarioRuns(t *testing.T) {
	machinetest.Needs(t, driver.Available())
	b := smoke(t)
	for _, r := range scenariosRun(t, scenarios) {
		b.results.Tables = append(b.results.Tables, r.Tables...)
	}
	if len(b.results.Tables) != len(scenarios) {
		t.Errorf("%d tables of %d scenarios", len(b.results.Tables), len(scenarios))
	}
	for _, table := range b.results.Tables {
		if row := b.results.find(table.Name, us); row == nil {
			t.Errorf("%s says nothing of lockagent", table.Name)
		}
	}
	for _, v := range b.results.verdicts() {
		if v.Reached == "not measured" {
			t.Errorf("%s: not measured", v.Target)
		}
	}
	written(t, b.results)
}
