//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// TestMain is also the program, for the child processes of a test: with the directory, and for how long a turn lasts.
func TestMain(m *testing.M) {
	dir := os.Getenv("FILESTORE_TEST_DIR")
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	hold, err := time.ParseDuration(os.Getenv("FILESTORE_TEST_HOLD"))
	if err == nil {
		err = run(context.Background(), dir, turns, hold, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// turns of each child
const turns = 10

// child is a process that takes turns, and writes to out.
func child(t *testing.T, dir string, hold time.Duration, out io.Writer) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(waittest.Context(t), self)
	c.Env = append(os.Environ(), "FILESTORE_TEST_DIR="+dir, "FILESTORE_TEST_HOLD="+hold.String())
	c.Stdout, c.Stderr = out, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Two processes write to one file what they do. Whoever enters leaves before the next one enters, with a greater token.
func TestProcessesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	told, err := os.OpenFile(filepath.Join(dir, "told"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	locks := filepath.Join(dir, "locks")
	one, two := child(t, locks, time.Millisecond, told), child(t, locks, time.Millisecond, told)
	for _, c := range []*exec.Cmd{one, two} {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if _, err := told.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	entered, last, inside := make(map[int]int), uint64(0), 0
	lines := bufio.NewScanner(told)
	for lines.Scan() {
		var process int
		var token uint64
		if n, _ := fmt.Sscanf(lines.Text(), "process %d enters, with token %d", &process, &token); n == 2 {
			if inside != 0 || token <= last {
				t.Errorf("%s; %d is inside, and the last token was %d", lines.Text(), inside, last)
			}
			entered[process]++
			inside, last = process, token
		} else if n, _ := fmt.Sscanf(lines.Text(), "process %d leaves", &process); n != 1 || inside != process {
			t.Errorf("%s; %d is inside", lines.Text(), inside)
		} else {
			inside = 0
		}
	}
	if entered[one.Process.Pid] != turns || entered[two.Process.Pid] != turns || inside != 0 {
		t.Errorf("entered %v, and %d is inside", entered, inside)
	}
}

// The lock of a process that was killed is free when its lease is over.
func TestAProcessIsKilled(t *testing.T) {
	dir := t.TempDir()
	told, tells, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	c := child(t, dir, time.Hour, tells)
	_ = tells.Close()
	line, err := bufio.NewReader(told).ReadString('\n')
	if err != nil || !strings.Contains(line, "enters") {
		t.Fatalf("%q, %v", line, err)
	}
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	door := locks.Lock("door")
	if _, err := door.TryAcquire(t.Context()); !errors.Is(err, channelapi.ErrHeld) {
		t.Errorf("tried a lock that another process holds: %v", err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	g, err := door.Acquire(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	var token uint64
	if _, err := fmt.Sscanf(line[strings.Index(line, "token"):], "token %d", &token); err != nil ||
		uint64(g.Token()) <= token {
		t.Errorf("token %d after %q, %v", g.Token(), line, err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestContract(t *testing.T) {
	storetest.Run(t, []lockagent.LockKind{lockagent.PlainLock}, func(t *testing.T) *storetest.Harness {
		t.Parallel()
		dir := t.TempDir()
		open := func(t testing.TB) lockagent.Store {
			store, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			return store
		}
		return &storetest.Harness{
			Store: open(t),
			Open:  open,
			PlantValue: func(t testing.TB, name lockagent.Name) {
				if err := os.WriteFile(filepath.Join(dir, fileOf(name)), []byte("a letter"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			Reset: func(t testing.TB) {
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	})
}
