// Package manual writes the pages of the manual, and the reference in Markdown, of a tree of commands.
package manual

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands are a command and all below it that are shown to users, in the order of the help.
func Commands(root *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) { walk(root, yield) }
}

func walk(cmd *cobra.Command, yield func(*cobra.Command) bool) bool {
	if !yield(cmd) {
		return false
	}
	for _, c := range below(cmd) {
		if !walk(c, yield) {
			return false
		}
	}
	return true
}

// below are the commands right below a command, group after group.
func below(cmd *cobra.Command) (all []*cobra.Command) {
	groups := []string{""}
	for _, g := range cmd.Groups() {
		groups = append(groups, g.ID)
	}
	for _, group := range groups {
		for _, c := range cmd.Commands() {
			if !c.Hidden && c.GroupID == group {
				all = append(all, c)
			}
		}
	}
	return all
}

// Name is what the page of a command is called.
func Name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// File is where the page of a command is in a directory of manuals.
func File(cmd *cobra.Command) string { return "man1/" + Name(cmd) + ".1" }

// Page is the page of a command, for section 1 of the manual. exits is its section about exit codes. also names other
// pages.
func Page(cmd *cobra.Command, version string, exits Part, also ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %q \"User Commands\"\n", strings.ToUpper(escape(Name(cmd))), version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(Name(cmd)), escape(cmd.Short))
	path, rest := usage(cmd)
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", escape(path), escape(rest))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n")
	for i, p := range paragraphs(description(cmd)) {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(&b, line(p))
	}
	if verbs := below(cmd); len(verbs) > 0 {
		b.WriteString(".SH VERBS\n")
		for _, c := range verbs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", escape(c.Name()), line(c.Short))
		}
	}
	if flags := flagsOf(cmd); len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, f := range flags {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR", escape(f.name))
			if f.value != "" {
				fmt.Fprintf(&b, " \\fI%s\\fR", escape(f.value))
			}
			fmt.Fprintf(&b, "\n%s\n", line(f.text))
		}
	}
	b.WriteString(exits.Roff())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escapeLines(cmd.Example))
	}
	if cmd.HasParent() {
		also = append([]string{Name(cmd.Root()) + "(1)"}, also...)
	}
	b.WriteString(seeAlso(also))
	return b.String()
}

// several is how many commands have a flag, with the same text, that the reference explains once for all of them.
const several = 5

// group has the flags that the same commands have.
type group struct {
	verbs []string
	flags []flag
}

// names are the first and the last flag of a group.
func (g *group) names() string {
	names := "`" + g.flags[0].name + "`"
	if n := len(g.flags); n > 1 {
		names += " to `" + g.flags[n-1].name + "`"
	}
	return names
}

// groups returns which commands have each flag, and the groups of the flags that several have. Those for which
// elsewhere is true are left out.
func groups(root *cobra.Command, elsewhere func(*pflag.Flag) bool) (verbs map[flag][]string, all []*group) {
	verbs = make(map[flag][]string)
	var shared []flag
	for cmd := range Commands(root) {
		for _, f := range flagsBut(cmd, elsewhere) {
			_, name, _ := strings.Cut(cmd.CommandPath(), " ")
			if verbs[f] = append(verbs[f], "`"+name+"`"); len(verbs[f]) == several {
				shared = append(shared, f)
			}
		}
	}
	for _, f := range shared {
		i := slices.IndexFunc(all, func(g *group) bool { return slices.Equal(g.verbs, verbs[f]) })
		if i < 0 {
			i, all = len(all), append(all, &group{verbs: verbs[f]})
		}
		all[i].flags = append(all[i].flags, f)
	}
	return verbs, all
}

