package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
)

// WantsVerb is what a command does that only has others below it. first is the one
// to try first.
func WantsVerb(first string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help() // nobody is there to tell if that cannot be written
			return Usage(cmd.CommandPath()+" "+first, "a verb is missing")
		}
		for _, c := range cmd.Commands() { // before those that only look like it
			if slices.Contains(c.SuggestFor, args[0]) {
				return Usage(firstExample(c), "%q has no verb %q", cmd.CommandPath(), args[0])
			}
		}
		cmd.SuggestionsMinimumDistance = 2
		for _, name := range cmd.SuggestionsFor(args[0]) {
			return Usage(cmd.CommandPath()+" "+name, "%q has no verb %q", cmd.CommandPath(), args[0])
		}
		return Usage(cmd.CommandPath()+" --help", "%q has no verb %q", cmd.CommandPath(), args[0])
	}
}

// firstExample is a command line of a verb that can be used as it is.
func firstExample(cmd *cobra.Command) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return cmp.Or(line, cmd.CommandPath())
}

// NoArgs refuses arguments of a verb that takes flags only.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usage(Again(cmd), "%q takes flags only, not %q", cmd.CommandPath(), args[0])
}

// AboutLock is what a verb does whose argument is the name of a lock.
func AboutLock(run func(*cobra.Command, lockagent.Name) error) func(*cobra.Command, []string) error {
	return aboutOne("the name of one lock", run)
}

// AboutLocks is likewise if the argument may be a pattern.
func AboutLocks(run func(*cobra.Command, lockagent.Name) error) func(*cobra.Command, []string) error {
	return aboutOne("the name of one lock, or a pattern", run)
}

func aboutOne(what string, run func(*cobra.Command, lockagent.Name) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage(Again(cmd), "%q takes %s", cmd.CommandPath(), what)
		}
		name, err := ParseLock(args[0], Again(cmd))
		if err != nil {
			return err
		}
		return run(cmd, name)
	}
}

// ParseLock checks the name of a lock. try is a command that has a good one.
func ParseLock(text, try string) (lockagent.Name, error) {
	name, err := lockagent.ParseName(text)
	if bad, ok := errors.AsType[*lockagent.NameError](err); ok {
		return "", Usage(try, "a lock cannot be named %q: %s", text, bad.Reason)
	}
	return name, err
}
