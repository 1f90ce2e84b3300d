package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// listForms are the values of --format of a verb that shows a list.
var listForms = []string{"table", "text", "json", "jsonl"}

// ListFlag is --format of a verb that shows a list.
type ListFlag struct{ Form string }

// Add adds the flag to cmd.
func (f *ListFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(
		&f.Form, "format", "",
		"`form` of the output: table, text (with tabs), json or jsonl; by default table on a terminal, and else text",
	)
	complete := cobra.FixedCompletions(listForms, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("format", complete); err != nil {
		panic(err) // the flag is there
	}
}

// Check finds out whether the flag can be used, before the verb does anything.
func (f *ListFlag) Check(cmd *cobra.Command) error {
	if f.Form == "" || slices.Contains(listForms, f.Form) {
		return nil
	}
	return Usage(Again(cmd)+" --format json", "--format must be table, text, json or jsonl, not %q", f.Form)
}

// List is what a verb shows.
type List struct {
	Name    string // of the rows in JSON
	Columns []string
	Rows    []Row
}

// Row has the cells of a table, and a value to be JSON.
type Row struct {
	Cells []string
	View  any
}

// Write writes a list in the form that was asked for.
func (f *ListFlag) Write(cmd *cobra.Command, l List) error {
	out, form := cmd.OutOrStdout(), f.Form
	if form == "" && TerminalWidth(out) > 0 {
		form = "table"
	}
	switch {
	case form == "json":
		views := []any{} // rather than null
		for _, r := range l.Rows {
			views = append(views, r.View)
		}
		return WriteJSON(out, map[string]any{"version": JSONVersion, l.Name: views})
	case form == "jsonl":
		return l.each(out, func(b *bytes.Buffer, r Row) error { return json.NewEncoder(b).Encode(r.View) })
	case form == "table":
		t := NewTable(l.Columns...)
		for _, r := range l.Rows {
			t.Add(slices.Clone(r.Cells)...)
		}
		_, err := io.WriteString(out, t.String())
		return err
	}
	return l.each(out, func(b *bytes.Buffer, r Row) error {
		cells := slices.Clone(r.Cells)
		for i := range cells {
			cells[i] = OneLine(cells[i])
		}
		_, err := fmt.Fprintln(b, strings.Join(cells, "\t"))
		return err
	})
}

// each writes one row after the other.
func (l List) each(out io.Writer, write func(*bytes.Buffer, Row) error) error {
	var b bytes.Buffer
	for _, r := range l.Rows {
		if err := write(&b, r); err != nil {
			return err
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}
