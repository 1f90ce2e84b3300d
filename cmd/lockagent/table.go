package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// table is text in columns.
type table struct {
	text strings.Builder
	tabs *tabwriter.Writer
}

func newTable(columns ...string) *table {
	t := &table{}
	t.tabs = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	t.add(columns...)
	return t
}

// add adds a row.
func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = oneLine(cmp.Or(cells[i], "-"))
	}
	fmt.Fprintln(t.tabs, strings.Join(cells, "\t"))
}

func (t *table) String() string {
	_ = t.tabs.Flush() // to a strings.Builder, which takes all
	return t.text.String()
}

// oneLine is a text of a log for a terminal, which it must not control.
func oneLine(text string) string {
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
