package plan

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
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
	p.Faults, p.Outsiders = []Fault{{Kind: Cut, Agent: p.Agents}}, 0
	if err := p.Check(); err == nil {
		t.Error("a fault may be about an agent that there is not")
	}
	p.Locks, p.Outsiders = []Lock{{Name: "plain", Kind: lockagent.PlainLock}}, 1
	if err := p.Check(); err != nil {
		t.Errorf("a fault may not be about outsiders: %v", err)
	}
	p.Locks[0].Kind = lockagent.FairLock
	if err := p.Check(); err == nil {
		t.Error("outsiders may use a fair lock")
	}
}

// Outsiders are in some plans. Then some faults are about them. All else is as without them.
func TestOutsiders(t *testing.T) {
	with, faults := 0, 0
	for seed := range uint64(200) {
		p, random := New(seed), rand.New(rand.NewPCG(seed, 4))
		if p.Outsiders == 0 {
			continue
		}
		with++
		if !p.Shared(p.OutsidersUse()) || p.Check() != nil {
			t.Errorf("seed %d: outsiders use %q: %v", seed, p.OutsidersUse(), p.Check())
		}
		ofAgents := slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return f.Agent == p.Agents })
		faults += len(p.Faults) - len(ofAgents)
		alone := p
		alone.Outsiders, alone.Faults = 0, slices.Clone(ofAgents)
		if alone.takeOutsiders(random); !reflect.DeepEqual(alone, p) {
			t.Errorf("seed %d: %+v is other than %+v with outsiders", seed, p, alone)
		}
	}
	if with < 20 || with > 80 || faults == 0 {
		t.Errorf("%d of 200 plans have outsiders, with %d faults", with, faults)
	}
}
