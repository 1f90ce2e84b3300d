package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// kept runs a demo that leaves its event log in a directory.
func kept(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "the log")
	r := call(t, "demo", "--keep", dir, "--duration", "200ms", "--locks", "2")
	r.expect(t, cli.ExitOK, []string{"in an embedded NATS server, kept in " + dir}, nil)
	if want := "\nNext: lockagent events audit --dir '" + dir + "'\n"; !strings.HasSuffix(r.stdout, want) {
		t.Errorf("the last line is not %q:\n%s", want, r.stdout)
	}
	return dir
}

func TestDemoKeepsItsLog(t *testing.T) {
	t.Parallel()
	dir := kept(t)
	call(t, "events", "audit", "--dir", dir).expect(t, cli.ExitOK, []string{"proven: ", " of 3 agents on 2 locks: "}, nil)
	r := call(t, "events", "tail", "--dir", dir, "--all", "--follow=false")
	r.expect(t, cli.ExitOK, nil, nil)
	if n := strings.Count(r.stdout, "agentstopped"); n != 3 {
		t.Errorf("%d agents have stopped, want 3", n)
	}
	where := fmt.Sprintf("pid %d", os.Getpid()) // which the first event of an agent tells
	const lock = "lockagent/demo/1"
	call(t, "events", "history", lock, "--dir", dir).expect(
		t, cli.ExitOK, []string{lock + ": ", "released", "from the store", where}, nil,
	)
	call(t, "events", "state", lock, "--dir", dir, "--at", "-0s").expect(
		t, cli.ExitOK, []string{"nobody held it", "before", where}, nil,
	)
	call(t, "events", "holders", "--dir", dir).expect(t, cli.ExitOK, []string{"nobody holds a lock"}, nil)
	call(t, "events", "history", "other", "--dir", dir).expect(t, cli.ExitEmpty, nil, []string{`has nothing of "other"`})
	// The log goes on.
	call(t, "demo", "--keep", dir, "--duration", "100ms", "--agents", "2", "--format", "json").expect(
		t, cli.ExitOK, nil, nil,
	)
	call(t, "events", "audit", "--dir", dir).expect(t, cli.ExitOK, []string{"proven: ", " of 5 agents on "}, nil)
}

func TestLogDirectory(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	file := filepath.Join(other, "notes.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, empty := t.TempDir(), t.TempDir()
	natstest.Start(t, natsserver.Config{Dir: busy})
	idle := t.TempDir()
	if err := natstest.Start(t, natsserver.Config{Dir: idle}).Stop(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, dir string
		code      int
		says      string
	}{
		{"events audit --dir", filepath.Join(other, "missing"), cli.ExitUsage, "there is no directory"},
		{"events audit --dir", file, cli.ExitUsage, "is no directory"},
		{"events audit --dir", other, cli.ExitEmpty, "there is no event log in " + other},
		{"events audit --dir", idle, cli.ExitEmpty, "there is no event log in " + idle},
		{"events audit --dir", busy, cli.ExitUnavailable, "is in use by another process"},
		{"demo --keep", busy, cli.ExitUnavailable, "is in use by another process"},
		{"demo --keep", other, cli.ExitUsage, "has other files, and no event log"},
		{"demo --keep", file, cli.ExitUsage, "cannot be kept in"},
		{"demo --duration 1s --keep", empty, cli.ExitOK, ""},
	} {
		r := call(t, append(strings.Fields(test.args), test.dir)...)
		r.expect(t, test.code, nil, []string{test.says})
	}
	if files, err := os.ReadDir(other); err != nil || len(files) != 1 {
		t.Errorf("the directory that has other files has %d now, %v", len(files), err)
	}
}
