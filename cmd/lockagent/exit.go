package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The exit codes. Those from 64 on are those of sysexits.h. Those from 3 to 6 are what an
// event log says.
const (
	exitOK           = 0
	exitFailed       = 1
	exitViolated     = 3
	exitIncomplete   = 4
	exitEmpty        = 5
	exitExplained    = 6
	exitUsage        = 64
	exitBug          = 70
	exitUnavailable  = 75
	exitNotPermitted = 77
)

// exitCodes says what they mean, to help and to its readers.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "it was done, and what was checked is proven"},
	{exitFailed, "a check of the demo failed, or the work could not be done"},
	{exitViolated, "violated: the event log shows that mutual exclusion, or the order of tokens, was broken"},
	{exitIncomplete, "incomplete: the event log shows nothing wrong, but too little for a proof"},
	{exitEmpty, "empty: the event log has nothing of what was asked for"},
	{exitExplained, "explained: holds overlapped, and the event log names the cause: a reset, a break, a clock that was set, or a process that did not run"},
	{exitUsage, "the command line is wrong"},
	{exitBug, "lockagent has a defect; please report it"},
	{exitUnavailable, "the store or NATS cannot be reached; try again later"},
	{exitNotPermitted, "the store or NATS refuses us; check the credentials and the permissions"},
}

// exitHelp is the table for help.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %2d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

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
	// A process that was started by us has told its code.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		for _, e := range exitCodes {
			if e.code == exit.ExitCode() {
				return e.code
			}
		}
	}
	switch {
	case errors.Is(err, lockagent.ErrInternal):
		return exitBug
	case errors.Is(err, lockagent.ErrStoreUnavailable):
		return exitUnavailable
	case errors.Is(err, lockagent.ErrNotPermitted), errors.Is(err, events.ErrNotPermitted):
		return exitNotPermitted
	}
	return exitFailed
}

// reportError writes what went wrong, if anything did, and returns the exit code.
func reportError(stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE): // whoever read our output does not want to know
		return exitFailed
	}
	fmt.Fprintf(stderr, "lockagent: %s\n", strings.TrimPrefix(err.Error(), "lockagent: "))
	if f, ok := errors.AsType[*failure](err); ok && f.try != "" {
		fmt.Fprintf(stderr, "Try: %s\n", f.try)
	}
	return codeOf(err)
}

func reportPanic(stderr io.Writer, p any) int {
	fmt.Fprintf(stderr, "lockagent: bug: %v\n\n%s\nPlease report this.\n", p, debug.Stack())
	return exitBug
}
