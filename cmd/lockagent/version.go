package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

const versionFlag = "version"

// versionOr does what the verb version does if the flag is given.
func versionOr(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed(versionFlag) {
			return run(cmd, args)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
		return err
	}
}

// version tells what the binary was built from.
func version() string {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := make(map[string]string)
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if r := settings["vcs.revision"]; r != "" {
			revision = fmt.Sprintf(" %.12s", r)
			if settings["vcs.modified"] == "true" {
				revision += " with changes"
			}
		}
	}
	return fmt.Sprintf(
		"lockagent %s%s, %s %s/%s", cli.ModuleVersion(), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH,
	)
}
