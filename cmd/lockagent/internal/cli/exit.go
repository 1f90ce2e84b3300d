package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"github.com/lockagent/lockagent"
)

// The exit codes. Those from 64 to 78 are those of sysexits.h, and those from 126 on are the shell's. Those from 3 to 6
// are what an event log says.
const (
	ExitOK            = 0
	ExitFailed        = 1
	ExitViolated      = 3
	ExitIncomplete    = 4
	ExitEmpty         = 5
	ExitExplained     = 6
	ExitUsage         = 64
	ExitNoDaemon      = 69
	ExitBug           = 70
	ExitUnavailable   = 75
	ExitNotPermitted  = 77
	ExitConfig        = 78
	ExitLost          = 79
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // and the number of the signal
)

// Failure is an error with its exit code and, if there is one, the command that is
// worth trying instead.
type Failure struct {
	Code int
	Err  error
	Try  string
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Usage is the error of a wrong command line. try is a command that would have
// worked.
func Usage(try, format string, args ...any) error {
	return &Failure{ExitUsage, fmt.Errorf(format, args...), try}
}

// CodeOf finds the exit code of an error.
func CodeOf(err error) int {
	if err == nil {
		return ExitOK
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code
	}
	// A process of this program has told its code.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= ExitViolated &&
		exit.ExitCode() <= ExitLost {
		return exit.ExitCode()
	}
	switch {
	case errors.Is(err, lockagent.ErrInternal):
		return ExitBug
	case errors.Is(err, lockagent.ErrStoreUnavailable):
		return ExitUnavailable
	case errors.Is(err, lockagent.ErrNotPermitted):
		return ExitNotPermitted
	}
	return ExitFailed
}

// ReportError writes what went wrong, if anything did, and returns the exit code.
func ReportError(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return ExitOK
	case Unread(err): // whoever read our output does not want to know
		return ExitFailed
	case errors.Is(err, ErrQuiet):
		return CodeOf(err)
	}
	fmt.Fprintf(stderr, "lockagent: %s\n", Plain(err))
	if f, ok := errors.AsType[*Failure](err); ok && f.Try != "" {
		fmt.Fprintf(stderr, "Try: %s\n", f.Try)
	}
	return CodeOf(err)
}

// Unread reports whether err says that nobody reads our output any more. A connection that was closed has another
// error.
func Unread(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && errors.Is(failed, syscall.EPIPE)
}

// Plain is the text of an error without the name of the program, for a place that has the name already.
func Plain(err error) string { return strings.TrimPrefix(err.Error(), "lockagent: ") }

// ErrQuiet matches an error of which nothing has to be said: a command of lock has said itself what went wrong.
var ErrQuiet = errors.New("the command failed")
