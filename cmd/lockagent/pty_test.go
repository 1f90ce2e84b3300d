//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// The tests have no terminals but those that they make: verbs do other things where there is one.
func init() {
	if os.Getenv(asProgram) != "" || unix.Getpgrp() == os.Getpid() {
		return // a program of the tests, or one whose terminal would end with it
	}
	if tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.IoctlSetInt(tty, unix.TIOCNOTTY, 0) // it has one
		_ = unix.Close(tty)
	}
}

// newTerminal returns a terminal of 100 columns and 10 lines, and what a user of it has.
func newTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(user.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, terminal
}

// ptyProgram is a program on a terminal of its own. What it writes there is its output.
type ptyProgram struct {
	output
	cmd      *exec.Cmd
	keyboard *os.File
	done     chan struct{}
}

// runOnTerminal starts the program on a terminal. See startOnTerminal.
func runOnTerminal(t *testing.T, d *testDaemon, args ...string) *ptyProgram {
	t.Helper()
	return startOnTerminal(t, d, append([]string{program(t)}, args...)...)
}

// startOnTerminal starts a program in a session whose terminal is a new one. The test ends it, if it does not end
// itself.
func startOnTerminal(t *testing.T, d *testDaemon, args ...string) *ptyProgram {
	t.Helper()
	keyboard, terminal := newTerminal(t)
	p := &ptyProgram{keyboard: keyboard, done: make(chan struct{})}
	p.ended = p.done
	p.cmd = exec.CommandContext(t.Context(), args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), "LOCKAGENT_SOCKET="+d.Path, "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	go func() {
		defer close(p.done)
		var b [4096]byte
		for {
			n, err := keyboard.Read(b[:])
			if err != nil { // nobody has the terminal any more
				return
			}
			_, _ = p.Write(b[:n])
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		<-p.done
		_ = keyboard.Close()
	})
	return p
}

// says waits until the program has written something.
func (p *ptyProgram) says(t *testing.T, what string) []string {
	t.Helper()
	var found []string
	p.await(t, what, func(text string) bool {
		found = regexp.MustCompile(what).FindStringSubmatch(text)
		return found != nil
	})
	return found
}

func (p *ptyProgram) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// code waits until the program has ended and all of its output is there, and returns the exit code.
func (p *ptyProgram) code(t *testing.T) int {
	t.Helper()
	_ = p.cmd.Wait()
	<-p.done
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return cli.ExitSignal + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// untilN is a loop of a shell that ends when a trap has set n. A shell that reads instead would miss, now and then, a
// signal between its last look for signals and the read.
const untilN = `until [ "$n" ]; do sleep .01; done`

// The command reads from the terminal, and gets the interrupts of the terminal once.
func TestLockOnATerminal(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	p := runOnTerminal(
		t, d, "lock", "a", "sh", "-c",
		`trap 'n=$((n+1)); echo "interrupted $n"' INT; echo ready; `+untilN+`; read line; echo "heard $line"; exit 5`,
	)
	p.says(t, "ready")
	p.press(t, "\x03")
	p.says(t, "interrupted 1")
	p.press(t, "words\r")
	p.says(t, "heard words")
	if code := p.code(t); code != 5 {
		t.Errorf("the exit code is %d:\n%s", code, p)
	}
	if strings.Contains(p.String(), "interrupted 2") {
		t.Error("one interrupt came twice")
	}
}

// A command whose standard input is no terminal reads from the terminal all the same, as ssh and sudo do, and gets its
// interrupts once.
func TestACommandInAPipelineReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	d, bin := runDaemon(t), newBin(t)
	const (
		reads    = `read line </dev/tty; echo "heard $line"; exit 5'`
		command  = `true | lockagent lock a sh -c 'echo ready; ` + reads
		signaled = `trap : INT; true | lockagent lock a sh -c 'trap "n=\$((n+1)); echo interrupted \$n" INT; echo ready; ` +
			untilN + `; ` + reads
	)
	for what, script := range map[string]string{
		"in the foreground": signaled,
		"moved from the background to that": "set -m; " + command +
			" & until jobs %% | grep -q Stopped; do sleep .01; done; fg",
		"in the foreground of another script": `trap : INT; sh -c "$COMMAND"`,
	} {
		t.Run(what, func(t *testing.T) {
			p := startOnTerminal(t, d, "env", "PATH="+bin+":"+os.Getenv("PATH"), "COMMAND="+signaled, "bash", "-c", script)
			p.says(t, "ready")
			if !strings.HasPrefix(script, "set -m") { // otherwise nobody tells when it is in the foreground
				p.press(t, "\x03")
				p.says(t, "interrupted 1")
			}
			p.press(t, "words\r")
			p.says(t, "heard words")
			if code := p.code(t); code != 5 {
				t.Errorf("the exit code is %d:\n%s", code, p)
			}
			if strings.Contains(p.String(), "interrupted 2") {
				t.Error("one interrupt came twice")
			}
		})
	}
}

// A signal that is not from the terminal reaches the command, although the terminal would send the same.
func TestASignalToAJobInTheBackground(t *testing.T) {
	t.Parallel()
	d, bin := runDaemon(t), newBin(t)
	const script = `set -m
lockagent lock a sh -c 'trap "echo got it; exit 5" INT; echo ready; while :; do sleep .01; done' &
read line; kill -INT $!; wait $!`
	p := startOnTerminal(t, d, "env", "PATH="+bin+":"+os.Getenv("PATH"), "bash", "-c", script)
	p.says(t, "ready")
	p.press(t, "go\r")
	p.says(t, "got it")
	if code := p.code(t); code != 5 {
		t.Errorf("the exit code is %d:\n%s", code, p)
	}
}

