//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// stop stops a process, and returns when none of its threads runs.
func (p *process) stop(t *testing.T) {
	t.Helper()
	machinetest.Stop(t, p.Process)
}

// wrapper is lockagent lock in a process of its own.
type wrapper struct {
	*process
	in  io.Closer
	out bytes.Buffer // read it when the process has ended
}

func lockProcess(t *testing.T, path string, args ...string) *wrapper {
	t.Helper()
	return wrapping(t, exec.Command(program(t), append([]string{"lock", "--socket", path}, args...)...))
}

func wrapping(t *testing.T, cmd *exec.Cmd) *wrapper {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &wrapper{in: in}
	cmd.Stdout = &w.out
	w.process = launch(t, cmd)
	t.Cleanup(func() { _ = w.in.Close() }) // a command that outlives the wrapper has its output, and ends
	return w
}

// ended waits until the process has ended well, and has written a text.
func (w *wrapper) ended(t *testing.T, wrote string) {
	t.Helper()
	_ = w.in.Close()
	waittest.Receive(t, "the end of the process", w.stderr.ended)
	if w.end != nil || w.out.String() != wrote {
		t.Errorf("%v; it wrote %q, want %q: %s", w.end, w.out.String(), wrote, w.stderr.String())
	}
}

// A command runs under its lock, and another one waits for it, while the daemon is killed, or asked to end, and started
// again.
func TestLockOverARestart(t *testing.T) {
	t.Parallel()
	for what, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "asked to end": syscall.SIGTERM} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			d := serveProcess(t, path, nil, "--drain-timeout", "1ms")
			looks := &testDaemon{Daemon: client.New(path)}
			t.Cleanup(looks.Close)
			state := func(held lockagentv1.State) func(*lockagentv1.Lock) bool {
				return func(l *lockagentv1.Lock) bool {
					return l.GetHeld() == 1 && l.GetWaiting() == 1 && l.GetHolders()[0].GetState() == held
				}
			}
			until := func(ok func(*lockagentv1.Lock) bool) *lockagentv1.Lock {
				t.Helper()
				looks.until(t, "door", ok)
				r, err := looks.Look.Get(t.Context(), &lockagentv1.GetRequest{Kind: readWrite, Name: "door"})
				if err != nil {
					t.Fatal(err)
				}
				return r.GetLock()
			}
			holder := lockProcess(t, path, "door", "--", "sh", "-c", "read line; echo $LOCKAGENT_TOKEN")
			until(func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
			waiter := lockProcess(t, path, "door", "--", "echo", "turn")
			before := until(state(lockagentv1.State_STATE_HELD))
			detached := call(t, "acquire", "--socket", path, "--ttl", "1h", "desk")
			detached.expect(t, cli.ExitOK, nil, nil)

			d.signal(t, sig)
			waittest.Receive(t, "the end of the process", d.stderr.ended)
			d = serveProcess(t, path, nil, "--drain-timeout", "1ms")
			after := until(state(lockagentv1.State_STATE_HELD)) // both have come back
			if before.GetHolders()[0].GetToken() != after.GetHolders()[0].GetToken() ||
				before.GetWaiters()[0].GetClaim() != after.GetWaiters()[0].GetClaim() {
				t.Errorf("%v, and before %v", after, before)
			}
			call(t, "release", "--socket", path, strings.TrimSpace(detached.stdout)).expect(t, cli.ExitOK, nil, nil)
			holder.ended(t, fmt.Sprintln(before.GetHolders()[0].GetToken()))
			waiter.ended(t, "turn\n")
			if text := d.stderr.String(); strings.Contains(text, "nats: ") {
				t.Errorf("the log of the next daemon has what nobody would act on:\n%s", text)
			}
		})
	}
}

// A daemon that has started anew detaches a claim that waited before.
func TestAcquireOverARestart(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	restart := func() {
		d.signal(t, syscall.SIGKILL)
		waittest.Receive(t, "the end of the process", d.stderr.ended)
		d = serveProcess(t, path, nil)
	}
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; cat")
	holder.stderr.await(t, "the command", says("it runs"))
	waiter := wrapping(t, ourselves(t, "acquire", "--socket", path, "--ttl", "1h", "door"))
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	waits := func(l *lockagentv1.Lock) bool {
		return l.GetHeld() == 1 && l.GetHolders()[0].GetState() == lockagentv1.State_STATE_HELD && l.GetWaiting() == 1
	}
	looks.until(t, "door", waits)
	restart()
	looks.until(t, "door", waits)
	holder.ended(t, "")
	waittest.Receive(t, "the end of the process", waiter.stderr.ended)
	if waiter.end != nil {
		t.Fatalf("%v: %s", waiter.end, waiter.stderr.String())
	}
	restart()
	call(t, "acquire", "--socket", path, "-n", "--ttl", "1h", "door").expect(t, cli.ExitFailed, nil, nil)
	call(t, "release", "--socket", path, strings.TrimSpace(waiter.out.String())).expect(t, cli.ExitOK, nil, nil)
}

