package main

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

// listFlag is --format of a verb that shows a list.
type listFlag struct {
	form     string
	template *template.Template // nil unless form is one
}

func (f *listFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.form, "format", "", "`form` of the output: table, text (with tabs), json, jsonl, or go-template=TEMPLATE for each row; by default table on a terminal, and else text")
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(slices.Clone(listForms), templateForm), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc("format", complete); err != nil {
		panic(err) // the flag is there
	}
}

// check finds out whether the flag can be used, before the verb does anything.
func (f *listFlag) check(cmd *cobra.Command) (err error) {
	text, isTemplate := strings.CutPrefix(f.form, templateForm)
	switch {
	case isTemplate:
		f.template, err = template.New("--format").Option("missingkey=error").Parse(text)
		if err != nil {
			return f.badTemplate(cmd, err)
		}
	case f.form != "" && !slices.Contains(listForms, f.form):
		return usage(again(cmd)+" --format json", "--format must be %s or %sTEMPLATE, not %q", strings.Join(listForms, ", "), templateForm, f.form)
	}
	return nil
}

func (f *listFlag) badTemplate(cmd *cobra.Command, err error) error {
	return usage(again(cmd)+" --format jsonl    (shows the names for templates)", "%s", strings.TrimPrefix(err.Error(), "template: "))
}

// list is what a verb shows. The names in the JSON of its rows are those for templates.
type list struct {
	name    string // of the rows in JSON
	columns []string
	rows    []row
}

// row has the cells of a table, and a value to be JSON.
type row struct {
	cells []string
	view  any
}

func (f *listFlag) write(cmd *cobra.Command, l list) error {
	out, form := cmd.OutOrStdout(), f.form
	if form == "" && terminalWidth(out) > 0 {
		form = "table"
	}
	switch {
	case f.template != nil:
		return f.writeTemplate(cmd, l)
	case form == "json":
		views := []any{} // rather than null
		for _, r := range l.rows {
			views = append(views, r.view)
		}
		return writeJSON(out, map[string]any{"version": jsonVersion, l.name: views})
	case form == "jsonl":
		return l.each(out, func(b *bytes.Buffer, r row) error { return json.NewEncoder(b).Encode(r.view) })
	case form == "table":
		t := newTable(l.columns...)
		for _, r := range l.rows {
			t.add(slices.Clone(r.cells)...)
		}
		_, err := io.WriteString(out, t.String())
		return err
	}
	return l.each(out, func(b *bytes.Buffer, r row) error {
		cells := slices.Clone(r.cells)
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		_, err := fmt.Fprintln(b, strings.Join(cells, "\t"))
		return err
	})
}

// each writes one row after the other.
func (l list) each(out io.Writer, write func(*bytes.Buffer, row) error) error {
	var b bytes.Buffer
	for _, r := range l.rows {
		if err := write(&b, r); err != nil {
			return err
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// writeTemplate has the template see each row as its JSON.
func (f *listFlag) writeTemplate(cmd *cobra.Command, l list) error {
	err := l.each(cmd.OutOrStdout(), func(b *bytes.Buffer, r row) error {
		view, err := templateView(r.view)
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
