package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
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
	for _, e := range exitCodes {
		fmt.Fprintf(&want, "| %d%s | %s |\n", e.code, e.more, e.meaning)
	}
	if !strings.Contains(string(text), "|---|---|\n"+want.String()+"| other | "+otherExit+" |\n") {
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
	of := exitManual()
	help, manual := exitHelp(), of.Roff()
	for i, e := range exitCodes {
		if i > 0 && e.code <= exitCodes[i-1].code {
			t.Errorf("exit code %d has two meanings, or does not stand in order", e.code)
		}
		shown := fmt.Sprint(e.code) + e.more
		if !strings.Contains(help, fmt.Sprintf("%5s  %s\n", shown, e.meaning)) || e.meaning == "" {
			t.Errorf("the help does not tell of exit code %s", shown)
		}
		if !strings.Contains(manual, "\n.TP\n.B "+shown+"\n"+strings.ReplaceAll(e.meaning, "-", `\-`)+".\n") {
			t.Errorf("the manual does not tell of exit code %s", shown)
		}
	}
	if !strings.HasPrefix(manual, ".SH EXIT STATUS\n.TP\n.B 0\n") || !strings.HasSuffix(manual, ".B other\n"+otherExit+".\n") {
		t.Errorf("the section of the manual is %s", manual)
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
