package servecmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

func newConfigDefault() *cobra.Command {
	return &cobra.Command{
		Use:     "default",
		Short:   "Print a configuration file with all settings and what they mean",
		Example: "  lockagent config default > lockagent.yaml",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), config.DefaultFile())
			return err
		},
	}
}
