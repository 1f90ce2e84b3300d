//go:build linux

package lockcmd

import (
	"errors"
	"io/fs"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

// exitFlag is the value of a flag for an exit code.
type exitFlag int

func (f *exitFlag) String() string { return strconv.Itoa(int(*f)) }

func (f *exitFlag) Type() string { return "exit code" }

// Set refuses what a process cannot end with. The system would take it modulo 256.
func (f *exitFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	*f = exitFlag(n)
	return err
}

// failure is the error of a lock that is not to be had. With the code 0 that is as good as anything else, and nobody is
// told: cron sends what is told by mail.
func (f *exitFlag) failure(err error, verbose bool) error {
	if *f == cli.ExitOK && !verbose {
		err = cli.ErrQuiet
	}
	return &cli.Failure{Code: int(*f), Err: err}
}

// checkCode refuses a code for a flag if it is one of ours. A script could not tell what it means.
func checkCode(cmd *cobra.Command, flag string, code exitFlag) error {
	if code < cli.ExitUsage || code > cli.ExitLost {
		return nil
	}
	return cli.Usage(
		cli.WithFlag(cmd, "--"+flag+" 100"),
		"--%s %d would also mean something else: codes from %d to %d are those of lockagent",
		flag, code, cli.ExitUsage, cli.ExitLost,
	)
}

// codeOfCommand is the exit code for a command that was started or waited for with err, as a shell has it.
func codeOfCommand(err error) int {
	if err == nil {
		return cli.ExitOK
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return cli.ExitSignal + int(status.Signal())
		}
		return exit.ExitCode()
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return cli.ExitNotFound
	}
	return cli.ExitNotExecutable
}
