package democmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/telemetry"
	"github.com/lockagent/lockagent/events/natslog"
)

const demoAgentVerb = "demo-agent"

// NewAgent makes the verb that demo starts its processes with.
func NewAgent() *cobra.Command {
	return &cobra.Command{
		Use:    demoAgentVerb,
		Short:  "Be one agent of a demo that another process runs",
		Hidden: true,
		Args:   cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := cli.NewLogger(cmd.ErrOrStderr())
			ctx, sdk, err := telemetry.Start(cmd, logger, "", nil)
			defer sdk.Close()
			if err != nil {
				return err
			}
			err = demo.Join(ctx, cmd.InOrStdin(), logger, sdk.Config)
			if errors.Is(err, natslog.ErrNotPermitted) {
				return &cli.Failure{Code: cli.ExitNotPermitted, Err: err}
			}
			return err
		},
	}
}
