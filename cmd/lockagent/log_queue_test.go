//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/internal/waittest"
)

// stuck is an output that nobody reads until it is closed.
type stuck struct {
	reads chan struct{}
	text  bytes.Buffer
}

func (s *stuck) Write(text []byte) (int, error) {
	<-s.reads
	return s.text.Write(text)
}

func TestALogThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{reads: make(chan struct{})}
		q := newLogQueue(out, slog.New(slog.NewTextHandler(out, nil)))
		for i := range logRoom + 10 {
			fmt.Fprintf(q, "line %d\n", i)
			synctest.Wait()
		}
		close(out.reads)
		q.close()
		text := out.text.String()
		if !strings.HasPrefix(text, "line 0\n") || !strings.Contains(text, fmt.Sprintf("\nline %d\n", logRoom)) ||
			strings.Contains(text, fmt.Sprintf("\nline %d\n", logRoom+1)) ||
			!strings.Contains(text, "left out, because nobody read it in time\" lines=9\n") {
			t.Errorf("it wrote %s", text)
		}

		out = &stuck{reads: make(chan struct{})}
		q = newLogQueue(out, slog.New(slog.DiscardHandler))
		fmt.Fprintln(q, "a line")
		began := time.Now()
		q.close()
		if took := time.Since(began); took != logEndTime {
			t.Errorf("the end took %v", took)
		}
		close(out.reads)
		synctest.Wait()
	})
}

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
		return call(t, "acquire", "--socket", path, "--ttl", "1h", "door").code == exitOK
	})
	call(t, "break", "--socket", path, "--yes", "door").expect(t, exitOK, nil, nil)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, "the end of the process", ended); err != nil {
		t.Error(err)
	}
}
