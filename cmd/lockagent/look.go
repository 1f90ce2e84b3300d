package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
)

// lookFlags are the flags of each verb that shows what the event log says of locks.
type lookFlags struct {
	source
	format  string
	formats []string
}

// addFlags adds them behind those that the verb has of its own.
func (f *lookFlags) addFlags(cmd *cobra.Command, formats ...string) {
	f.formats = append([]string{"text", "json"}, formats...)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.format, "format", "text", "`form` of the output: "+strings.Join(f.formats, " or "))
	f.source.addFlags(cmd)
}

func (f *lookFlags) check(cmd *cobra.Command) error {
	if err := checkFormat(cmd, f.format, f.formats...); err != nil {
		return err
	}
	return f.source.check(cmd)
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
