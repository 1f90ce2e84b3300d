package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

// exitCodes says what they mean, to help, to the manual and to its readers.
var exitCodes = []struct {
	code     int
	more     string // of what follows the code
	meanings []exitMeaning
}{
	{cli.ExitOK, "", []exitMeaning{{"it was done", ""}, {"what was checked is proven", "demo events-audit"}}},
	{cli.ExitFailed, "", []exitMeaning{
		{"it could not be done", ""},
		{"a check failed", "demo doctor"},
		{"the lock was not to be had in time (-E changes that one)", "lock acquire"},
		{"claims are left, or somebody has taken the drain back", "drain"},
		{"nobody holds the lock", "break"},
	}},
	{
		cli.ExitViolated, "",
		[]exitMeaning{
			{"violated: the event log shows that mutual exclusion, or the order of tokens, was broken", "events-audit"},
		},
	},
	{
		cli.ExitIncomplete, "",
		[]exitMeaning{{"incomplete: the event log shows nothing wrong, but too little for a proof", "events-audit"}},
	},
	{cli.ExitEmpty, "", []exitMeaning{{"empty: the event log has nothing of what was asked for", "events"}}},
	{cli.ExitExplained, "", []exitMeaning{{
		"explained: holds overlapped, and the event log names the cause: a reset, a break, or a process that did not run",
		"events-audit",
	}}},
	{
		cli.ExitUsage, "",
		[]exitMeaning{{"the command line is wrong", ""}, {"a command asks for a lock that it has already", "lock"}},
	},
	{cli.ExitNoDaemon, "", []exitMeaning{
		{"the daemon cannot be reached", daemonVerbs + " events"},
		{"the daemon has another clock, or nobody knows which", "lock attach"},
	}},
	{cli.ExitBug, "", []exitMeaning{{"lockagent has a defect; please report it", ""}}},
	{cli.ExitUnavailable, "", []exitMeaning{
		{"the store or NATS cannot be reached; try again later", daemonVerbs + " serve demo events"},
		{"the daemon does not answer", daemonVerbs},
		{"the daemon takes no new claims", "lock acquire"},
		{"with -n, the store may have forgotten who has the lock, and waits for the holders to come back", "lock acquire"},
	}},
	{
		cli.ExitNotPermitted, "",
		[]exitMeaning{
			{
				"the store, NATS or the daemon refuses us; check the credentials and the permissions",
				daemonVerbs + " serve demo events",
			},
		},
	},
	{cli.ExitConfig, "", []exitMeaning{{"the configuration is wrong", "serve doctor config"}}},
	{cli.ExitLost, "", []exitMeaning{
		{"the lock was lost while the command ran (--lost-exit-code changes that one)", "lock attach"},
		{"the lock was lost before the claim could be printed", "acquire"},
		{"the claim has ended", "attach release renew"},
		{"the lock is not held with this token", "check break"},
	}},
	{cli.ExitNotExecutable, "", []exitMeaning{{"the command cannot be executed", "lock attach"}}},
	{cli.ExitNotFound, "", []exitMeaning{{"the command was not found", "lock attach"}}},
	{
		cli.ExitSignal, "+S",
		[]exitMeaning{
			{"the command was ended by signal S", "lock attach"},
			{"signal S ended the wait", "lock acquire attach"},
		},
	},
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
