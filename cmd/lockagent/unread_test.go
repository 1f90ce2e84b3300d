package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	log, wrong := kept("log.jsonl", lossOf(t, time.Now().Add(-time.Hour))), kept("wrong.jsonl", overlapping(t, begun))
	for args, code := range map[string]int{
		"events tail --file " + log:                                exitOK,
		"events tail --format jsonl --file " + log:                 exitOK,
		"events history orders/42 --file " + log:                   exitOK,
		"events history orders/42 --format json --file " + log:     exitOK,
		"events history orders/42 --format jsonl --file " + log:    exitOK,
		"events top --file " + log:                                 exitOK,
		"events top --format json --file " + log:                   exitOK,
		"events top --format jsonl --file " + log:                  exitOK,
		"events state orders/42 --file " + log:                     exitOK,
		"events state orders/42 --format json --file " + log:       exitOK,
		"events holders --file " + log:                             exitOK,
		"events holders --at 30m --file " + log:                    exitOK,
		"events holders --format json --file " + log:               exitOK,
		"events audit --file " + wrong:                             exitViolated,
		"events audit --format json --file " + wrong:               exitViolated,
		"events audit --independent --file " + wrong:               exitViolated,
		"events audit --independent --format json --file " + wrong: exitViolated,
		"config default":  exitOK,
		"help recipes":    exitOK,
		"help lock":       exitOK,
		"man lock":        exitOK,
		"version":         exitOK,
		"completion bash": exitOK,
	} {
		t.Run(args, func(t *testing.T) { unreadRun(t, code, strings.Fields(args)...) })
	}
}

// An audit that goes on ends when nobody can be told of the verdict.
func TestNobodyReadsAnAuditThatGoesOn(t *testing.T) {
	t.Parallel()
	url := published(t, overlapping(t, begun))
	for _, format := range []string{"text", "jsonl"} {
		unreadRun(t, exitViolated, "events", "audit", "--follow", "--format", format, "--nats", url)
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
