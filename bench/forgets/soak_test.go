//go:build soak

package forgets

import (
	"testing"

	"github.com/lockagent/lockagent/internal/forgettest"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/interop/redisson/driver"
)

// All libraries have plain locks, so those are compared.
func TestSoakPeersWhenTheStoreForgets(t *testing.T) {
	machinetest.Needs(t, driver.Available())
	java, err := driver.Build(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(classpathVariable, java.Classpath)
	type row struct {
		name    string
		figures forgettest.Figures
	}
	var rows []*row
	t.Run("", func(t *testing.T) {
		for _, c := range forgettest.Cases {
			for _, library := range []string{"lockagent", "rueidislock", "Redisson"} {
				if c.Frozen && library == "Redisson" {
					continue // the process that is frozen is not that of Java
				}
				r := &row{name: c.Name + ", " + library}
				rows = append(rows, r)
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					for range forgettest.Runs(t) {
						t.Run("", func(t *testing.T) { // its servers are gone when it ends
							r.figures.Add(c.Run(t, library, []forgettest.Kind{forgettest.Plain}))
						})
					}
				})
			}
		}
	})
	table := forgettest.Header
	for _, r := range rows {
		table += "\n" + r.figures.Row(r.name)
		t.Logf("%s: %s", r.name, r.figures.Details())
		if r.figures.Grants == 0 {
			t.Errorf("%s: nothing was granted", r.name)
		}
	}
	t.Logf("\n%s", table)
}
