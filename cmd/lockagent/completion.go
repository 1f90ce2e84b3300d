package main

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

func newCompletion() *cobra.Command {
	shells := map[string]func(root *cobra.Command, out io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print what has a shell complete our command lines",
		Long:      "Print what has a shell complete our command lines. The shells are " + strings.Join(names, ", ") + ".",
		Example:   "  source <(lockagent completion bash)",
		ValidArgs: names,
		Args:      cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return cli.Usage("lockagent completion bash", "completion wants one of these shells: %s", strings.Join(names, ", "))
			}
			return shells[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
