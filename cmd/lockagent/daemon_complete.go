//go:build linux

package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// completionTime bounds how long somebody waits who has pressed the key for a completion.
const completionTime = 300 * time.Millisecond

// completeLock completes the name of a lock by those that the daemon knows.
func completeLock(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	flag := daemonFlag{}
	if f := cmd.Flags().Lookup("socket"); f != nil {
		flag.socket = cmp.Or(f.Value.String(), os.Getenv(variable("socket")))
	}
	daemon, err := flag.open(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer daemon.close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	listed, err := daemon.look.List(ctx, &lockagentv1.ListRequest{OnlyVisible: true})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string // the shell leaves out those that do not begin as they should
	for _, l := range listed.GetLocks() {
		if name := l.GetName(); oneLine(name) == name { // others may have chosen one that the terminal would obey
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeLockOnce completes the first argument. What follows is a command, for which the shell has its own way.
func completeLockOnce(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completeLock(cmd, args, begun)
}
