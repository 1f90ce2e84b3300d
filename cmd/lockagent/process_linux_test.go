package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// host has a daemon that is a process of its own.
type host struct {
	t         *testing.T
	dir, path string
	look      *testDaemon
	errors    *os.File
}

func newHost(t *testing.T) *host {
	dir := shortDir(t)
	h := &host{t: t, dir: dir, path: filepath.Join(dir, "a.sock")}
	h.look = &testDaemon{Daemon: client.New(h.path)}
	var err error
	if h.errors, err = os.Create(filepath.Join(dir, "stderr")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		text, _ := os.ReadFile(h.errors.Name())
		t.Logf("%s", text)
		_ = h.errors.Close()
	})
	t.Cleanup(h.look.Close)
	t.Cleanup(func() {
		if err := killAll("LOCKAGENT_SOCKET=" + h.path); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) env() []string {
	return append(
		os.Environ(), "LOCKAGENT_SOCKET="+h.path, "LOCKAGENT_OPERATOR_SOCKET="+h.path+".operator",
		"LOCKAGENT_STATE_DIR="+h.path+".state", "HOME="+h.dir,
	)
}

// run starts a program of the host.
func (h *host) run(args ...string) *exec.Cmd {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = h.dir, h.env(), h.errors // a file: nobody waits until all have closed it
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return cmd
}

// serve starts the daemon, and returns when it answers.
func (h *host) serve() *exec.Cmd {
	h.t.Helper()
	d := h.run(program(h.t), "serve")
	h.until("", func(*lockagentv1.Lock) bool { return true })
	return d
}

// until waits until the daemon answers, and a lock is as it should be. The empty name is of no lock.
func (h *host) until(name string, ok func(*lockagentv1.Lock) bool) {
	h.t.Helper()
	waittest.Until(h.t, fmt.Sprintf("the daemon to answer, and %q to be as it should be", name), func() bool {
		listed, err := h.look.Look.List(h.t.Context(), &lockagentv1.ListRequest{Pattern: name})
		state := &lockagentv1.Lock{Name: name}
		for _, l := range listed.GetLocks() {
			state = l
		}
		return err == nil && ok(state)
	})
}

func counts(held, waiting int32) func(*lockagentv1.Lock) bool {
	return func(l *lockagentv1.Lock) bool { return l.GetHeld() == held && l.GetWaiting() == waiting }
}

// kill kills a process that the test has started.
func (h *host) kill(cmd *exec.Cmd) {
	h.t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestKilledInTurn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	daemon := h.serve()
	started, end := filepath.Join(h.dir, "started"), filepath.Join(h.dir, "end")
	for _, fifo := range []string{started, end} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() (wrapper *exec.Cmd, child int, token string) {
		wrapper = h.run(program(h.t), "lock", "a", "sh", "-c", `echo "$$ $LOCKAGENT_TOKEN" >started; read line <end; exit 5`)
		line, err := hear(waittest.Context(t), started)
		if err != nil {
			t.Fatal(err)
		}
		pid, token, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if child, err = strconv.Atoi(pid); err != nil {
			t.Fatal(err)
		}
		return wrapper, child, token
	}

	// The daemon: the next one has the lock, with its token, and the command goes on.
	wrapper, _, token := begin()
	h.kill(daemon)
	daemon = h.serve()
	h.until("a", func(l *lockagentv1.Lock) bool {
		return l.GetHeld() == 1 && strconv.FormatUint(l.GetHolders()[0].GetToken(), 10) == token
	})
	// One who waits.
	waiter := h.run(program(h.t), "lock", "a", "true")
	h.until("a", counts(1, 1))
	h.kill(waiter)
	h.until("a", counts(1, 0))
	// The daemon again, while somebody waits. Then the command ends, and the waiter has its turn.
	waiter = h.run(program(h.t), "acquire", "--ttl", "1h", "a")
	h.until("a", counts(1, 1))
	if err := os.WriteFile(end, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _ = wrapper.Wait(); wrapper.ProcessState.ExitCode() != 5 {
		t.Errorf("the exit code of the command is %d", wrapper.ProcessState.ExitCode())
	}
	if err := waiter.Wait(); err != nil {
		t.Errorf("the waiter: %v", err)
	}
	call(t, "break", "--socket", h.path, "--yes", "a").expect(t, cli.ExitOK, nil, nil)
	// The wrapper: its command keeps the lock. Then the command.
	wrapper, child, _ := begin()
	h.kill(wrapper)
	h.until("a", counts(1, 0))
	apart(t, "lock", "--socket", h.path, "-n", "a", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.until("a", counts(0, 0))
	// A holder without a command.
	input, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	holder := exec.CommandContext(t.Context(), program(t), "lock", "a")
	holder.Env, holder.Stdin = h.env(), input
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	_ = input.Close()
	h.until("a", counts(1, 0))
	h.kill(holder)
	h.until("a", counts(0, 0))
	h.kill(daemon)
}

// The session of the README, with its two terminals.
func TestSessionOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	terminals := regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(terminals) != 2 {
		t.Fatalf("there are %d terminals", len(terminals))
	}
	h := newHost(t)
	bin := newBin(t)
	end := filepath.Join(h.dir, "end") // of the sleep in the first terminal, when the second has seen what is held
	if err := errors.Join(
		syscall.Mkfifo(end, 0o600),
		os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/sh\nread line <"+end+"\n"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	port := "0" // in place of 7070
	var shown []*os.File
	in := func(line string) (*exec.Cmd, func() string) {
		out, err := os.CreateTemp(h.dir, "shown")
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, out)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(line, ":7070", ":"+port))
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, append(h.env(), "PATH="+bin+":"+os.Getenv("PATH")), out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, func() string {
			text, err := os.ReadFile(out.Name())
			if err != nil {
				t.Error(err)
			}
			return strings.ReplaceAll(string(text), h.path, "/run/lockagent/agent.sock")
		}
	}
	defer func() {
		for _, f := range shown {
			_ = f.Close()
		}
	}()
	numbers := regexp.MustCompile(`[0-9][0-9.]*(ms|µs|s)?`)
	same := func(a, b string) bool { return numbers.ReplaceAllString(a, "N") == numbers.ReplaceAllString(b, "N") }
	first := regexp.MustCompile(`(?m)^\$ (.*)\n`).Split(terminals[0][1], -1)[1:] // what the commands print
	commands := regexp.MustCompile(`(?m)^\$ (.*?)( &)?$`).FindAllStringSubmatch(terminals[0][1], -1)
	serve, served := in("exec " + commands[0][1])
	waittest.Until(t, "the daemon to say what the README shows", func() bool { return same(served(), first[0]) })
	port = regexp.MustCompile(`Page: .*:([0-9]+)/`).FindStringSubmatch(served())[1]
	deploy, deployed := in(commands[1][1])
	h.until("deploy", counts(1, 0))
	var got strings.Builder
	for line := range strings.Lines(terminals[1][1]) {
		if !strings.HasPrefix(line, "$ ") {
			continue
		}
		cmd, out := in(strings.TrimSpace(strings.TrimPrefix(line, "$ ")))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if strings.Contains(line, " watch ") { // the lock becomes free, however late the watch begins
			if err := os.WriteFile(end, []byte("\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for len(ended) == 0 && t.Context().Err() == nil {
				apart(t, "lock", "--socket", h.path, "deploy", "true").expect(t, cli.ExitOK, nil, nil)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", line, err)
		}
		_, _ = io.WriteString(&got, line+out())
	}
	if err := deploy.Wait(); err != nil {
		t.Error(err)
	}
	if want := terminals[1][1]; !same(got.String(), want) {
		t.Errorf("the second terminal shows\n%s\nand the README\n%s", &got, want)
	}
	if !same(deployed(), first[1]) {
		t.Errorf("the first terminal shows\n%s\nand the README\n%s", deployed(), first[1])
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

// asNobody runs the program as a user who is nobody.
func asNobody(t *testing.T, args ...string) result {
	t.Helper()
	return ran(t, ofNobody(t, args...))
}

// ofNobody is a process of a user without rights.
func ofNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	machinetest.NeedsRoot(t)
	const nobody = 65534
	cmd := ourselves(t, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "HOME=/")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// apart runs the program in a process of its own. The verb lock needs that: it takes all children of its process for
// its own.
func apart(t *testing.T, args ...string) result {
	t.Helper()
	return ran(t, ourselves(t, args...))
}

func ourselves(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	return cmd
}

func ran(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestWhatOthersMayNot(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	asNobody(t, "ls", "--socket", d.Path).expect(t, cli.ExitNotPermitted, nil, []string{"you may not connect"})
	if err := os.Chmod(filepath.Dir(d.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	asNobody(t, "lock", "--socket", d.Path, "a", "true").expect(t, cli.ExitNotPermitted, nil, nil)
	asNobody(t, "break", "--socket", d.Path, "--yes", "a").expect(t, cli.ExitNotPermitted, nil, nil)
	asNobody(t, "drain", "--socket", d.Path).expect(t, cli.ExitNotPermitted, nil, nil)

	// A claim is of no use for them either.
	claim := strings.TrimSpace(call(t, "acquire", "--socket", d.Path, "--ttl", "1h", "a").stdout)
	asNobody(t, "renew", "--socket", d.Path, "--ttl", "2h", claim).expect(t, cli.ExitLost, nil, []string{"no such claim"})
	asNobody(t, "attach", "--socket", d.Path, claim, "true").expect(t, cli.ExitLost, nil, []string{"no such claim"})
	asNobody(t, "release", "--socket", d.Path, claim).expect(t, cli.ExitLost, nil, []string{"no such claim"})
	call(t, "release", "--socket", d.Path, claim).expect(t, cli.ExitOK, nil, nil)
}

// Who may acquire and not look gets the name of the lock from the claim, and is refused nothing that no verb was asked
// for.
func TestWhoMayNotLook(t *testing.T) {
	t.Parallel()
	all, err := access.ParsePattern("**")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := access.New(access.Config{
		Self: uint32(os.Geteuid()), Directory: daemon.Directory{}, Now: time.Now, Refused: func(uint32, error, uint64) {},
		Rules: []access.Rule{{Match: all, Allow: access.Acquire}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := runDaemon(t, func(cfg *daemon.Config) { cfg.Access = rules })
	claim := strings.TrimSpace(call(t, "acquire", "--socket", d.Path, "--ttl", "1h", "a").stdout)
	apart(t, "lock", "--socket", d.Path, "-n", "a", "true").expect(t, cli.ExitFailed, nil, []string{`lock "a" is held by`})
	apart(t, "lock", "--socket", d.Path, "-v", "-w", "10ms", "a", "true").expect(
		t, cli.ExitFailed, nil, []string{"waiting for a, held by"},
	)
	call(t, "__complete", "lock", "--socket", d.Path, "").expect(t, cli.ExitOK, nil, nil)
	apart(t, "attach", "--socket", d.Path, "-v", claim, "sh", "-c", "echo under $LOCKAGENT_LOCK").expect(
		t, cli.ExitOK, []string{"under a\n"}, []string{"got a with the token"},
	)
	if refused := rules.Refusals(); len(refused) != 0 {
		t.Errorf("it was refused %+v", refused)
	}
	call(t, "ls", "--socket", d.Path).expect(t, cli.ExitNotPermitted, nil, []string{"has no right to look"})
	if refused := rules.Refusals(); len(refused) != 1 || refused[0].Count != 1 {
		t.Errorf("it was refused %+v", refused)
	}
}

// panicking is an output that has a defect.
type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("a defect") }

func TestADefectIsTold(t *testing.T) {
	var stderr strings.Builder
	code := run(t.Context(), []string{"version"}, strings.NewReader(""), panicking{}, &stderr)
	result{code, "", stderr.String()}.expect(
		t, cli.ExitBug, nil, []string{"lockagent: bug: a defect", "Please report this."},
	)
}

// Each exit code of lockagent is that of some script or test.
func TestScriptsHaveEveryExitCode(t *testing.T) {
	// Tests of the event log, and the tests above, have these.
	elsewhere := []int{
		cli.ExitViolated, cli.ExitIncomplete, cli.ExitEmpty, cli.ExitExplained, cli.ExitBug, cli.ExitNotPermitted,
	}
	files, err := filepath.Glob("testdata/daemon/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, e := range exitCodes {
		code := e.code
		if code == cli.ExitSignal {
			code += int(syscall.SIGTERM)
		}
		if code != cli.ExitOK && !slices.Contains(elsewhere, code) &&
			!strings.Contains(all.String(), fmt.Sprintf("\ncode %d ", code)) {
			t.Errorf("no script ends with %d: %v", code, e.meanings)
		}
	}
	for cmd := range manual.Commands(newRoot()) {
		if !regexp.MustCompile(`\b` + cmd.CommandPath() + `\s`).MatchString(all.String()) {
			t.Errorf("no script has %s", cmd.CommandPath())
		}
	}
}

// A process that gets too little address space ends before it runs anything. Operators read what its exit code means.
func TestTooLittleAddressSpace(t *testing.T) {
	t.Parallel()
	const little = `ulimit -v 400000 && exec "$0" version`
	r := ran(t, exec.CommandContext(t.Context(), "sh", "-c", little, program(t)))
	text, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	if r.stdout != "" || !strings.Contains(string(text), fmt.Sprintf(" ends with Go's exit code %d ", r.code)) {
		t.Errorf("it ends with the exit code %d, which is not documented, and writes %q", r.code, r.stdout)
	}
}
