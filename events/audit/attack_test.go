package audit

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// A record waits for a missing one when a checkpoint is made. Then its message is read again: that is no contradiction.
func TestACheckpointKeepsWhoAskedForAHoldThatWaits(t *testing.T) {
	a := agent("A").missing(1).granted(1, 1000)
	a.edit(func(r *events.Record) { r.Who = lockagent.Process{Host: "h", Program: "p", PID: 3}.Who() })
	s := new(tape).add(1000, a)
	x := s.read(newAudit()).resumed(t)
	x.Add(s.records[len(s.records)-1])
	wantReport(t, x.Report(), Incomplete, "missing: 1, not stopped: 1, open: 1", "")
}

