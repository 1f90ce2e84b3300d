//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A command whose wrapper was killed keeps its lock until it ends, whenever daemons are started anew.
func TestACommandKeepsItsLockWithoutItsWrapper(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	restart := func() {
		t.Helper()
		d.signal(t, syscall.SIGKILL)
		waittest.Receive(t, "the end of the process", d.stderr.ended)
		d = serveProcess(t, path, nil)
	}
	for _, before := range []bool{true, false} { // the wrapper is killed before the first restart, or after it
		fifo := fmt.Sprint(path, ".", before)
		end := blocking(t, fifo)
		w := lockProcess(t, path, "--also", "desk", "door", "--", "sh", "-c", "exec cat <"+fifo+" >/dev/null 2>&1")
		pids := make(map[int32]bool)
		bound := func(l *lockagentv1.Lock) bool {
			for _, h := range l.GetHolders() {
				if len(h.GetPids()) == 1 && h.GetState() == lockagentv1.State_STATE_HELD {
					pids[h.GetPids()[0]] = true
					return true
				}
			}
			return false
		}
		for _, name := range []string{"door", "desk"} {
			looks.until(t, name, bound)
		}
		if len(pids) != 1 || pids[int32(w.Process.Pid)] {
			t.Errorf("the wrapper is %d, and the daemon knows %v", w.Process.Pid, pids)
		}
		if !before {
			restart()
			looks.until(t, "door", bound) // it has come back
		}
		w.signal(t, syscall.SIGKILL)
		waittest.Receive(t, "the end of the process", w.stderr.ended)
		for range 2 {
			restart()
			for _, name := range []string{"door", "desk"} {
				apart(t, "lock", "--socket", path, "-n", name, "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
			}
		}
		_ = end.Close() // ends the command
		for _, name := range []string{"door", "desk"} {
			apart(t, "lock", "--socket", path, name, "true").expect(t, cli.ExitOK, nil, nil)
		}
	}
}

// What a command has left in the background keeps the lock, also when the daemon is started anew.
func TestWhatIsLeftBehindKeepsItsLockOverARestart(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	fifo := path + ".fifo"
	end := blocking(t, fifo)
	d := serveProcess(t, path, nil)
	left := "cat <" + fifo + " >/dev/null 2>&1 &"
	apart(t, "lock", "--socket", path, "door", "-c", left).expect(t, cli.ExitOK, nil, nil)
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	serveProcess(t, path, nil)
	apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
	_ = end.Close()
	apart(t, "lock", "--socket", path, "door", "true").expect(t, cli.ExitOK, nil, nil)
}

// What a command leaves in the background has inherited the connection to the daemon before. So the wrapper keeps the
// lock for it.
func TestWhatIsLeftBehindAfterARestart(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	fifo := path + ".fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	d := serveProcess(t, path, nil)
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	left := func() *wrapper {
		w := lockProcess(
			t, path, "door", "--", "sh", "-c", "cat <"+fifo+" >/dev/null 2>&1 & echo it runs >&2; read line; exit 5",
		)
		w.stderr.await(t, "the command", says("it runs"))
		d.signal(t, syscall.SIGKILL)
		waittest.Receive(t, "the end of the process", d.stderr.ended)
		d = serveProcess(t, path, nil)
		looks.until(t, "door", func(l *lockagentv1.Lock) bool {
			return l.GetHeld() == 1 && l.GetHolders()[0].GetState() == lockagentv1.State_STATE_HELD
		})
		_ = w.in.Close()
		w.stderr.await(t, "that it waits", says("waiting for what the command has left in the background"))
		apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
		return w
	}
	ends := func(w *wrapper, code int) {
		t.Helper()
		waittest.Receive(t, "the end of the process", w.stderr.ended)
		if got := w.ProcessState.ExitCode(); got != code {
			t.Errorf("exit code %d, want %d: %s", got, code, w.stderr.String())
		}
		apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitOK, nil, nil)
	}
	w := left()
	end, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	ends(w, 5)

	// A loss ends it as it ends the command.
	w = left()
	call(t, "break", "--socket", path, "--yes", "door").expect(t, cli.ExitOK, nil, nil)
	ends(w, cli.ExitLost)
}

// Whoever asks for a lock between two daemons has the answer of the next one.
func TestRequestsBetweenDaemons(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = left.Close()
	var asking []*wrapper
	for _, flags := range [][]string{{"-w", "1h", "-s"}, {"-s"}, {"--slots", "2"}} {
		asking = append(
			asking, lockProcess(t, path, append(flags, "room-"+flags[len(flags)-1], "--", "echo", "turn")...),
		)
	}
	for _, w := range asking[:2] {
		w.stderr.await(t, "what it waits for", says("no daemon listens on "+path+"; waiting for it"))
	}
	d := serveProcess(t, path, nil)
	for _, w := range asking {
		w.ended(t, "turn\n")
	}
	// A daemon that leaves its claims to the next one leaves its socket.
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	late := lockProcess(t, path, "door", "--", "echo", "turn")
	late.stderr.await(t, "what it waits for", says("no daemon listens on "+path+"; waiting for it"))
	d = serveProcess(t, path, nil, "--drain-then", "release")
	late.ended(t, "turn\n")
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a daemon that is the last one has left its socket: %v", err)
	}
}

// blocking makes a file that nobody reads to its end before the test closes it.
func blocking(t *testing.T, file string) (end io.Closer) {
	t.Helper()
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it may be closed already
	return f
}
