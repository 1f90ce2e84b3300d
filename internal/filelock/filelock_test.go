package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/filelock"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	if err := filelock.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(second); !errors.Is(err, filelock.ErrLocked) {
		t.Fatalf("a second lock gets %v", err)
	}
	// This is what a child process has between fork and exec.
	inherited, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := filelock.Close(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(second); err != nil {
		t.Errorf("with the first one closed, a second lock gets %v", err)
	}
	if err := filelock.Close(second); err != nil {
		t.Error(err)
	}
	if err := filelock.Lock(second); err == nil {
		t.Error("a closed file was locked")
	}
}
