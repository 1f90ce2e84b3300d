package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
)

// wantsVerb is what a command does that only has others below it. first is the one
// to try first.
func wantsVerb(first string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help() // nobody is there to tell if that cannot be written
			return usage(cmd.CommandPath()+" "+first, "a verb is missing")
		}
		for _, c := range cmd.Commands() { // before those that only look like it
			if slices.Contains(c.SuggestFor, args[0]) {
				return usage(firstExample(c), "%q has no verb %q", cmd.CommandPath(), args[0])
			}
		}
		cmd.SuggestionsMinimumDistance = 2
		for _, name := range cmd.SuggestionsFor(args[0]) {
			return usage(cmd.CommandPath()+" "+name, "%q has no verb %q", cmd.CommandPath(), args[0])
		}
		return usage(cmd.CommandPath()+" --help", "%q has no verb %q", cmd.CommandPath(), args[0])
	}
}

// firstExample is a command line of a verb that can be used as it is.
func firstExample(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return cmp.Or(line, cmd.CommandPath())
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(again(cmd), "%q takes flags only, not %q", cmd.CommandPath(), args[0])
}

// aboutLock is what a verb does whose argument is the name of a lock.
func aboutLock(run func(*cobra.Command, lockagent.Name) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(again(cmd), "%q takes the name of one lock", cmd.CommandPath())
		}
		name, err := parseLock(args[0], again(cmd))
		if err != nil {
			return err
		}
		return run(cmd, name)
	}
}

// parseLock checks the name of a lock. try is a command that has a good one.
func parseLock(text, try string) (lockagent.Name, error) {
	name, err := lockagent.ParseName(text)
	if bad, ok := errors.AsType[*lockagent.NameError](err); ok {
		return "", usage(try, "a lock cannot be named %q: %s", text, bad.Reason)
	}
	return name, err
}
