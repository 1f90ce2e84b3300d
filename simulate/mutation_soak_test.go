//go:build soak

package main

import (
	"testing"
)

// The judges find each defect that is put into the locks. In the same run of the locks as they are they find nothing.
func TestSoakMutations(t *testing.T) {
	for _, name := range mutationNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := readMutation(name)
			if err != nil {
				t.Fatal(err)
			}
			s := &simulation{mutation: m, settings: m.run}
			if s.machine, err = newMutant(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			o, v, err := s.hunt(t.Context())
			if closed := s.machine.close(t.Context()); err != nil || closed != nil {
				t.Fatal(err, closed)
			}
			if o == nil {
				t.Fatalf("no run shows it; look for one with: go run . -mutation %s -seeds 200", name)
			}
			t.Logf("seed %d: %q", o.plan.Seed, v.wrong[0])
			if v := judge(runOf(t, o.plan)); len(v.wrong) > 0 {
				t.Errorf("seed %d: of the locks as they are the judges say %q", o.plan.Seed, v.wrong)
			}
		})
	}
}
