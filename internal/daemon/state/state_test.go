//go:build linux

package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open2(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestADirectoryIsOfOneDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d := open2(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
	if d.Path() != path || d.Journal() != path+"/journal" || d.Events() != path+"/events" {
		t.Errorf("the paths are %s, %s and %s", d.Path(), d.Journal(), d.Events())
	}
	_, err := Open(path)
	if used, ok := errors.AsType[*InUseError](err); !ok || used.PID != os.Getpid() || used.Path != path {
		t.Fatalf("a second one got %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open2(t, path)
}

func TestADirectoryThatCannotBeUsed(t *testing.T) {
	refused := func(path, says string) {
		t.Helper()
		d, err := Open(path)
		if bad, ok := errors.AsType[*Error](err); !ok || bad.Path != path || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", path, err, says)
		}
		if err == nil {
			_ = d.Close()
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(file, "name another path")
	refused(filepath.Join(file, "below"), "name another path")

	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o770)); err != nil {
		t.Fatal(err)
	}
	refused(open, "its mode 0770 lets others write in it; run: chmod 700 "+open)

	if os.Getuid() == 0 {
		foreign := filepath.Join(dir, "foreign")
		if err := errors.Join(os.Mkdir(foreign, 0o700), os.Chown(foreign, 12345, -1)); err != nil {
			t.Fatal(err)
		}
		refused(foreign, "it belongs to user 12345, and this daemon is user 0")
	} else {
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		refused(closed, "write in "+closed)
	}

	linked := filepath.Join(dir, "linked")
	if err := errors.Join(
		os.Mkdir(linked, 0o700), os.Symlink("/etc/hostname", filepath.Join(linked, lockName)),
	); err != nil {
		t.Fatal(err)
	}
	refused(linked, "symbolic links")
}

// A disk that takes nothing is an error, unless there is a journal: what is in it goes on. The number of a process
// cannot be written into a fifo either.
func TestADirectoryThatTakesNothing(t *testing.T) {
	path := t.TempDir()
	if err := errors.Join(os.Chmod(path, 0o700), syscall.Mkfifo(filepath.Join(path, lockName), 0o600)); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(path); err == nil {
		t.Errorf("without a journal: %v", d.Close())
	}
	if err := os.WriteFile(filepath.Join(path, journalName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open2(t, path)
}

func TestHints(t *testing.T) {
	for err, says := range map[error]string{
		unix.ENOSPC: "no space left on device; make room there", unix.EDQUOT: "make room there",
		unix.EROFS: "read-only file system; let user", unix.EACCES: "write in /p, or name another directory",
	} {
		if got := hint("/p", err); !errors.Is(got, err) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestWhatTheEventLogHad(t *testing.T) {
	d := open2(t, t.TempDir())
	if s, err := d.Seen(); s != (Seen{}) || err != nil {
		t.Errorf("at the beginning: %v, %v", s, err)
	}
	want := Seen{"LOCKAGENT of now", 7}
	if err := d.Saw(want); err != nil {
		t.Fatal(err)
	}
	if s, err := d.Seen(); s != want || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), seenName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := d.Seen(); s != (Seen{}) || err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("of a damaged file: %v, %v", s, err)
	}

	if err := errors.Join(os.Mkdir(d.Events(), 0o700), os.WriteFile(d.Events()+"/x", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	aside, err := d.SetEventsAside(time.Unix(0, 0))
	if err != nil || aside != d.Events()+".damaged-19700101T000000Z" {
		t.Errorf("got %s, %v", aside, err)
	}
	if _, err := os.Stat(aside + "/x"); err != nil {
		t.Error(err)
	}
}
