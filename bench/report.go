package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/bench/stat"
)

// number writes a figure with three digits, or more where they stand before the
// point.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) || math.Abs(v) >= 100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	default:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
		return strconv.FormatFloat(v, 'f', min(max(digits, 0), 6), 64)
	}
}

// thousands puts commas into a whole number.
func thousands(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// cell is what a table shows of a figure.
func (c column) cell(e stat.Estimate) string {
	if e.Rounds == 0 {
		return ""
	}
	text := number(e.Median)
	if c.Spread && e.Rounds > 1 {
		text += fmt.Sprintf(" (%s..%s)", number(e.Low), number(e.High))
	}
	return text
}

// cells are the table as text, its head first.
func (t *table) cells() [][]string {
	head := []string{""}
	for _, c := range t.Columns {
		head = append(head, c.Title)
	}
	all := [][]string{head}
	for _, r := range t.Rows {
		line := []string{r.Contender}
		for _, c := range t.Columns {
			line = append(line, c.cell(r.Values[c.Key]))
		}
		all = append(all, line)
	}
	return all
}

// rowNotes are what went wrong for some contenders.
func (t *table) rowNotes() []string {
	var notes []string
	for _, r := range t.Rows {
		for _, c := range t.Columns {
			if n := r.Undefined[c.Key]; n > 0 {
				notes = append(
					notes, fmt.Sprintf("%s: of %d rounds, %d had no value for: %s", r.Contender, n+r.Values[c.Key].Rounds, n, c.Title),
				)
			}
		}
		if r.Note != "" {
			notes = append(notes, fmt.Sprintf("%s: the first error was: %s", r.Contender, r.Note))
		}
	}
	return notes
}

// text writes the results for people at a terminal.
func (r *results) text(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.Machine)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s [%s]\n", t.Title, t.Name)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, line := range t.cells() {
			fmt.Fprintln(tw, strings.Join(line, "\t")+"\t")
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		for _, note := range t.rowNotes() {
			fmt.Fprintf(w, "  %s\n", note)
		}
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range r.verdicts() {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", strings.ToUpper(v.Reached), v.Target, v.Measured)
	}
	return tw.Flush()
}

// markdown writes RESULTS.md. plots has the file of the plot of a table.
func (r *results) markdown(w io.Writer, plots map[string]string) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("# Results\n")
	p("Made by `make bench` on %s, in %.0f s. Do not edit: run it again.\n", r.Date.Format("2006-01-02 15:04 MST"), r.Took)
	markdownTable(w, verdictCells(r.verdicts()))
	p("\n## Machine and versions\n")
	p("%s\n", r.Machine)
	p("Rates depend on the machine and on what else it does; ratios of rounds that alternate do much less. Read ratios.\n")
	versions := [][]string{{"", "version"}}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, []string{name, r.Versions[name]})
	}
	markdownTable(w, versions)
	p("\n## Contenders\n")
	setups := [][]string{{"", "set up as"}}
	for _, k := range contender.All() {
		setups = append(setups, []string{k.Name, k.Setup})
	}
	markdownTable(w, setups)
	for _, t := range r.Tables {
		p("\n## %s\n", t.Title)
		markdownTable(w, t.cells())
		for _, note := range slices.Concat(t.rowNotes(), t.Notes) {
			p("\n%s", note)
		}
		if file := plots[t.Name]; file != "" {
			p("\n![%s](%s)", t.figure(), file)
		}
	}
}

// figure says what the plot of the table shows.
func (t *table) figure() string {
	if t.Lines != nil {
		return t.Lines.y + " against " + t.Lines.x
	}
	return "Percentiles of " + t.Plotted
}

func verdictCells(verdicts []verdict) [][]string {
	all := [][]string{{"target", "measured", "reached?"}}
	for _, v := range verdicts {
		reached := v.Reached
		if reached == "no" {
			reached = "**no**"
		}
		all = append(all, []string{v.Target, v.Measured, reached})
	}
	return all
}

func markdownTable(w io.Writer, lines [][]string) {
	for i, line := range lines {
		escaped := make([]string, len(line))
		for j, cell := range line {
			escaped[j] = strings.ReplaceAll(cell, "|", "\\|")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(escaped, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(line)))
		}
	}
}
