package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
	"github.com/lockagent/lockagent/events"
)

// The exit codes. Those from 64 to 78 are those of sysexits.h, and those from 126 on are the shell's. Those from 3 to 6 are
// what an event log says.
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

// exitCodes says what they mean, to help, to the manual and to its readers.
var exitCodes = []struct {
	code    int
	more    string // of what follows the code
	meaning string
}{
	{exitOK, "", "it was done, and what was checked is proven"},
	{exitFailed, "", "it could not be done, a check of the demo or of doctor failed, or the lock was not to be had in time (-E of lock changes that one)"},
	{exitViolated, "", "violated: the event log shows that mutual exclusion, or the order of tokens, was broken"},
	{exitIncomplete, "", "incomplete: the event log shows nothing wrong, but too little for a proof"},
	{exitEmpty, "", "empty: the event log has nothing of what was asked for"},
	{exitExplained, "", "explained: holds overlapped, and the event log names the cause: a reset, a break, a clock that was set, or a process that did not run"},
	{exitUsage, "", "the command line is wrong, or a command asks for a lock that it has already"},
	{exitNoDaemon, "", "the daemon cannot be reached"},
	{exitBug, "", "lockagent has a defect; please report it"},
	{exitUnavailable, "", "the store or NATS cannot be reached; try again later"},
	{exitNotPermitted, "", "the store, NATS or the daemon refuses us; check the credentials and the permissions"},
	{exitConfig, "", "the configuration is wrong"},
	{exitLost, "", "the lock was lost while the command ran (--lost-exit-code of lock changes it)"},
	{exitNotExecutable, "", "the command of lock cannot be executed"},
	{exitNotFound, "", "the command of lock was not found"},
	{exitSignal, "+S", "the command of lock was ended by signal S"},
}

// otherExit is what every code means that is not in the table.
const otherExit = "lock ends with the code of its command, whatever that is"

// exitHelp is the table for help.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %5s  %s\n", strconv.Itoa(e.code)+e.more, e.meaning)
	}
	fmt.Fprintf(&b, "  other  %s\n", otherExit)
	return b.String()
}

// exitManual is the table as a part of a page of the manual.
func exitManual() manual.Part {
	p := manual.Part{Title: "EXIT STATUS"}
	for _, e := range exitCodes {
		p.Items = append(p.Items, manual.Item{Term: strconv.Itoa(e.code) + e.more, Text: e.meaning + "."})
	}
	p.Items = append(p.Items, manual.Item{Term: "other", Text: otherExit + "."})
	return p
}

// exitFlag is the value of a flag for an exit code.
type exitFlag int

func (f *exitFlag) String() string { return strconv.Itoa(int(*f)) }
func (f *exitFlag) Type() string   { return "exit code" }

// Set refuses what a process cannot end with. The system would take it modulo 256.
func (f *exitFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	*f = exitFlag(n)
	return err
}

// codeOfCommand is the exit code for a command that was started or waited for with err, as a shell has it.
func codeOfCommand(err error) int {
	if err == nil {
		return exitOK
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitSignal + int(status.Signal())
		}
		return exit.ExitCode()
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
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
	case errors.Is(err, errQuiet):
		return codeOf(err)
	}
	fmt.Fprintf(stderr, "lockagent: %s\n", strings.TrimPrefix(err.Error(), "lockagent: "))
	if f, ok := errors.AsType[*failure](err); ok && f.try != "" {
		fmt.Fprintf(stderr, "Try: %s\n", f.try)
	}
	return codeOf(err)
}

// errQuiet matches the error of a command of lock, which has said itself what went wrong.
var errQuiet = errors.New("the command failed")

func reportPanic(stderr io.Writer, p any) int {
	fmt.Fprintf(stderr, "lockagent: bug: %v\n\n%s\nPlease report this.\n", p, debug.Stack())
	return exitBug
}