// Markdown is the reference of all commands. Another page, with an address and a title, has the flags for which
// elsewhere is true.
func Markdown(root *cobra.Command, page, title string, elsewhere func(*pflag.Flag) bool) string {
	var b strings.Builder
	verbs, shared := groups(root, elsewhere)
	for cmd := range Commands(root) {
		if !cmd.HasParent() {
			continue
		}
		path, rest := usage(cmd)
		fmt.Fprintf(
			&b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", cmd.CommandPath(), mark(cmd.Short), strings.TrimSpace(path+" "+rest),
		)
		if cmd.Long != "" {
			for _, p := range paragraphs(cmd.Long) {
				fmt.Fprintf(&b, "\n%s\n", mark(p))
			}
		}
		if verbs := below(cmd); len(verbs) > 0 {
			b.WriteString("\n")
			for _, c := range verbs {
				fmt.Fprintf(&b, "- [%s](#%s): %s\n", c.CommandPath(), Name(c), mark(c.Short))
			}
		}
		var own []flag
		var others []string
		flags := flagsBut(cmd, elsewhere)
		for _, f := range flags {
			if len(verbs[f]) < several {
				own = append(own, f)
			}
		}
		for _, g := range shared {
			if slices.Contains(flags, g.flags[0]) {
				others = append(others, g.names())
			}
		}
		table(&b, own)
		if len(others) > 0 {
			fmt.Fprintf(&b, "\nAlso %s: see [below](#flags-of-several-verbs).\n", strings.Join(others, ", "))
		}
		if len(flags) < len(flagsOf(cmd)) {
			fmt.Fprintf(&b, "\nAlso the flags of the [%s](%s).\n", title, page)
		}
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
		}
	}
	if len(shared) > 0 {
		b.WriteString("\n## Flags of several verbs\n")
	}
	for _, g := range shared {
		fmt.Fprintf(&b, "\nOf %s:\n", strings.Join(g.verbs, ", "))
		table(&b, g.flags)
	}
	return b.String()
}

// table is that of flags, in Markdown.
func table(b *strings.Builder, flags []flag) {
	if len(flags) > 0 {
		b.WriteString("\n| flag | meaning |\n|---|---|\n")
	}
	for _, f := range flags {
		text := strings.ReplaceAll(mark(f.text), "|", `\|`)
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimSpace(f.name+" "+f.value), text)
	}
}

// usage is the path of a command, and what follows it on a command line.
func usage(cmd *cobra.Command) (path, rest string) {
	_, rest, _ = strings.Cut(cmd.Use, " ")
	if len(below(cmd)) > 0 {
		rest = "VERB"
	}
	if len(flagsOf(cmd)) > 0 && !strings.Contains(rest, "[flags]") {
		rest = strings.TrimSpace(rest + " [flags]")
	}
	return cmd.CommandPath(), rest
}

// flag is a flag for people.
type flag struct{ name, value, text string }

func flagsOf(cmd *cobra.Command) []flag {
	return flagsBut(cmd, func(*pflag.Flag) bool { return false })
}

// flagsBut are the flags of a command but for those for which leave is true.
func flagsBut(cmd *cobra.Command, leave func(*pflag.Flag) bool) (all []flag) {
	cmd.InitDefaultHelpFlag()
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || leave(f) {
			return
		}
		one := flag{name: "--" + f.Name}
		if f.Shorthand != "" {
			one.name = "-" + f.Shorthand + ", " + one.name
		}
		one.value, one.text = pflag.UnquoteUsage(f)
		if zero := map[string]bool{"": true, "0": true, "0s": true, "false": true, "[]": true}; !zero[f.DefValue] {
			one.text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		all = append(all, one)
	})
	return all
}

// description is that of a command.
func description(cmd *cobra.Command) string {
	if cmd.Long == "" {
		return cmd.Short + "."
	}
	return cmd.Long
}

// paragraphs are those of a text, each in one line.
func paragraphs(text string) (all []string) {
	if text == "" {
		return nil
	}
	for p := range strings.SplitSeq(text, "\n\n") {
		all = append(all, strings.Join(strings.Fields(p), " "))
	}
	return all
}

// escape makes a text one that roff shows as it is.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}

// line makes a text a line that is no request of roff.
func line(text string) string {
	text = escape(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

func escapeLines(text string) string {
	lines := strings.Split(unindent(text), "\n")
	for i := range lines {
		lines[i] = line(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unindent takes away the two blanks with which the lines of examples begin in help.
func unindent(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}

// mark keeps Markdown from reading more into a text than there is.
func mark(text string) string {
	return strings.NewReplacer("*", `\*`, "<", `\<`, "_", `\_`).Replace(text)
}
