package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/waittest"
)

// Each start of a daemon has the next epoch. A daemon whose event log cannot be used goes on with what is held, and an
// audit misses its events.
func TestStartsAreCounted(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	log, aside := path+".state/events", path+".aside"
	d := serveProcess(t, path, nil)
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; cat")
	holder.stderr.await(t, "the command", says("it runs"))
	awaitLog(t, path)
	kill := func() {
		d.signal(t, syscall.SIGKILL)
		waittest.Receive(t, "the end of the process", d.stderr.ended)
	}
	kill()
	if err := errors.Join(os.Rename(log, aside), os.WriteFile(log, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d = serveProcess(t, path, nil, "--web", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	d.stderr.await(
		t, "that it goes on without a log", says("the event log cannot be used, and this daemon records no event"),
	)
	apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
	apart(t, "lock", "--socket", path, "-n", "desk", "true").expect(t, cli.ExitOK, nil, nil)
	call(t, "watch", "--socket", path, "--since", "1m").expect(t, cli.ExitUnavailable, nil, []string{"has no event log"})
	kill()
	if err := errors.Join(os.Remove(log), os.Rename(aside, log)); err != nil {
		t.Fatal(err)
	}
	d = serveProcess(t, path, nil)
	awaitLog(t, path)
	_ = holder.in.Close()
	holder.ended(t, "")
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)

	tail := call(t, "events", "tail", "--dir", log, "--all", "--follow=false", "--format", "jsonl")
	var epochs []string
	for _, m := range regexp.MustCompile(`"id":"(\d+):`).FindAllStringSubmatch(tail.stdout, -1) {
		epochs = append(epochs, m[1])
	}
	if all := slices.Compact(epochs); strings.Join(all, " ") != "1 3" {
		t.Errorf("the epochs are %v", all)
	}
	call(t, "events", "audit", "--dir", log).expect(t, cli.ExitIncomplete, []string{"epochs 2 to 2"}, nil)
}
