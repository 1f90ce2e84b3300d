package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
)

// A command that is worth trying is about the same log: it repeats where that is, however the command line is wrong.
func TestSuggestionsAreAboutTheSameLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "my log.jsonl")
	if err := os.WriteFile(path, []byte(logtest.Overlapping(t, logtest.Begun)), 0o600); err != nil {
		t.Fatal(err)
	}
	file := []string{"--file", path}
	quoted := " --file '" + path + "'"
	dir, url := []string{"--dir", "a log"}, []string{"--nats", "nats://hub:4222", "--nats-stream", "ALL"}
	socket := []string{"--socket", "/run/a.sock"}
	const inNATS = " --nats nats://hub:4222 --nats-stream ALL"
	for _, test := range []struct {
		verb  string
		place []string
		try   string
	}{
		{"tail --kind gone", file, "tail" + quoted + " --kind granted,lost"},
		{"tail --agent a.b", file, "tail" + quoted + " --agent web-1,web-2"},
		{"tail --follow --until 10m", url, "tail" + inNATS + " --until 10m"},
		{"tail --follow", dir, "tail --dir 'a log'"},
		{"tail --since 10m --all", socket, "tail --socket /run/a.sock --all"},
		{"tail --follow=false", socket, "tail --socket /run/a.sock --all --follow=false"},
		{"tail --format json", file, "tail" + quoted + " --format jsonl"},
		{"tail now", file, "tail" + quoted},
		{"audit --lock orders/>/x", file, "audit" + quoted + " --lock 'orders/>'"},
		{"audit --begin soon", dir, "audit --dir 'a log' --begin yesterday"},
		{"audit --tail 1s", socket, "audit --socket /run/a.sock --tail 1m"},
		{"audit --follow --format json", url, "audit" + inNATS + " --follow --format jsonl"},
		{"audit --follow", file, "audit" + quoted},
		{"audit --metrics 127.0.0.1:1", url, "audit" + inNATS + " --follow --metrics 127.0.0.1:1"},
		{"audit --follow --metrics here", url, "audit" + inNATS + " --follow --metrics "},
		{"audit --checkpoint no/such/file", dir, "audit --dir 'a log' --checkpoint audit.json"},
		{"audit --since 10m --until 20m", dir, "audit --dir 'a log' --since yesterday --until today"},
		{"history orders/42 --last 0", file, "history orders/42" + quoted + " --last 20"},
		{"history orders/>/x", file, "history 'orders/>'" + quoted},
		{"history", file, "history orders/42" + quoted},
		{"state orders/42 --at soon", url, "state orders/42" + inNATS + " --at 10m"},
		{"holders --at 10m --since 1h", socket, "holders --socket /run/a.sock --at 10m"},
		{"holders --lock a/>/b", dir, "holders --dir 'a log' --lock 'orders/>'"},
		{"top --limit 0", dir, "top --dir 'a log' --limit 10"},
		{"holders --lock billing/>", file, "holders" + quoted},
		{"top --lock billing/>", file, "top" + quoted},
		{"history orders/44", file, "holders" + quoted},
		{"history orders/42 --since 1ns", file, "history orders/42" + quoted},
		{"audit --lock billing/>", file, "holders" + quoted},
		{"audit", file, "state orders/42 --at 2026-11-21T14:03:01.000"},
		// The place comes behind a flag that is wrong.
		{"tail --knd lost", file, "tail" + quoted + " --kind "},
		{"top --limit many", []string{"--file=" + path}, "top" + quoted + " --limit 10"},
		{"tail --json", url, "tail" + inNATS + " --format jsonl"},
		{"tail --kind=", file, "tail" + quoted},
		// Another place is no second one.
		{"holders --dir x", file, "holders --dir x\n"},
		{"holders --nats-tls-first=maybe", url, "holders --nats-tls-first\n"},
		{
			"project --begin soon",
			[]string{"--kv", "my bucket", "--nats", "nats://hub:4222"},
			"project --nats nats://hub:4222 --kv 'my bucket' --begin 1h",
		},
		{"project", url, "project" + inNATS + " --kv holders"},
		{"project --kv a --kv-replicas 7", url, "project" + inNATS + " --kv a --kv-replicas 1"},
		{"project --kv a.b", url, "project" + inNATS + " --kv holders"},
		{"forward", url, "forward" + inNATS + " --hub nats://hub:4222"},
		{"forward --metrics here --hub nats://other:4222", url, "forward --hub nats://other:4222" + inNATS + " --metrics "},
		{"forward --hub other", url, "forward" + inNATS + " --hub nats://127.0.0.1:4222"},
		// A password is not repeated.
		{"top --limit 0", []string{"--nats", "nats://joe:secret@hub:4222"}, "top --nats URL --limit 10"},
	} {
		t.Run(test.verb, func(t *testing.T) {
			r := call(t, append(append([]string{"events"}, strings.Fields(test.verb)...), test.place...)...)
			_, try, _ := strings.Cut(r.stderr, "\nTry: lockagent events ")
			if !strings.HasPrefix(try, test.try) {
				t.Errorf("it says to try %q, want %q\n%s", try, test.try, r.stderr)
			}
		})
	}
}
