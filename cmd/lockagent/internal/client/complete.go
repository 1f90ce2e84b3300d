//go:build linux

package client

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// completionTime bounds how long somebody waits who has pressed the key for a completion.
const completionTime = 300 * time.Millisecond

// CompleteLock completes the name of a lock by those that the daemon knows.
func CompleteLock(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	flag := Flag{}
	if f := cmd.Flags().Lookup("socket"); f != nil {
		flag.Socket = cmp.Or(f.Value.String(), os.Getenv(cli.Variable("socket")))
	}
	daemon, err := flag.Open(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer daemon.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	listed, err := daemon.Look.List(ctx, &lockagentv1.ListRequest{OnlyVisible: true})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string // the shell leaves out those that do not begin as they should
	for _, l := range listed.GetLocks() {
		if name := l.GetName(); cli.OneLine(name) == name { // others may have chosen one that the terminal would obey
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteLockOnce completes the first argument. What follows is a command, for which the shell has its own way.
func CompleteLockOnce(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return CompleteLock(cmd, args, begun)
}
