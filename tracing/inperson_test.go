package tracing

import (
	"testing"

	"github.com/lockagent/lockagent/internal/inperson"
)

// A call that is made in person reaches the store behind as such, whether somebody wants to know of the call or not.
func TestTheStoreBehindKnowsWhoCallsInPerson(t *testing.T) {
	for name, config := range map[string]Config{"traced": newRig(t).Config, "not traced": {}} {
		for _, call := range calls {
			next := &canned{yes: true}
			if _, err := call.do(t, inperson.Context(t.Context()), Store(next, config)); err != nil {
				t.Fatal(err)
			}
			if !inperson.Is(next.ctx) {
				t.Errorf("%s, %s: the store does not know", call.operation, name)
			}
		}
	}
}
