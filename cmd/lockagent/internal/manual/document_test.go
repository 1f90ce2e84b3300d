package manual

import "testing"

var paper = Document{
	Name: "tool-paper", Section: 7, Short: "what there is to read",
	Parts: []Part{
		{Title: "About", Text: "One\nline.\n\n'Two_."},
		{
			Title: "List", Items: []Item{{"--a", ".All of it"}, {"b", "B"}},
			Parts: []Part{{Title: "Below", Text: "It.", Code: "a -b\n\n.c"}},
		},
	},
}

func TestDocument(t *testing.T) {
	if got := paper.Reference() + " " + paper.File(); got != "tool-paper(7) man7/tool-paper.7" {
		t.Errorf("it is %s", got)
	}
	const wantPage = `.TH TOOL\-PAPER 7 "" "tool 1" "Miscellaneous"
.SH NAME
tool\-paper \- what there is to read
.SH About
One line.
.PP
\&'Two_.
.SH List
.TP
.B \-\-a
\&.All of it
.TP
.B b
B
.SS Below
It.
.PP
.nf
a \-b

\&.c
.fi
.SH SEE ALSO
.BR tool (1)
`
	if got := paper.Page("tool 1", "tool(1)"); got != wantPage {
		t.Errorf("the page is\n%s", got)
	}
	const wantHelp = "About\n\n  One\n  line.\n\n  'Two_.\n\nList\n\n  --a\n    .All of it\n\n  b\n    B\n\nBelow\n\n" +
		"  It.\n\n    a -b\n\n    .c\n"
	if got := paper.Help(); got != wantHelp {
		t.Errorf("the help is\n%s", got)
	}
	const wantMarkdown = "\n## About\n\nOne line.\n\n'Two\\_.\n\n## List\n\n- --a: .All of it\n- b: B\n\n### Below\n\n" +
		"It.\n\n```sh\na -b\n\n.c\n```\n"
	if got := paper.Markdown(); got != wantMarkdown {
		t.Errorf("the Markdown is\n%s", got)
	}
}
