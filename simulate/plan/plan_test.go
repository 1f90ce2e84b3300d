package plan

import (
	"reflect"
	"strings"
	"testing"
)

// A script of faults that is printed can be read again.
func TestFaultsAsText(t *testing.T) {
	seen := make(map[Kind]bool)
	for seed := range uint64(200) {
		faults := New(seed).Faults
		var lines []string
		for _, f := range faults {
			lines = append(lines, f.String())
			seen[f.Kind] = true
		}
		read, err := Parse(strings.Join(lines, ", "))
		if err != nil || !reflect.DeepEqual(read, faults) {
			t.Fatalf("seed %d: %q was read as %v, %v", seed, lines, read, err)
		}
	}
	for _, of := range forms {
		if !seen[of.kind] {
			t.Errorf("no plan has a fault of the kind %s", of.kind)
		}
	}
}

func TestFaultsThatAreWrong(t *testing.T) {
	for _, text := range []string{"1s", "soon flush", "1s explode", "1s stall agent=x", "1s stall why=no"} {
		if faults, err := Parse(text); err == nil {
			t.Errorf("%q was read as %v", text, faults)
		}
	}
}

func TestCheck(t *testing.T) {
	p := New(1)
	if err := p.Check(); err != nil {
		t.Errorf("a plan of a seed is wrong: %v", err)
	}
	p.Faults = []Fault{{Kind: Cut, Agent: p.Agents}}
	if err := p.Check(); err == nil {
		t.Error("a fault may be about an agent that there is not")
	}
}
