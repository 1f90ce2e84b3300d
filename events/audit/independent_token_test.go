package audit

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// A record of a hold that has no token contradicts the log. It does not end the program.
func TestIndependentOfAHoldWithoutToken(t *testing.T) {
	for _, kind := range []lockagent.EventKind{lockagent.EventReentered, lockagent.EventHolding} {
		a := agent("A").granted(1, 1000).holding(1, 2000)
		r := &a.records[len(a.records)-1]
		r.Kind, r.Token = kind, 0
		var x Independent
		for _, r := range a.released(1, 9000).returned(1, 9001).stop().records {
			if err := x.Visit(&r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if o := x.Opinion(); o.Verdict == Proven {
			t.Errorf("%v: %+v", kind, o)
		}
	}
}
