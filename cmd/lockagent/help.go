package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB|recipes]",
		Short: "Help about any verb, and recipes",
		Long: `Help shows what --help of a verb shows. lockagent help recipes shows what to do with locks in a shell, with
commands that can be used as they are.`,
		Example: "  lockagent help lock\n  lockagent help recipes",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if d := documentOf(args); d != nil {
				_, err := io.WriteString(cmd.OutOrStdout(), d.Help())
				return err
			}
			about, err := verbOf(cmd.Root(), args)
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
