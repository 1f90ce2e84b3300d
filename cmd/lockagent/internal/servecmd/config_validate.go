package servecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

func newConfigValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Say everything that is wrong with the settings",
		Long: `Say everything that is wrong with the settings: with the configuration file, the
variables of the environment, and the flags. Users and groups must be those of this host.`,
		Example: `  lockagent config validate
  lockagent config validate --config lockagent.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return cli.Usage(
					cli.Again(cmd)+" --config "+cli.ShellWord(args[0]), "%q takes flags only, not %q", cmd.CommandPath(), args[0],
				)
			}
			return cli.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadSettings(cmd)
			if err == nil {
				err = checkNames(cmd, settings)
			}
			if err != nil {
				return err
			}
			what := "there is no configuration file; flags and environment are"
			if settings.File != "" {
				what = settings.File + " is"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), what, "valid")
			return err
		},
	}
	addSettings(cmd)
	return cmd
}
