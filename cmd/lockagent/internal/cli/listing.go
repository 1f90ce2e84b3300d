package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

// templateForm begins a --format that is a template.
const templateForm = "go-template="

// listForms are the values of --format of a verb that shows a list, beside templates.
var listForms = []string{"table", "text", "json", "jsonl"}

// ListFlag is --format of a verb that shows a list.
type ListFlag struct {
	Form     string
	template *template.Template // nil unless form is one
}

// Add adds the flag to cmd.
func (f *ListFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Form, "format", "", "`form` of the output: table, text (with tabs), json, jsonl, or go-template=TEMPLATE for each row; by default table on a terminal, and else text")
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(slices.Clone(listForms), templateForm), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc("format", complete); err != nil {
		panic(err) // the flag is there
	}
}

// Check finds out whether the flag can be used, before the verb does anything.
func (f *ListFlag) Check(cmd *cobra.Command) (err error) {
	text, isTemplate := strings.CutPrefix(f.Form, templateForm)
	switch {
	case isTemplate:
		f.template, err = template.New("--format").Option("missingkey=error").Parse(text)
		if err != nil {
			return f.badTemplate(cmd, err)
		}
	case f.Form != "" && !slices.Contains(listForms, f.Form):
		return Usage(Again(cmd)+" --format json", "--format must be %s or %sTEMPLATE, not %q", strings.Join(listForms, ", "), templateForm, f.Form)
	}
	return nil
}

func (f *ListFlag) badTemplate(cmd *cobra.Command, err error) error {
	return Usage(Again(cmd)+" --format jsonl    (shows the names for templates)", "%s", strings.TrimPrefix(err.Error(), "template: "))
}

// List is what a verb shows. The names in the JSON of its rows are those for templates.
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
	case f.template != nil:
		return f.writeTemplate(cmd, l)
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

// writeTemplate has the template see each row as its JSON.
func (f *ListFlag) writeTemplate(cmd *cobra.Command, l List) error {
	err := l.each(cmd.OutOrStdout(), func(b *bytes.Buffer, r Row) error {
		view, err := templateView(r.View)
		if err != nil {
			return err
		}
		defer b.WriteByte('\n')
		return f.template.Execute(b, view)
	})
	if bad, ok := errors.AsType[template.ExecError](err); ok {
		return f.badTemplate(cmd, bad)
	}
	return err
}

// templateView is the JSON of a row, as a template sees it. Whole numbers are integers: the digits of a token do not
// change, and a template can compare them. Any other number is the text that stands for it in the JSON.
func templateView(v any) (view any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&view); err != nil {
		return nil, err
	}
	return withIntegers(view), nil
}

func withIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = withIntegers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = withIntegers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	}
	return v
}
