package main

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

// What a watch since a time shows is what the log has: it begins in the past, goes on while locks are taken, and has
// each event once. A log that is younger is shown from its beginning on.
func TestWatchSince(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--drain-timeout", "1ms")
	take := func(n int) {
		for range n {
			apart(t, "lock", "--socket", path, "orders/42", "true").expect(t, cli.ExitOK, nil, nil)
		}
	}
	const rounds = 10
	take(rounds)

	args := []string{"watch", "--socket", path, "--since", "10m"}
	w := start(t, append(args, "--format", "jsonl", "orders/*")...)
	take(rounds)
	people := start(t, append(args, "orders/*")...)
	claims(t, path, "orders/last")
	for _, r := range []*running{w, people} {
		r.await(t, "the last event", says("orders/last"))
		if got := r.interrupt(t); got.code != cli.ExitOK || got.stderr != "" {
			t.Errorf("a watch ended with %d: %s", got.code, got.stderr)
		}
	}
	d.interrupt(t)

	log := call(t, "events", "tail", "--dir", path+".state/events", "--format", "jsonl", "--lock", "orders/>")
	log.expect(t, cli.ExitOK, nil, nil)
	all := log.stdout[:strings.Index(log.stdout, "orders/last")]
	until := func(text string) string { return text[:strings.Index(text, "orders/last")] }
	got := until(w.String())
	if all != got || strings.Count(got, `"subject":"orders/42"`) < 2*rounds {
		t.Errorf("the watch shows\n%s\nand the log has\n%s", got, all)
	}
	if lines := strings.Count(until(people.String()), "\n"); lines != strings.Count(got, "\n") ||
		!strings.Contains(people.String(), "  orders/42  token ") {
		t.Errorf("for people there are %d lines:\n%s", lines, people.String())
	}
}

func TestWatchSinceWhat(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	call(t, "watch", "--socket", d.Path, "--since", "1m").expect(
		t, cli.ExitUnavailable, nil, []string{"has no event log", "Try: lockagent doctor"},
	)
	call(t, "watch", "--socket", d.Path, "--since", "0s").expect(t, cli.ExitUsage, nil, []string{
		"is not before now", "Try: lockagent watch --socket " + d.Path + " --since 10m\n",
	})
	call(t, "watch", "--socket", d.Path, "--since", "9999-01-01").expect(t, cli.ExitUsage, nil, []string{
		"is in the future", "Try: lockagent watch --socket " + d.Path + " --since 10m\n",
	})
	call(t, "watch", "--socket", d.Path, "--since", "soon").expect(
		t, cli.ExitUsage, nil, []string{`--since: "soon" is no time such as 14:03:07`},
	)
	call(t, "watch", "--socket", d.Path, "--since", "1m", "--format", "json").expect(
		t, cli.ExitUsage, nil, []string{"a watch has no end"},
	)
	call(t, "watch", "--socket", d.Path+"none", "--since", "1m").expect(t, cli.ExitNoDaemon, nil, nil)
}