// awaitLog waits until the event log has something.
func awaitLog(t *testing.T, path string) {
	t.Helper()
	d := client.New(path)
	defer d.Close()
	waittest.Until(t, "the event log tells of a hold", func() bool {
		since := timestamppb.Now()
		apart(t, "lock", "--socket", path, "hall", "true").expect(t, cli.ExitOK, nil, nil)
		log, err := d.Look.ReadLog(t.Context(), &lockagentv1.ReadLogRequest{
			From: &lockagentv1.ReadLogRequest_Since{Since: since},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = log.Close() }()
		return log.Receive() // or the log has no events yet
	})
}

// A daemon that finds no journal knows nothing of the locks that programs still have in the memory of the one before.
// So it does not start, until somebody says that there are no such programs. With Redis it starts: Redis knows the
// locks.
func TestTheJournalIsMissing(t *testing.T) {
	t.Parallel()
	for where, flags := range map[string][]string{
		"memory": {"--lease", "1h"},
		"Redis":  {"--lease", "1h", "--redis", redistest.Start(t).URL()},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			d := serveProcess(t, path, nil, flags...)
			holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; cat")
			holder.stderr.await(t, "the command", says("it runs"))
			holder.signal(t, syscall.SIGSTOP) // it goes on to believe that it has the lock
			awaitLog(t, path)
			d.signal(t, syscall.SIGKILL)
			waittest.Receive(t, "the end of the process", d.stderr.ended)
			if err := os.Remove(path + ".state/journal"); err != nil {
				t.Fatal(err)
			}
			const says = "the journal of the daemon before is missing"
			if where == "Redis" {
				d = serveProcess(t, path, nil, flags...)
				d.stderr.await(t, says, func(text string) bool {
					return strings.Contains(text, `level=ERROR msg="`+says)
				})
				apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitFailed, nil, nil)
				return
			}
			serve := append([]string{"serve", "--socket", path, "--state-dir", path + ".state"}, flags...)
			for range 2 {
				refused := apart(t, serve...)
				refused.expect(t, cli.ExitFailed, nil, []string{says, "end these programs", "Try: mv "})
				_, try, _ := strings.Cut(refused.stderr, "Try: ")
				if !strings.HasPrefix(try, "mv "+path+".state "+path+".state.old ") {
					t.Errorf("it says to try %s", try)
				}
			}
			if err := os.Rename(path+".state", path+".state.old"); err != nil {
				t.Fatal(err)
			}
			serveProcess(t, path, nil, flags...)
			apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitOK, nil, nil)
		})
	}
}

// A daemon that leaves its claims to the next one does not wait for a holder. Whoever asks for a lock, or releases one,
// while a daemon drains or is away, has the answer of the next one.
func TestRequestsWhileTheDaemonIsAway(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil, "--drain-timeout", "1h")
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; cat")
	holder.stderr.await(t, "the command", says("it runs"))
	d.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", d.stderr.ended) // and not in an hour

	d = serveProcess(t, path, nil)
	first := call(t, "acquire", "--socket", path, "--ttl", "1h", "desk")
	second := call(t, "acquire", "--socket", path, "--ttl", "1h", "chair")
	third := call(t, "acquire", "--socket", path, "--ttl", "1h", "table")
	call(t, "drain", "-n", "--socket", path).expect(t, cli.ExitFailed, nil, []string{"4 claims are left"})
	var asking []*wrapper
	for _, flags := range [][]string{{"-w", "1h", "-s"}, {"-s"}} {
		asking = append(asking, lockProcess(t, path, append(flags, "room", "--", "echo", "turn")...))
	}
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	asking = append(asking, lockProcess(t, path, "hall", "--", "echo", "turn"))
	asking = append(
		asking, wrapping(t, ourselves(t, "attach", "--socket", path, strings.TrimSpace(third.stdout), "echo", "turn")),
	)
	released := start(t, "release", "--socket", path, strings.TrimSpace(first.stdout))
	renewed := start(t, "renew", "--socket", path, "--ttl", "2h", strings.TrimSpace(second.stdout))
	serveProcess(t, path, nil)
	for _, w := range asking {
		w.ended(t, "turn\n")
	}
	for _, r := range []*running{released, renewed} {
		if <-r.output.ended; r.end.code != cli.ExitOK {
			t.Errorf("%+v", r.end)
		}
	}
	call(t, "acquire", "--socket", path, "-n", "--ttl", "1h", "desk").expect(t, cli.ExitOK, nil, nil)
	holder.ended(t, "")
}

