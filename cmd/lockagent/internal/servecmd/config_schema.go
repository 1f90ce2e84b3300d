package servecmd

import (
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file",
		Long: `Print the JSON Schema of the configuration file, for editors that complete and check
YAML by it.`,
		Example: "  lockagent config schema > lockagent.schema.json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WriteJSON(cmd.OutOrStdout(), config.Schema())
		},
	}
}
