package audit

import (
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// A tenure becomes shared. The log does not tell exactly when, and another agent reads from about then on. That is no
// overlap for certain.
func TestAuditOfATenureThatBecomesShared(t *testing.T) {
	a := func() *story {
		s := agent("A").granted(1, 1000).released(1, 2000).edit(func(r *events.Record) { r.Until = clock(2300) })
		return s.in(lockagent.Shared).handedOff(1, 2001).released(1, 9000).returned(1, 9001).stop()
	}
	noEnd := a()
	noEnd.records = slices.DeleteFunc(noEnd.records, func(r events.Record) bool { return r.Until == clock(2300) })
	reads := func(at int) *story { return agent("B").in(lockagent.Shared).held(1, at, at+1000).stop() }
	verdicts{
		"Since": {[]*story{a(), reads(2400)}, Proven, "", ""},
		"At": {
			[]*story{a(), reads(2100)},
			Incomplete, "unproven: 1",
			"it became shared between 2026-03-01T14:00:01.999Z and 2026-03-01T14:00:02.300Z, and token",
		},
		"Before":  {[]*story{a(), reads(1500)}, Violated, "overlap: 1", ""},
		"AWriter": {[]*story{a(), agent("B").held(1, 2400, 3000).stop()}, Violated, "overlap: 1", ""},
		"NobodyTells": {
			[]*story{noEnd, reads(6000)}, Incomplete, "missing: 1, unproven: 2", "the log does not have its end",
		},
		"NobodyTellsOne": {
			[]*story{noEnd, agent("B").held(1, 6000, 7000).stop()}, Violated, "missing: 1, overlap: 1, unproven: 1", "",
		},
	}.check(t)
}
