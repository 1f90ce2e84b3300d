package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A verb that shows something ends in order when nobody reads it, as behind "| head -1". That of an audit still tells
// the verdict by its exit code.
func TestNobodyReadsOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := func(name, log string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := kept("log.jsonl", logtest.LossOf(t, time.Now().Add(-time.Hour)))
	wrong := kept("wrong.jsonl", logtest.Overlapping(t, logtest.Begun))
	for args, code := range map[string]int{
		"events tail --file " + log:                                cli.ExitOK,
		"events tail --format jsonl --file " + log:                 cli.ExitOK,
		"events history orders/42 --file " + log:                   cli.ExitOK,
		"events history orders/42 --format json --file " + log:     cli.ExitOK,
		"events history orders/42 --format jsonl --file " + log:    cli.ExitOK,
		"events top --file " + log:                                 cli.ExitOK,
		"events top --format json --file " + log:                   cli.ExitOK,
		"events top --format jsonl --file " + log:                  cli.ExitOK,
		"events state orders/42 --file " + log:                     cli.ExitOK,
		"events state orders/42 --format json --file " + log:       cli.ExitOK,
		"events holders --file " + log:                             cli.ExitOK,
		"events holders --at 30m --file " + log:                    cli.ExitOK,
		"events holders --format json --file " + log:               cli.ExitOK,
		"events audit --file " + wrong:                             cli.ExitViolated,
		"events audit --format json --file " + wrong:               cli.ExitViolated,
		"events audit --independent --file " + wrong:               cli.ExitViolated,
		"events audit --independent --format json --file " + wrong: cli.ExitViolated,
		"config default":  cli.ExitOK,
		"help recipes":    cli.ExitOK,
		"help lock":       cli.ExitOK,
		"man lock":        cli.ExitOK,
		"version":         cli.ExitOK,
		"completion bash": cli.ExitOK,
	} {
		t.Run(args, func(t *testing.T) { unreadRun(t, code, strings.Fields(args)...) })
	}
}

// An audit that goes on ends when nobody can be told of the verdict.
func TestNobodyReadsAnAuditThatGoesOn(t *testing.T) {
	t.Parallel()
	url := published(t, logtest.Overlapping(t, logtest.Begun))
	for _, format := range []string{"text", "jsonl"} {
		unreadRun(t, cli.ExitViolated, "events", "audit", "--follow", "--format", format, "--nats", url)
	}
}

// unreadRun runs the program with a standard output that nobody reads.
func unreadRun(t *testing.T, code int, args ...string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	var stderr bytes.Buffer
	ctx := waittest.Context(t)
	got := run(ctx, args, strings.NewReader(""), write, &stderr)
	if got != code || ctx.Err() != nil || strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("exit code %d, want %d\n%s", got, code, &stderr)
	}
}