// A daemon that waits for its store takes connections and reads nothing. That bounds no wait by itself.
func TestRequestsToASilentDaemon(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	silent, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	endless := lockProcess(t, path, "door", "--", "true")
	const wait = 10 * time.Millisecond
	const lateness = 2 * time.Second // for which the daemon may say later that the wait is over
	for _, flags := range [][]string{{}, {"--slots", "2"}} {
		args := append([]string{"lock", "--socket", path, "-w", wait.String()}, flags...)
		refused := apart(t, append(args, "door", "true")...)
		unanswered := "the daemon on " + path + " has not answered within "
		refused.expect(t, cli.ExitUnavailable, nil, []string{unanswered, "Try: lockagent doctor"})
		_, text, _ := strings.Cut(refused.stderr, unanswered)
		text, _, _ = strings.Cut(text, ";")
		if told, err := time.ParseDuration(text); err != nil || told < wait+lateness { // longer on a busy machine
			t.Errorf("it says that it had no answer within %q, want %v at least", text, wait+lateness)
		}
	}
	// A signal ends a wait without end.
	endless.signal(t, syscall.SIGTERM)
	waittest.Receive(t, "the end of the process", endless.stderr.ended)
	if !endless.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("it was not ended by the signal: %v: %s", endless.end, endless.stderr.String())
	}
}

// A daemon that ends in the middle of a call is told of in plain words.
func TestADaemonThatEndsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	for what, answer := range map[string]string{
		"ended before it answered": "", "does not answer as it should": "220 mail.example ESMTP\r\n",
	} {
		ended := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				var req *http.Request
				if req, err = http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, err = io.Copy(io.Discard, req.Body)
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
			ended <- err
		}()
		r := call(t, "break", "--socket", path, "--kind", "readwrite", "--yes", "door")
		r.expect(t, cli.ExitNoDaemon, nil, []string{what, "Try: lockagent doctor"})
		if strings.Contains(r.stderr, "http://") {
			t.Errorf("it says %s", r.stderr)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	_ = listener.Close()
}

// A command that ends while there is no daemon releases its lock when there is one again.
func TestLockIsReleasedAfterARestart(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	holder := lockProcess(t, path, "door", "--", "cat")
	looks.until(t, "door", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	_ = holder.in.Close()
	serveProcess(t, path, nil)
	holder.ended(t, "")
	looks.until(t, "door", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 0 })
}

// A command is ended when the deadline of its lock has come and the daemon is stopped: it cannot say anything.
func TestLockWithAStoppedDaemon(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil, "--lease", "3s")
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; exec cat")
	holder.stderr.await(t, "the command", says("it runs")) // without a grant it would wait for the daemon
	d.stop(t)
	t.Cleanup(func() { d.signal(t, syscall.SIGCONT) })
	waittest.Receive(t, "the end of the process", holder.stderr.ended)
	if code := holder.ProcessState.ExitCode(); code != cli.ExitLost {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitLost, holder.stderr.String())
	}
}

// A command that ends while the daemon is stopped does not wait for it for long. The lock is free when the daemon goes
// on.
func TestAStoppedDaemonDoesNotKeepTheExitCode(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil, "--lease", "1h")
	holder := lockProcess(t, path, "--also", "desk", "door", "--", "sh", "-c", "echo it runs >&2; read line; exit 7")
	holder.stderr.await(t, "the command", says("it runs"))
	d.stop(t)
	goOn := sync.OnceFunc(func() { d.signal(t, syscall.SIGCONT) })
	t.Cleanup(goOn)
	_ = holder.in.Close()
	waittest.Receive(t, "the end of the process", holder.stderr.ended)
	if code := holder.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, want that of the command: %s", code, &holder.stderr)
	}
	for _, name := range []string{"door", "desk"} {
		if !strings.Contains(holder.stderr.String(), "has not confirmed within 2s that "+name+" is released") {
			t.Errorf("it says %s", &holder.stderr)
		}
	}
	goOn()
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	for _, name := range []string{"door", "desk"} {
		looks.until(t, name, func(l *lockagentv1.Lock) bool { return l.GetHeld() == 0 })
	}
}
