package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, exitOK},
		{errors.New("some error"), exitFailed},
		{usage("lockagent demo", "wrong"), exitUsage},
		{fmt.Errorf("wrapped: %w", lockagent.ErrInternal), exitBug},
		{fmt.Errorf("wrapped: %w", lockagent.ErrStoreUnavailable), exitUnavailable},
		{fmt.Errorf("wrapped: %w", lockagent.ErrNotPermitted), exitNotPermitted},
	} {
		if got := codeOf(test.err); got != test.code {
			t.Errorf("the exit code of %v is %d, want %d", test.err, got, test.code)
		}
	}
}

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
	source, err := os.ReadFile("exit.go")
	if err != nil {
		t.Fatal(err)
	}
	constants, _, _ := strings.Cut(string(source), "\n)\n\n// exitCodes says")
	declared := regexp.MustCompile(`(?m)^\t(exit\w+) += (\d+)`).FindAllStringSubmatch(constants, -1)
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
	if text := exitHelp("lock"); strings.Contains(text, "the claim has ended") || !strings.Contains(text, "not to be had in time") {
		t.Errorf("the help of lock is %s", text)
	}
	verbs := make(map[string]bool)
	for cmd := range manual.Commands(newRoot()) {
		verbs[exitVerb(cmd)] = true
		// Who talks to the daemon is in the table.
		if cmd.Flags().Lookup("socket") != nil && exitVerb(cmd) != "serve" && cmd.Flags().Lookup("state-dir") == nil && !slices.Contains(codes(exitVerb(cmd)), "69") {
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

func TestTheExitCodeOfACommandIsTheShells(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, test := range []struct {
		command []string
		code    int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"sh", "-c", "exit 255"}, 255},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"there-is-no-such-command"}, exitNotFound},
		{[]string{filepath.Join(dir, "none")}, exitNotFound},
		{[]string{dir}, exitNotExecutable},
		{[]string{script("text", "echo", 0o600)}, exitNotExecutable},
		{[]string{script("garbage", "\x7fELF", 0o700)}, exitNotExecutable},
	} {
		if got := codeOfCommand(exec.Command(test.command[0], test.command[1:]...).Run()); got != test.code {
			t.Errorf("the exit code of %q is %d, want %d", test.command, got, test.code)
		}
	}
}

func TestExitFlag(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 1, "255": 255, "256": -1, "-1": -1, "": -1, "x": -1} {
		code := exitFlag(1)
		cmd := &cobra.Command{Use: "lock", RunE: func(*cobra.Command, []string) error { return nil }, SilenceErrors: true, SilenceUsage: true}
		cmd.Flags().VarP(&code, "conflict-exit-code", "E", "")
		cmd.SetFlagErrorFunc(flagError)
		cmd.SetArgs([]string{"-E", text})
		err := cmd.Execute()
		switch {
		case want >= 0 && (err != nil || int(code) != want):
			t.Errorf("-E %s is %d: %v", text, code, err)
		case want < 0 && (codeOf(err) != exitUsage || err.Error() != fmt.Sprintf("--conflict-exit-code wants an exit code between 0 and 255, not %q", text)):
			t.Errorf("-E %s: %v", text, err)
		}
	}
}
