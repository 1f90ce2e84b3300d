package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version tells what the binary was built from.
func version() string {
	module, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			module = info.Main.Version
		}
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
	return fmt.Sprintf("lockagent %s%s, %s %s/%s", module, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
