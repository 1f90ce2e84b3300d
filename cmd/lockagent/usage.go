package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usage writes how a verb is used. It does without the templates of the library: a program that executes a template has
// each exported method of each type in it, and is half as large again.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	verbs := cmd.HasAvailableSubCommands()
	line := cmd.UseLine()
	if verbs {
		line = cmd.CommandPath() + " VERB [flags]"
	}
	b.WriteString("Usage:\n  " + line + "\n")
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	switch groups := cmd.Groups(); {
	case verbs && len(groups) == 0:
		b.WriteString("\nVerbs:\n")
		listVerbs(&b, cmd, "")
	case verbs:
		for _, g := range groups {
			b.WriteString("\n" + g.Title + "\n")
			listVerbs(&b, cmd, g.ID)
		}
	}
	if cmd.HasAvailableLocalFlags() {
		b.WriteString("\nFlags:\n" + cmd.LocalFlags().FlagUsages())
	}
	if verbs {
		fmt.Fprintf(&b, "\nMore about a verb: %s VERB --help\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// listVerbs writes the verbs of a group. The library does not count help among those that can be used.
func listVerbs(b *strings.Builder, cmd *cobra.Command, group string) {
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
}
