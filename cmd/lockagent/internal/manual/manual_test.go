package manual

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Does things", Long: "Tool does\nthings.\n\n.It does them well \\o/."}
	root.AddGroup(&cobra.Group{ID: "a", Title: "A:"}, &cobra.Group{ID: "b", Title: "B:"})
	first := &cobra.Command{
		Use: "zap [flags] NAME", GroupID: "a", Short: "Zap a *name*", Example: "  tool zap -n x\n  .run",
		Run: func(*cobra.Command, []string) {},
	}
	first.Flags().StringP("name", "n", "x", "a `word`, or a|b")
	first.Flags().Bool("secret", false, "")
	_ = first.Flags().MarkHidden("secret")
	root.AddCommand(
		&cobra.Command{Use: "hidden", GroupID: "a", Hidden: true, Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "also", GroupID: "b", Short: "Also", Run: func(*cobra.Command, []string) {}}, first)
	return root
}

func TestCommands(t *testing.T) {
	var names []string
	for c := range Commands(tree()) {
		names = append(names, Name(c))
	}
	if !slices.Equal(names, []string{"tool", "tool-zap", "tool-also"}) {
		t.Errorf("they are %q", names)
	}
}

func TestPage(t *testing.T) {
	root := tree()
	const want = `.TH TOOL 1 "" "tool 1" "User Commands"
.SH NAME
tool \- Does things
.SH SYNOPSIS
.B tool
VERB
.SH DESCRIPTION
Tool does things.
.PP
\&.It does them well \eo/.
.SH VERBS
.TP
.B zap
Zap a *name*.
.TP
.B also
Also.
.SH EXIT STATUS
0.
.SH SEE ALSO
.BR tool.conf (5),
.BR tool\-x (7)
`
	if got := Page(root, "tool 1", Part{Title: "EXIT STATUS", Text: "0."}, "tool.conf(5)", "tool-x(7)"); got != want {
		t.Errorf("the page is\n%s", got)
	}
	zap, _, _ := root.Find([]string{"zap"})
	const wantZap = `.TH TOOL\-ZAP 1 "" "tool 1" "User Commands"
.SH NAME
tool\-zap \- Zap a *name*
.SH SYNOPSIS
.B tool zap
[flags] NAME
.SH DESCRIPTION
Zap a *name*.
.SH OPTIONS
.TP
\fB\-n, \-\-name\fR \fIword\fR
a word, or a|b (default x)
.SH EXIT STATUS
.SH EXAMPLES
.nf
tool zap \-n x
\&.run
.fi
.SH SEE ALSO
.BR tool (1)
`
	if got := Page(zap, "tool 1", Part{Title: "EXIT STATUS"}); got != wantZap {
		t.Errorf("the page is\n%s", got)
	}
}

func TestMarkdown(t *testing.T) {
	const want = "\n## tool zap\n\nZap a \\*name\\*.\n\n```\ntool zap [flags] NAME\n```\n\n| flag | meaning |\n" +
		"|---|---|\n" +
		"| `-n, --name word` | a word, or a\\|b (default x) |\n\n```sh\ntool zap -n x\n.run\n```\n" +
		"\n## tool also\n\nAlso.\n\n```\ntool also\n```\n"
	none := func(*pflag.Flag) bool { return false }
	if got := Markdown(tree(), "", "", none); got != want {
		t.Errorf("the reference is\n%s", got)
	}
}

// What several verbs have alike is told once, and what another page tells is not told.
func TestFlagsOfSeveralVerbs(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	var verbs, names []string
	for i := range several {
		c := &cobra.Command{Use: fmt.Sprint("verb", i), Run: func(*cobra.Command, []string) {}}
		c.Flags().StringP("all", "a", "", "a `word`")
		c.Flags().Bool("best", false, "all but some")
		c.Flags().Bool("cut", false, "some")
		c.Flags().Bool("other", i == 0, "not alike")
		c.Flags().Bool("there", false, "told on another page")
		root.AddCommand(c)
		text := "\n## tool " + c.Use + "\n\n.\n\n```\ntool " + c.Use + " [flags]\n```\n"
		if i == 0 {
			text += "\n| flag | meaning |\n|---|---|\n| `--other` | not alike (default true) |\n"
		} else {
			text += "\n| flag | meaning |\n|---|---|\n| `--other` | not alike |\n"
		}
		verbs = append(verbs, text+"\nAlso `-a, --all` to `--cut`: see [below](#flags-of-several-verbs).\n"+
			"\nAlso the flags of the [other page](page.md).\n")
		names = append(names, "`"+c.Use+"`")
	}
	want := strings.Join(verbs, "") + "\n## Flags of several verbs\n\nOf " + strings.Join(names, ", ") + ":\n" +
		"\n| flag | meaning |\n|---|---|\n| `-a, --all word` | a word |\n| `--best` | all but some |\n| `--cut` | some |\n"
	got := Markdown(root, "page.md", "other page", func(f *pflag.Flag) bool { return f.Name == "there" })
	if got != want {
		t.Errorf("the reference is\n%s\nand not\n%s", got, want)
	}
}