// A command on a terminal is in the process group of the wrapper. A signal to the wrapper reaches all that the command
// has started, as it does without a terminal.
func TestASignalReachesWhatACommandOnATerminalHasStarted(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	p := runOnTerminal(
		t, d, "lock", "a", "sh", "-c",
		`trap : TERM; sh -c 'trap "echo told; exit" TERM; echo ready; while :; do sleep .01; done'; exit 5`,
	)
	p.says(t, "ready")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.says(t, "told")
	if code := p.code(t); code != 5 {
		t.Errorf("the exit code is %d:\n%s", code, p)
	}
}

// An interrupt ends a command that does nothing about it, and so the wrapper.
func TestAnInterruptOfTheTerminalEnds(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	p := runOnTerminal(t, d, "lock", "a", "sh", "-c", "echo ready; exec sleep 1000")
	p.says(t, "ready")
	p.press(t, "\x03")
	if code := p.code(t); code != cli.ExitSignal+int(syscall.SIGINT) {
		t.Errorf("the exit code is %d:\n%s", code, p)
	}
	d.until(t, "a", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 0 })
}

// A command of a wrapper may be another wrapper. The inner command then gets each signal once, whether it is from the
// terminal or for the outer wrapper alone. Its exit code is that of both.
func TestNestedWrappersOnATerminal(t *testing.T) {
	t.Parallel()
	d, bin := runDaemon(t), newBin(t)
	const command = `for s in HUP INT QUIT TERM USR1; do trap "echo got $s" $s; done; ` +
		`trap "echo got CONT; n=1" CONT; echo "ready $PPID."; ` + untilN + `; read line; echo "heard $line"; exit 5`
	kill := func(t *testing.T, pid int, name string) {
		t.Helper()
		if err := unix.Kill(pid, unix.SignalNum("SIG"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for how, wrapped := range map[string][]string{
		"directly":        {"lockagent", "lock", "b", "--", "sh", "-c", command},
		"through a shell": {"sh", "-c", `trap : HUP INT QUIT TERM USR1; lockagent lock b -- sh -c "$0"; exit $?`, command},
	} {
		for _, signal := range []struct{ name, key string }{{"INT", "\x03"}, {"QUIT", "\x1c"}, {"HUP", ""}, {"TERM", ""}} {
			t.Run(how+"/"+signal.name, func(t *testing.T) {
				p := startOnTerminal(
					t, d,
					slices.Concat(
						[]string{"env", "PATH=" + bin + ":" + os.Getenv("PATH"), "lockagent", "lock", "a", "--"}, wrapped,
					)...,
				)
				inner, err := strconv.Atoi(p.says(t, `ready (\d+)\.`)[1])
				if err != nil {
					t.Fatal(err)
				}
				if signal.key != "" {
					p.press(t, signal.key)
				} else {
					kill(t, p.cmd.Process.Pid, signal.name)
				}
				p.says(t, "got "+signal.name)
				// A wrapper passes signals on one after the other. So when the command has got these, nothing of what
				// came before is under way.
				kill(t, p.cmd.Process.Pid, "USR1")
				p.says(t, "got USR1")
				kill(t, inner, "CONT") // which has a greater number than the others: of several, a program hears the smallest first
				p.says(t, "got CONT")
				p.press(t, "words\r")
				p.says(t, "heard words")
				if code := p.code(t); code != 5 {
					t.Errorf("the exit code is %d:\n%s", code, p)
				}
				for _, name := range []string{signal.name, "USR1", "CONT"} {
					if n := strings.Count(p.String(), "got "+name); n != 1 {
						t.Errorf("one %s came %d times:\n%s", name, n, p)
					}
				}
				for _, lock := range []string{"a", "b"} {
					d.until(t, lock, func(l *lockagentv1.Lock) bool { return l.GetHeld() == 0 })
				}
			})
		}
	}
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	d := runDaemon(t)
	claim := func(name string) string {
		r := call(t, "acquire", "--socket", d.Path, "--ttl", "1h", name)
		r.expect(t, cli.ExitOK, nil, nil)
		return strings.TrimSpace(r.stdout)
	}
	first := claim("orders/1")
	p := runOnTerminal(t, d, "top", "orders/*")
	p.says(t, `orders/1 +readwrite +held`)
	claim("other")
	claim("orders/2")
	p.says(t, `orders/2 +readwrite +held`)
	call(t, "release", "--socket", d.Path, first).expect(t, cli.ExitOK, nil, nil)
	p.says(t, "1 lock   1 held   0 waiting")
	p.press(t, "s")
	p.says(t, "sorted by age")
	p.press(t, "q")
	if code := p.code(t); code != cli.ExitOK {
		t.Errorf("the exit code is %d", code)
	}
	text := p.String()
	const otherScreen, ownScreen = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l" // and the cursor away, and back
	if strings.Contains(text, "other") || !strings.HasSuffix(text, ownScreen) || !strings.HasPrefix(text, otherScreen) {
		t.Errorf("it wrote %q", text)
	}

	d2 := runOnTerminal(t, d, "top")
	d2.says(t, "orders/2")
	d2.press(t, "\x03")
	if code := d2.code(t); code != cli.ExitOK {
		t.Errorf("the exit code is %d", code)
	}
}
