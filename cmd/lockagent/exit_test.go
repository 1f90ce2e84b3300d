package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

func TestDocumentedExitCodes(t *testing.T) {
	text, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, item := range exitItems("") {
		fmt.Fprintf(&want, "| %s | %s |\n", item.Term, item.Text)
	}
	if !strings.HasSuffix(string(text), "|---|---|\n"+want.String()) {
		t.Errorf("the table is another one than this:\n%s", &want)
	}
}

// What the table lacks is in no help and in no manual.
func TestEveryExitCodeIsInTheTable(t *testing.T) {
	source, err := os.ReadFile("internal/cli/exit.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t(Exit\w+) += (\d+)`).FindAllStringSubmatch(string(source), -1)
	if len(declared) != len(exitCodes) || len(declared) < 16 {
		t.Errorf("there are %d codes, and %d in the table", len(declared), len(exitCodes))
	}
	for i, d := range declared {
		if i < len(exitCodes) && fmt.Sprint(exitCodes[i].code) != d[2] {
			t.Errorf("%s is %s, and stands in the table as %d", d[1], d[2], exitCodes[i].code)
		}
	}
	of := exitManual("")
	help, page := exitHelp(""), of.Roff()
	for i, e := range exitCodes {
		if i > 0 && e.code <= exitCodes[i-1].code {
			t.Errorf("exit code %d has two meanings, or does not stand in order", e.code)
		}
	}
	items := exitItems("")
	if len(items) != len(exitCodes)+1 {
		t.Errorf("the program has %d codes", len(items))
	}
	for _, item := range items {
		if !strings.Contains(help, fmt.Sprintf("%5s  %s\n", item.Term, item.Text)) || item.Text == "" {
			t.Errorf("the help does not tell of exit code %s", item.Term)
		}
		if !strings.Contains(page, "\n.TP\n.B "+item.Term+"\n"+strings.ReplaceAll(item.Text, "-", `\-`)+".\n") {
			t.Errorf("the manual does not tell of exit code %s", item.Term)
		}
	}
	if !strings.HasPrefix(page, ".SH EXIT STATUS\n.TP\n.B 0\n") || !strings.HasSuffix(page, ".B other\n"+otherExit+".\n") {
		t.Errorf("the section of the manual is %s", page)
	}
}

// A verb tells of its own codes, and the table names no verb that there is not.
func TestEachVerbTellsItsOwnExitCodes(t *testing.T) {
	codes := func(verb string) (all []string) {
		for _, item := range exitItems(verb) {
			all = append(all, item.Term)
		}
		return all
	}
	for verb, want := range map[string]string{
		"version":      "0 1 64 70",
		"config-show":  "0 1 64 70 78",
		"doctor":       "0 1 64 70 78",
		"ls":           "0 1 64 69 70 75 77",
		"lock":         "0 1 64 69 70 75 77 79 126 127 128+S other",
		"release":      "0 1 64 69 70 75 77 79",
		"events-tail":  "0 1 5 64 69 70 75 77",
		"events-audit": "0 1 3 4 5 6 64 69 70 75 77",
		"events":       "0 1 3 4 5 6 64 69 70 75 77",
	} {
		if got := strings.Join(codes(verb), " "); got != want {
			t.Errorf("%s tells of %s, want %s", verb, got, want)
		}
	}
	if text := exitHelp("lock"); strings.Contains(text, "the claim has ended") ||
		!strings.Contains(text, "not to be had in time") {
		t.Errorf("the help of lock is %s", text)
	}
	verbs := make(map[string]bool)
	for cmd := range manual.Commands(newRoot()) {
		verbs[exitVerb(cmd)] = true
		// Who talks to the daemon is in the table.
		if cmd.Flags().Lookup("socket") != nil && exitVerb(cmd) != "serve" && cmd.Flags().Lookup("state-dir") == nil &&
			!slices.Contains(codes(exitVerb(cmd)), "69") {
			t.Errorf("%s does not tell of a daemon that cannot be reached", cmd.CommandPath())
		}
	}
	for _, e := range exitCodes {
		for _, m := range e.meanings {
			for verb := range strings.FieldsSeq(m.verbs) {
				if !verbs[verb] {
					t.Errorf("exit code %d is of %s, which is no verb", e.code, verb)
				}
			}
		}
	}
}
