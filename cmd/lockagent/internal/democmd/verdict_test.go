package democmd

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
)

func TestVerdictNamesWhatHelps(t *testing.T) {
	f := demoFlags{}
	f.Think = time.Millisecond
	s := demo.Summary{
		Events: demo.EventCounts{Dropped: 1},
		Checks: []demo.Check{{Name: "event log"}, {Name: "agents", OK: true}},
	}
	var stderr bytes.Buffer
	if code := cli.ReportError(&stderr, f.verdict(&s)); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	want := "lockagent: not proven: event log\nTry: lockagent demo --think 2ms    (so that the event log keeps up)\n"
	if got := stderr.String(); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
