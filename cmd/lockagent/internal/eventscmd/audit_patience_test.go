package eventscmd

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/events/audit"
)

// An audit that follows waits for longer until an agent counts as dead, unless it is told for how long.
func TestPatienceOfAnAudit(t *testing.T) {
	for _, test := range []struct {
		follow bool
		flags  []string
		want   time.Duration
	}{
		{false, nil, audit.DefaultPatience},
		{true, nil, 10 * time.Minute},
		{true, []string{"--patience", "5m"}, 5 * time.Minute},
	} {
		f, cmd := auditFlags{follow: test.follow}, &cobra.Command{}
		cmd.Flags().DurationVar(&f.patience, "patience", audit.DefaultPatience, "")
		if err := cmd.ParseFlags(test.flags); err != nil {
			t.Fatal(err)
		}
		auditor, err := f.newAudit(cmd)
		if err != nil || auditor.Patience != test.want {
			t.Errorf("%+v: it waits for %v (%v), want %v", test, auditor.Patience, err, test.want)
		}
	}
}
