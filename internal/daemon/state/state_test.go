//go:build linux

package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
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
	if err := errors.Join(os.Mkdir(linked, 0o700), os.Symlink("/etc/hostname", filepath.Join(linked, lockName))); err != nil {
		t.Fatal(err)
	}
	refused(linked, "symbolic links")
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

func TestEpochsGrow(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	next := func(d *Dir, agent string, want uint64) {
		t.Helper()
		if got, err := d.NextEpoch(lockagent.AgentID(agent)); got != want || err != nil {
			t.Errorf("%s has epoch %d, %v, want %d", agent, got, err, want)
		}
	}
	d := open2(t, path)
	next(d, "a", 1)
	next(d, "a", 2)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open2(t, path)
	next(d, "a", 3)
	next(d, "b", 1)
	next(d, "b", 2)

	if err := os.WriteFile(filepath.Join(path, epochName), []byte(`{"agent":"b","ep`), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := d.NextEpoch("b"); n != 0 || err == nil || !strings.Contains(err.Error(), "epoch is damaged") {
		t.Errorf("got %d, %v", n, err)
	}
}

// The leases of an agent whose journal is missing are known, and those of the agents before it.
func TestLeasesOutlastTheJournal(t *testing.T) {
	d := open2(t, t.TempDir())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	next := func(agent lockagent.AgentID) {
		t.Helper()
		_, err := d.NextEpoch(agent)
		must(err)
	}
	left := func(journal, lost lockagent.AgentID, least, most time.Duration) {
		t.Helper()
		l, err := d.Leases(journal)
		if err != nil || l.Lost != lost || l.Left < least || l.Left > most {
			t.Errorf("%+v, %v; want %q, and between %v and %v", l, err, lost, least, most)
		}
	}
	left("", "", 0, 0) // the first daemon
	next("a")
	left("", "a", 0, 0) // it has given nothing
	must(d.Give(time.Hour))
	must(d.Give(time.Minute))
	left("a", "", 0, 0)
	left("", "a", time.Hour, time.Hour)
	left("restored", "", time.Hour, time.Hour)

	next("b")
	next("b")
	left("b", "", 59*time.Minute, time.Hour) // as when it is killed before that time is over
	must(d.Give(time.Minute))
	left("b", "", 59*time.Minute, time.Hour)
	left("", "b", 59*time.Minute, time.Hour)
	must(d.Give(2 * time.Hour))
	left("", "b", 2*time.Hour, 2*time.Hour)

	name := filepath.Join(d.Path(), epochName)
	text, err := os.ReadFile(name)
	must(err)
	must(os.WriteFile(name, []byte(strings.Replace(string(text), bootclock.ID(), "another", 1)), 0o600))
	left("", "b", 0, 0) // the programs have ended with the machine
	must(d.Give(time.Minute))
	left("", "b", time.Minute, time.Minute)

	must(os.WriteFile(name, []byte(`{"agent":`), 0o600))
	if _, err := d.Leases(""); err == nil || !strings.Contains(err.Error(), "epoch is damaged") {
		t.Errorf("of a damaged file: %v", err)
	}
	if err := d.Give(time.Hour); err == nil {
		t.Error("a lease was noted in a damaged file")
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
