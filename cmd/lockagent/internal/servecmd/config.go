package servecmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/config"
)

// NewConfig makes the verb config, with those below it.
func NewConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the settings of the daemon",
		Long: `Look at the settings of the daemon. A setting is a flag of lockagent serve, or else a
variable LOCKAGENT_..., or else in the configuration file, or else it has its default.`,
		Args: cobra.ArbitraryArgs,
		RunE: cli.WantsVerb("show"),
	}
	cmd.AddCommand(newConfigShow(), newConfigValidate(), newConfigDefault(), newConfigSchema())
	return cmd
}

// addSettings adds the flags of all settings, behind those that the verb has of its own.
func addSettings(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	config.AddFlags(cmd.Flags())
}

// loadSettings reads the settings of a verb to which addSettings was applied.
func loadSettings(cmd *cobra.Command) (*config.Config, error) {
	settings, err := readSettings(cmd)
	return settings, badSettings(cmd, err)
}

// readSettings is loadSettings with [config.Problems] as they are.
func readSettings(cmd *cobra.Command) (*config.Config, error) {
	in, err := config.FromHost(config.Given(cmd.Flags()))
	if err != nil {
		return nil, err
	}
	settings, err := config.Load(in)
	if err == nil && len(settings.UnknownVariables) > 0 {
		cmd.PrintErrf("lockagent: no setting has the name of these variables: $%s\n",
			strings.Join(settings.UnknownVariables, ", $"))
	}
	return settings, err
}

// checkNames returns the error of settings that name users or groups which this host does not have.
func checkNames(cmd *cobra.Command, c *config.Config) error {
	return badSettings(cmd, c.CheckNames(hostNames{}))
}

// badSettings has all problems in one error. It returns other errors as they are.
func badSettings(cmd *cobra.Command, err error) error {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return err
	}
	if n := len(problems); n > 1 {
		err = fmt.Errorf(
			"%s with the settings:\n  %s", readable.Counted(n, "problem", "problems"),
			strings.ReplaceAll(err.Error(), "\n", "\n  "),
		)
	}
	first := problems[0]
	switch flag := first.Origin.Name; {
	case !problems.OnlyFlags():
		return &cli.Failure{
			Code: cli.ExitConfig, Err: err,
			Try: "lockagent config default    (prints a file that is valid, and says what each setting means)",
		}
	case config.Find(first.Key).Type() == "boolean":
		return &cli.Failure{Code: cli.ExitUsage, Err: err, Try: cli.Again(cmd) + " --" + flag}
	default:
		return &cli.Failure{
			Code: cli.ExitUsage, Err: err,
			Try: cli.Again(cmd) + " --" + flag + " " + cli.ShellWord(config.Find(first.Key).Example),
		}
	}
}
