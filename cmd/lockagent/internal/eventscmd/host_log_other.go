//go:build !linux

package eventscmd

import (
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventlog"
)

// openDaemonLog has no log to open: only on Linux there is a daemon.
func openDaemonLog(cmd *cobra.Command, _ string) (grownLog, error) {
	return nil, cli.Usage(
		cli.WithPlace(cmd, "--nats "+eventlog.DefaultNATS),
		"there is no daemon on this system; say with --nats, --dir or --file where the event log is",
	)
}
