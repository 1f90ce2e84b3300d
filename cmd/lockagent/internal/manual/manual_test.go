package manual

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Does things", Long: "Tool does\nthings.\n\n.It does them well \\o/."}
	root.AddGroup(&cobra.Group{ID: "a", Title: "A:"}, &cobra.Group{ID: "b", Title: "B:"})
	first := &cobra.Command{Use: "zap [flags] NAME", GroupID: "a", Short: "Zap a *name*", Example: "  tool zap -n x\n  .run", Run: func(*cobra.Command, []string) {}}
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
	const want = "\n## tool zap\n\nZap a \\*name\\*.\n\n```\ntool zap [flags] NAME\n```\n\n| flag | meaning |\n|---|---|\n" +
		"| `-n, --name word` | a word, or a\\|b (default x) |\n\n```sh\ntool zap -n x\n.run\n```\n" +
		"\n## tool also\n\nAlso.\n\n```\ntool also\n```\n"
	if got := Markdown(tree()); got != want {
		t.Errorf("the reference is\n%s", got)
	}
}
