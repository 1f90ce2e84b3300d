package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A command is ended because no renewal has come, some time before the deadline. The event log has that reason,
// although the store was there again in time for a release.
func TestTheLogSaysWhyACommandLostItsLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	path := socketPath(t)
	d := serveProcess(t, path, nil, "--redis", server.URL(), "--lease", "10s")
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; exec cat")
	holder.stderr.await(t, "the command", says("it runs"))
	server.Pause()
	waittest.Receive(t, "the end of the process", holder.stderr.ended)
	server.Resume()
	if code := holder.ProcessState.ExitCode(); code != cli.ExitLost {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitLost, holder.stderr.String())
	}
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	dir := filepath.Join(path+".state", "events")
	call(t, "events", "history", "door", "--dir", dir).expect(t, cli.ExitOK, []string{"lost (deadline)"}, nil)
	call(t, "events", "audit", "--dir", dir).expect(t, cli.ExitOK, []string{"proven: "}, nil)
}

// A claim that nobody renews is lost to whoever has it, and the event log says so.
func TestTheLogSaysThatNobodyRenewedAClaim(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path)
	claim := call(t, "acquire", "--socket", path, "--ttl", "1ms", "door")
	claim.expect(t, cli.ExitOK, []string{"."}, nil)
	looks := &testDaemon{Daemon: client.New(path)}
	defer looks.Close()
	looks.until(t, "door", counts(0, 0))
	call(t, "release", "--socket", path, strings.TrimSpace(claim.stdout)).expect(t, cli.ExitLost, nil, nil)
	d.interrupt(t)
	dir := filepath.Join(path+".state", "events")
	call(t, "events", "history", "door", "--dir", dir).expect(t, cli.ExitOK, []string{"expired"}, nil)
	call(t, "events", "audit", "--dir", dir).expect(t, cli.ExitOK, []string{"proven: "}, nil)
}
