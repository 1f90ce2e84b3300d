package main

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
	exitOK            = 0
	exitFailed        = 1
	exitViolated      = 3
	exitIncomplete    = 4
	exitEmpty         = 5
	exitExplained     = 6
	exitUsage         = 64
	exitNoDaemon      = 69
	exitBug           = 70
	exitUnavailable   = 75
	exitNotPermitted  = 77
	exitConfig        = 78
	exitLost          = 79
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the number of the signal
)

// failure is an error with its exit code and, if there is one, the command that is
// worth trying instead.
type failure struct {
	code int
	err  error
	try  string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is the error of a wrong command line. try is a command that would have
// worked.
func usage(try, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), try}
}

// codeOf finds the exit code of an error.
func codeOf(err error) int {
	if err == nil {
		return exitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	// A process of this program has told its code.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= exitViolated && exit.ExitCode() <= exitLost {
		return exit.ExitCode()
	}
	switch {
	case errors.Is(err, lockagent.ErrInternal):
		return exitBug
	case errors.Is(err, lockagent.ErrStoreUnavailable):
		return exitUnavailable
	case errors.Is(err, lockagent.ErrNotPermitted):
		return exitNotPermitted
	}
	return exitFailed
}

// reportError writes what went wrong, if anything did, and returns the exit code.
func reportError(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return exitOK
	case unread(err): // whoever read our output does not want to know
		return exitFailed
	case errors.Is(err, errQuiet):
		return codeOf(err)
	}
	fmt.Fprintf(stderr, "lockagent: %s\n", plain(err))
	if f, ok := errors.AsType[*failure](err); ok && f.try != "" {
		fmt.Fprintf(stderr, "Try: %s\n", f.try)
	}
	return codeOf(err)
}

// unread reports whether err says that nobody reads our output any more. A connection that was closed has another error.
func unread(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && errors.Is(failed, syscall.EPIPE)
}

// plain is the text of an error without the name of the program, for a place that has the name already.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "lockagent: ") }

// errQuiet matches an error of which nothing has to be said: a command of lock has said itself what went wrong.
var errQuiet = errors.New("the command failed")
