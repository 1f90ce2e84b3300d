//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// testDaemon is a daemon in this process, with its locks in memory.
type testDaemon struct {
	*client.Daemon
	store *memstore.Store
}

// newTestDaemon starts a daemon, which ends with cleanup.
func newTestDaemon(dir string, cleanup func(func()), changes ...func(*daemon.Config)) (*testDaemon, error) {
	d := &testDaemon{store: memstore.New()}
	path := filepath.Join(dir, "a.sock")
	listener, err := socket.Listen(socket.Config{Path: path})
	if err != nil {
		return nil, err
	}
	cfg := daemon.Config{Listener: listener, Store: d.store, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&cfg)
	}
	served, err := daemon.Start(cfg)
	if err != nil {
		return nil, err
	}
	d.Daemon = client.New(path)
	cleanup(func() {
		d.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = served.Shutdown(ctx) // what a killed test left may not be released
		_ = d.store.Close()
	})
	return d, nil
}

// shortDir is a directory for sockets, whose paths must be short.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "lac")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func runDaemon(t *testing.T, changes ...func(*daemon.Config)) *testDaemon {
	t.Helper()
	d, err := newTestDaemon(shortDir(t), t.Cleanup, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// until waits until a lock is as it should be.
func (d *testDaemon) until(t *testing.T, name string, ok func(*lockagentv1.Lock) bool) {
	t.Helper()
	if err := d.await(waittest.Context(t), name, ok); err != nil {
		t.Fatal(err)
	}
}

func (d *testDaemon) await(ctx context.Context, name string, ok func(*lockagentv1.Lock) bool) error {
	events, err := d.Look.Watch(ctx, &lockagentv1.WatchRequest{})
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	state := &lockagentv1.Lock{Name: name}
	for live := false; ; {
		if live && ok(state) {
			return nil
		}
		if !events.Receive() {
			return fmt.Errorf("%s: the last that was seen is %v: %w", name, state, events.Err())
		}
		if l := events.Msg().GetLock(); l.GetName() == name {
			state = l
		}
		live = live || events.Msg().GetLive() != nil
	}
}

// newBin is a directory with the program.
func newBin(t *testing.T) string {
	t.Helper()
	return linked(t, program(t))
}

func linked(t *testing.T, program string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "lockagent")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// TestScripts runs what shells do with the daemon. Each script has a daemon of its own, and these commands:
//
//	until NAME HELD WAITING   waits until so many hold the lock and wait for it
//	soon SCRIPT               runs a shell script that has to succeed, such as a loop
//	hear FIFO [FILE]          waits for a line in a fifo, and writes it to the file
//	gone FILE                 waits until the process is gone whose number is in the file
//	signal NAME FILE          sends a signal to the process whose number is in the file
//	break NAME                breaks a lock
//	outage [on|off]           takes the store away
//	code N COMMAND            runs a command that has to end with the exit code N
func TestScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is the program with the race detector. It takes several times as long to start.
	plain, racy := linked(t, program(t)), linked(t, self)
	meet := []string{"lost", "signals", "slots"} // the scripts in which several goroutines of a wrapper meet
	for _, script := range meet {
		if _, err := os.Stat(filepath.Join("testdata/daemon", script+".txtar")); err != nil {
			t.Error(err)
		}
	}
	type key struct{}
	of := func(ts *testscript.TestScript) *testDaemon { return ts.Value(key{}).(*testDaemon) }
	testscript.Run(t, testscript.Params{
		Dir: "testdata/daemon",
		Setup: func(env *testscript.Env) error {
			dir, err := os.MkdirTemp("", "lac")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(dir) })
			d, err := newTestDaemon(dir, env.Defer)
			if err != nil {
				return err
			}
			env.Values[key{}] = d
			bin := plain
			if slices.Contains(meet, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")) {
				bin = racy
			}
			env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
			env.Setenv("LOCKAGENT_SOCKET", d.Path)
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv(asProgram, "1")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv(ofScript, dir)
			env.Defer(func() {
				if err := killAll(ofScript + "=" + dir); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"until": func(ts *testscript.TestScript, _ bool, args []string) {
				held, _ := strconv.Atoi(args[1])
				waiting, _ := strconv.Atoi(args[2])
				ts.Check(of(ts).await(waittest.Context(t), args[0], func(l *lockagentv1.Lock) bool {
					return int(l.GetHeld()) == held && int(l.GetWaiting()) == waiting
				}))
			},
			"break": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := of(ts).Operate.Break(context.Background(), &lockagentv1.BreakRequest{
					Name: args[0], Kind: lockagentv1.Kind_KIND_READ_WRITE, Reason: "test",
				})
				ts.Check(err)
			},
			"outage": func(ts *testscript.TestScript, _ bool, args []string) {
				err := lockagent.ErrStoreUnavailable
				if args[0] == "off" {
					err = nil
				}
				of(ts).store.SetOutage(err)
			},
			"signal": func(ts *testscript.TestScript, _ bool, args []string) {
				sig := unix.SignalNum("SIG" + args[0])
				ts.Check(unix.Kill(pidIn(ts, args[1]), sig))
			},
			"soon": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Exec("sh", "-c", args[0]))
			},
			"hear": func(ts *testscript.TestScript, _ bool, args []string) {
				line, err := hear(waittest.Context(t), ts.MkAbs(args[0]))
				ts.Check(err)
				if len(args) > 1 {
					ts.Check(os.WriteFile(ts.MkAbs(args[1]), line, 0o600))
				}
			},
			"gone": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(awaitEnd(waittest.Context(t), pidIn(ts, args[0])))
			},
			"code": func(ts *testscript.TestScript, _ bool, args []string) {
				const script = `want=$1; shift; "$@"; got=$?; test $got = $want || { echo "the exit code is $got" >&2; exit 1; }`
				ts.Check(ts.Exec("sh", append([]string{"-c", script, "sh"}, args...)...))
			},
		},
	})
}

// hear waits for a line in a fifo. Unlike cat it does not wait for ever for a writer that has failed.
func hear(ctx context.Context, fifo string) ([]byte, error) {
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	end, _ := ctx.Deadline() // the zero time is none
	if err := f.SetReadDeadline(end); err != nil {
		return nil, err
	}
	return bufio.NewReader(f).ReadBytes('\n')
}

// ofScript is a variable of the environment that tells the processes of a script from others.
const ofScript = "LOCKAGENT_TEST_SCRIPT"

// killAll kills all processes with a setting in their environment, and returns when they are gone. A script that fails
// leaves some: they have its outputs, so the script would wait for them.
func killAll(setting string) error {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), setting) {
			continue // it has ended, or is none of ours
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err == nil {
			errs = append(errs, awaitEnd(context.Background(), pid))
		}
	}
	return errors.Join(errs...)
}

// pidIn is the number of a process in a file, or the number itself.
func pidIn(ts *testscript.TestScript, file string) int {
	text := ts.ReadFile(file)
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	ts.Check(err)
	return pid
}

// awaitEnd waits until a process has ended.
func awaitEnd(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // it has ended
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		bound := -1 // which is none
		if end, ok := ctx.Deadline(); ok {
			bound = max(0, int(time.Until(end).Milliseconds()))
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, bound)
		switch {
		case err == unix.EINTR:
		case n == 0:
			return fmt.Errorf("process %d lives", pid)
		default:
			return err
		}
	}
}
