package cli

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Table is text in columns.
type Table struct {
	text strings.Builder
	tabs *tabwriter.Writer
}

// NewTable returns a table with these heads of columns.
func NewTable(columns ...string) *Table {
	t := &Table{}
	t.tabs = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.Add(columns...)
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = OneLine(cmp.Or(cells[i], "-"))
	}
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t"))
}

func (t *Table) String() string {
	_ = t.tabs.Flush() // to a strings.Builder, which takes all
	return t.text.String()
}

// OneLine is a text of a log for a terminal, which it must not control.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}
