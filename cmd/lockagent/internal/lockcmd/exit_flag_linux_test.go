package lockcmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

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
		{[]string{"there-is-no-such-command"}, cli.ExitNotFound},
		{[]string{filepath.Join(dir, "none")}, cli.ExitNotFound},
		{[]string{dir}, cli.ExitNotExecutable},
		{[]string{script("text", "echo", 0o600)}, cli.ExitNotExecutable},
		{[]string{script("garbage", "\x7fELF", 0o700)}, cli.ExitNotExecutable},
	} {
		if got := codeOfCommand(exec.Command(test.command[0], test.command[1:]...).Run()); got != test.code {
			t.Errorf("the exit code of %q is %d, want %d", test.command, got, test.code)
		}
	}
}

func TestExitFlag(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 1, "255": 255, "256": -1, "-1": -1, "": -1, "x": -1} {
		code := exitFlag(1)
		cmd := &cobra.Command{
			Use: "lock", RunE: func(*cobra.Command, []string) error { return nil }, SilenceErrors: true, SilenceUsage: true,
		}
		cmd.Flags().VarP(&code, "conflict-exit-code", "E", "")
		cmd.SetFlagErrorFunc(cli.FlagError)
		cmd.SetArgs([]string{"-E", text})
		err := cmd.Execute()
		switch {
		case want >= 0 && (err != nil || int(code) != want):
			t.Errorf("-E %s is %d: %v", text, code, err)
		case want < 0 &&
			(cli.CodeOf(err) != cli.ExitUsage ||
				err.Error() != fmt.Sprintf("--conflict-exit-code wants an exit code between 0 and 255, not %q", text)):
			t.Errorf("-E %s: %v", text, err)
		}
	}
}
