//go:build linux

package main

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/waittest"
)

// A daemon whose log nobody reads serves its clients, and ends.
func TestADaemonWhoseLogNobodyReads(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	fd := int(write.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err = nil; !errors.Is(err, syscall.EAGAIN); {
		_, err = syscall.Write(fd, make([]byte, 1<<10))
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	cmd := ourselves(t, "serve", "--socket", path, "--state-dir", path+".state", "--operator-socket", path+".op")
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waittest.Until(t, "it serves", func() bool {
		return call(t, "acquire", "--socket", path, "--ttl", "1h", "door").code == cli.ExitOK
	})
	call(t, "break", "--socket", path, "--yes", "door").expect(t, cli.ExitOK, nil, nil)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, "the end of the process", ended); err != nil {
		t.Error(err)
	}
}
