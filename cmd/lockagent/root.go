package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/democmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventscmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/servecmd"
)

// verb is a command below the root.
type verb struct {
	name  string // as its command has it
	group string
	make  func() *cobra.Command
}

// verbs are all verbs, but for help.
func verbs() []verb {
	return slices.Concat([]verb{{"demo", "try", democmd.New}}, lockVerbs(), lookVerbs(), operateVerbs(), []verb{
		{"events", "look", eventscmd.New},
		{"serve", "daemon", servecmd.NewServe},
		{"config", "daemon", servecmd.NewConfig},
		{"version", "more", newVersion},
		{"completion", "more", newCompletion},
		{"man", "more", newMan},
	})
}

func newRoot() *cobra.Command { return rootOf(verbs()) }

// rootFor is a root for these arguments. A verb that takes locks is there alone, because scripts start it again and
// again. To make the other verbs takes 0.4 ms.
func rootFor(args []string) *cobra.Command {
	for _, v := range lockVerbs() {
		if len(args) > 0 && v.name == args[0] {
			return rootOf([]verb{v})
		}
	}
	return newRoot()
}

func rootOf(verbs []verb) *cobra.Command {
	root := &cobra.Command{
		Use:   "lockagent",
		Short: "A distributed lock manager",
		Long: `lockagent is a distributed lock manager: one holder at a time, tokens that only
grow, holders that are told of their loss, and an event log that proves it.`,
		Args:          cobra.ArbitraryArgs,
		RunE:          versionOr(cli.WantsVerb("demo")),
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noEmptyFlags(cmd) },
	}
	root.Flags().BoolP(versionFlag, "v", false, "say which version this is")
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddGroup(
		&cobra.Group{ID: "try", Title: "Try it:"},
		&cobra.Group{ID: "locks", Title: "Locks:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "operate", Title: "Operate:"},
		&cobra.Group{ID: "daemon", Title: "Daemon:"},
		&cobra.Group{ID: "more", Title: "More:"},
	)
	root.CompletionOptions.DisableDefaultCmd = true
	for _, v := range verbs {
		c := v.make()
		c.GroupID = v.group
		if v.group == "look" || v.group == "more" || v.name == "config" {
			untilUnread(c)
		}
		root.AddCommand(c)
	}
	verb := newHelp()
	untilUnread(verb)
	verb.GroupID = "more"
	root.SetHelpCommand(verb)
	root.AddCommand(democmd.NewAgent())
	root.InitDefaultHelpCmd() // adds it, for the manual too
	root.SetUsageFunc(usage)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprint(cmd.OutOrStdout(), "\n"+exitHelp(exitVerb(cmd)))
	})
	return root
}

// noEmptyFlags refuses a flag that is set to nothing: a shell variable that is not
// set, rather than somebody who wants the default.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, ok := f.Value.(pflag.SliceValue)
		if f.Value.String() == "" || ok && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")) {
			err = cli.Usage(cli.Again(cmd), "--%s is set to nothing; leave it out, or give it a value", f.Name)
		}
	})
	return err
}

// untilUnread has a verb that only shows something, and the verbs below it, end in order when nobody reads their output
// any more.
func untilUnread(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		untilUnread(below)
	}
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); !cli.Unread(err) {
			return err
		}
		return nil
	}
}
