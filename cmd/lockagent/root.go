package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent/internal/nearest"
)

// verb is a command below the root.
type verb struct {
	name  string // as its command has it
	group string
	make  func() *cobra.Command
}

// verbs are all verbs, but for help.
func verbs() []verb {
	return slices.Concat([]verb{{"demo", "try", newDemo}}, lockVerbs(), lookVerbs(), operateVerbs(), []verb{
		{"events", "look", newEvents},
		{"serve", "daemon", newServe},
		{"config", "daemon", newConfig},
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
		RunE:          versionOr(wantsVerb("demo")),
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noEmptyFlags(cmd) },
	}
	root.Flags().BoolP(versionFlag, "v", false, "say which version this is")
	root.SetFlagErrorFunc(flagError)
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
	root.AddCommand(newDemoAgent())
	root.InitDefaultHelpCmd() // adds it, for the manual too
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprint(cmd.OutOrStdout(), "\n"+exitHelp(exitVerb(cmd)))
	})
	return root
}

// usageTemplate has our word for what the library calls a command.
func usageTemplate(template string) string {
	return strings.NewReplacer(
		"{{if .Runnable}}", "{{if not .HasAvailableSubCommands}}",
		"{{.CommandPath}} [command]{{end}}", "{{.CommandPath}} VERB [flags]{{end}}",
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		"More about a verb: {{.CommandPath}} VERB --help",
		"Available Commands:", "Verbs:",
	).Replace(template)
}

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

// noEmptyFlags refuses a flag that is set to nothing: a shell variable that is not
// set, rather than somebody who wants the default.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, ok := f.Value.(pflag.SliceValue)
		if f.Value.String() == "" || ok && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")) {
			err = usage(again(cmd), "--%s is set to nothing; leave it out, or give it a value", f.Name)
		}
	})
	return err
}

// flagError has the errors of flags carry the command that would have worked.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := unknown.GetSpecifiedName(), "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		try := ""
		if near := nearestFlag(cmd, name); near != nil {
			try = example(cmd, near)
		}
		if form := cmd.Flags().Lookup("format"); form != nil && (name == "json" || dashes+name == "-f") {
			try = withFlag(cmd, "--format "+jsonForm.FindString(form.Usage))
		}
		if try != "" {
			return usage(try, "%q has no flag %s%s", cmd.CommandPath(), dashes, name)
		}
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage(example(cmd, missing.GetFlag()), "--%s wants a value", missing.GetFlag().Name)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		try := example(cmd, f)
		if _, err := strconv.ParseFloat(bad.GetValue(), 64); err == nil && f.Value.Type() == "duration" {
			try = withFlag(cmd, "--"+f.Name+" "+bad.GetValue()+"s")
		}
		return usage(try, "--%s wants %s, not %q", f.Name, kindOf(f), bad.GetValue())
	}
	return usage(cmd.CommandPath()+" --help", "%w", err)
}

// jsonForm finds what a verb calls JSON in the usage of its --format.
var jsonForm = regexp.MustCompile(`\bjsonl?\b`)

// kindOf says what a flag takes, for people.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int32", "int64", "uint64":
		return "a whole number"
	case "stringSlice":
		return "a list such as a,b"
	case "stringToString":
		return "a name and a text such as ticket=7"
	case "duration":
		return "a duration such as 500ms, 5s or 2m"
	case "bool":
		return "true or false"
	case "time to wait":
		return "a duration such as 5s, or seconds such as 2.5"
	case "reaction":
		return "term, kill, another signal such as INT, or ignore"
	case "exit code":
		return "an exit code between 0 and 255"
	}
	return "a " + f.Value.Type()
}

// example is a command with a flag as it can be used.
func example(cmd *cobra.Command, f *pflag.Flag) string {
	text := "--" + f.Name
	what, _ := pflag.UnquoteUsage(f)
	switch {
	case f.Value.Type() == "bool":
	case f.DefValue == "0":
		text += " 1"
	case f.DefValue == "0s", f.Value.Type() == "time to wait", f.DefValue == "" && what == "time":
		text += " 10m"
	case f.DefValue != "" && f.DefValue != "[]":
		text += " " + f.DefValue
	default:
		text += " " + strings.ToUpper(what)
	}
	if _, place := f.Annotations[placeFlag]; place {
		return withPlace(cmd, text)
	}
	return withFlag(cmd, text)
}

// nearestFlag is the flag whose name is most like the given one, or nil if none is.
func nearestFlag(cmd *cobra.Command, name string) *pflag.Flag {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return cmd.Flags().Lookup(nearest.Of(name, slices.Values(names)))
}
