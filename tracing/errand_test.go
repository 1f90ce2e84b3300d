package tracing

import (
	"testing"

	"github.com/lockagent/lockagent/internal/errand"
)

// The store behind may leave to the caller what it would have to do itself otherwise,
// whether somebody wants to know of the call or not.
func TestErrandsReachTheStoreBehind(t *testing.T) {
	for name, config := range map[string]Config{"traced": newRig(t).Config, "not traced": {}} {
		for _, call := range calls {
			next := &canned{yes: true}
			e := errand.New(t.Context())
			if _, err := call.do(t, e, Store(next, config)); err != nil {
				t.Fatal(err)
			}
			done := false
			if !errand.Leave(next.ctx, func() { done = true }) {
				t.Errorf("%s, %s: the store could not leave anything to the caller", call.operation, name)
			}
			e.Finish()
			if !done {
				t.Errorf("%s, %s: the caller did not do what was left", call.operation, name)
			}
		}
	}
}
