package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
	"github.com/lockagent/lockagent/events/natslog"
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

// exitCodes says what they mean, to help, to the manual and to its readers.
var exitCodes = []struct {
	code     int
	more     string // of what follows the code
	meanings []exitMeaning
}{
	{exitOK, "", []exitMeaning{{"it was done", ""}, {"what was checked is proven", "demo events-audit"}}},
	{exitFailed, "", []exitMeaning{
		{"it could not be done", ""},
		{"a check failed", "demo doctor"},
		{"the lock was not to be had in time (-E changes that one)", "lock acquire"},
		{"claims are left, or somebody has taken the drain back", "drain"},
		{"nobody holds the lock", "break"},
	}},
	{exitViolated, "", []exitMeaning{{"violated: the event log shows that mutual exclusion, or the order of tokens, was broken", "events-audit"}}},
	{exitIncomplete, "", []exitMeaning{{"incomplete: the event log shows nothing wrong, but too little for a proof", "events-audit"}}},
	{exitEmpty, "", []exitMeaning{{"empty: the event log has nothing of what was asked for", "events"}}},
	{exitExplained, "", []exitMeaning{{
		"explained: holds overlapped, and the event log names the cause: a reset, a break, or a process that did not run", "events-audit",
	}}},
	{exitUsage, "", []exitMeaning{{"the command line is wrong", ""}, {"a command asks for a lock that it has already", "lock"}}},
	{exitNoDaemon, "", []exitMeaning{
		{"the daemon cannot be reached", daemonVerbs + " events"},
		{"the daemon has another clock, or nobody knows which", "lock attach"},
	}},
	{exitBug, "", []exitMeaning{{"lockagent has a defect; please report it", ""}}},
	{exitUnavailable, "", []exitMeaning{
		{"the store or NATS cannot be reached; try again later", daemonVerbs + " serve demo events"},
		{"the daemon does not answer", daemonVerbs},
		{"the daemon takes no new claims", "lock acquire"},
	}},
	{exitNotPermitted, "", []exitMeaning{{"the store, NATS or the daemon refuses us; check the credentials and the permissions", daemonVerbs + " serve demo events"}}},
	{exitConfig, "", []exitMeaning{{"the configuration is wrong", "serve doctor config"}}},
	{exitLost, "", []exitMeaning{
		{"the lock was lost while the command ran (--lost-exit-code changes that one)", "lock attach"},
		{"the lock was lost before the claim could be printed", "acquire"},
		{"the claim has ended", "attach release renew"},
		{"the lock is not held with this token", "check break"},
	}},
	{exitNotExecutable, "", []exitMeaning{{"the command cannot be executed", "lock attach"}}},
	{exitNotFound, "", []exitMeaning{{"the command was not found", "lock attach"}}},
	{exitSignal, "+S", []exitMeaning{{"the command was ended by signal S", "lock attach"}, {"signal S ended the wait", "lock acquire attach"}}},
}

// exitMeaning is what a code means for some verbs.
type exitMeaning struct {
	text  string
	verbs string // as exitVerb has them; a verb is for those below it, too; empty is for all
}

// daemonVerbs are the verbs that are clients of the daemon.
const daemonVerbs = "acquire attach break check drain lock ls release renew show slots top watch"

// otherExit is what every code means that is not in the table.
const otherExit = "lock and attach end with the code of their command, whatever that is"

// exitVerb is what the table calls a verb. The program itself is empty.
func exitVerb(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimPrefix(manual.Name(cmd), manual.Name(cmd.Root())+"-")
}

// exitItems are the codes that a verb may end with, and what they mean for it. The program itself has all codes and
// meanings.
func exitItems(verb string) (items []manual.Item) {
	for _, e := range exitCodes {
		var texts []string
		for _, m := range e.meanings {
			if m.isOf(verb) {
				texts = append(texts, m.text)
			}
		}
		if len(texts) > 0 {
			items = append(items, manual.Item{Term: strconv.Itoa(e.code) + e.more, Text: strings.Join(texts, "; or ")})
		}
	}
	if runs := (exitMeaning{verbs: "lock attach"}); runs.isOf(verb) {
		items = append(items, manual.Item{Term: "other", Text: otherExit})
	}
	return items
}

// isOf reports whether a code means that when a verb ends with it.
func (m exitMeaning) isOf(verb string) bool {
	return m.verbs == "" || verb == "" || slices.ContainsFunc(strings.Fields(m.verbs), func(of string) bool {
		return verb == of || strings.HasPrefix(verb, of+"-") || strings.HasPrefix(of, verb+"-")
	})
}

// exitHelp is what help says of the codes of a verb.
func exitHelp(verb string) string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, item := range exitItems(verb) {
		fmt.Fprintf(&b, "  %5s  %s\n", item.Term, item.Text)
	}
	return b.String()
}

// exitManual is the part of a verb's page of the manual.
func exitManual(verb string) manual.Part {
	p := manual.Part{Title: "EXIT STATUS"}
	for _, item := range exitItems(verb) {
		p.Items = append(p.Items, manual.Item{Term: item.Term, Text: item.Text + "."})
	}
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

// failure is the error of a lock that is not to be had. With the code 0 that is as good as anything else, and nobody is
// told: cron sends what is told by mail.
func (f *exitFlag) failure(err error, verbose bool) error {
	if *f == exitOK && !verbose {
		err = errQuiet
	}
	return &failure{code: int(*f), err: err}
}

// checkCode refuses a code for a flag if it is one of ours. A script could not tell what it means.
func checkCode(cmd *cobra.Command, flag string, code exitFlag) error {
	if code < exitUsage || code > exitLost {
		return nil
	}
	return usage(
		withFlag(cmd, "--"+flag+" 100"), "--%s %d would also mean something else: codes from %d to %d are those of lockagent",
		flag, code, exitUsage, exitLost,
	)
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
	case errors.Is(err, lockagent.ErrNotPermitted), errors.Is(err, natslog.ErrNotPermitted):
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

// untilUnread has a verb that only shows something, and the verbs below it, end in order when nobody reads their output
// any more.
func untilUnread(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		untilUnread(below)
	}
	run := cmd.RunE
	if run == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); !unread(err) {
			return err
		}
		return nil
	}
}

// plain is the text of an error without the name of the program, for a place that has the name already.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "lockagent: ") }

// errQuiet matches an error of which nothing has to be said: a command of lock has said itself what went wrong.
var errQuiet = errors.New("the command failed")

func reportPanic(stderr io.Writer, p any) int {
	fmt.Fprintf(stderr, "lockagent: bug: %v\n\n%s\nPlease report this.\n", p, debug.Stack())
	return exitBug
}
