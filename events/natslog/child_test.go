package natslog

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent/internal/machinetest"
)

// A test can have this binary run again as one of its parts, so that the part can be killed. The
// variable says which part it is.
const partVariable = "LOCKAGENT_TEST_PART"

// parts are what the binary can be. Each returns its exit code when the test that started it is
// gone: then its standard input ends.
var parts = map[string]func() int{
	"server":    servePart,
	"forwarder": forwardPart,
	"publisher": publishPart,
}

// setting is what the test told the part that this process is.
func setting(name string) string { return os.Getenv(partVariable + "_" + name) }

// untilOrphaned returns when the test is gone.
func untilOrphaned() { _, _ = io.Copy(io.Discard, os.Stdin) }

// child is a part in a process of its own.
type child struct {
	t        testing.TB
	part     string
	settings map[string]string
	attr     *syscall.SysProcAttr // of its process, or nil
	cmd      *exec.Cmd            // nil unless it runs
	in       io.WriteCloser
	out      *bufio.Reader
}

func newChild(t testing.TB, part string, settings map[string]string) *child {
	c := &child{t: t, part: part, settings: settings}
	t.Cleanup(c.kill)
	return c
}

// start starts it and returns the first line that it says, or an empty line if it ended instead.
func (c *child) start() string {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVariable+"="+c.part)
	for name, value := range c.settings {
		cmd.Env = append(cmd.Env, partVariable+"_"+name+"="+value)
	}
	cmd.Stderr = c.t.Output()
	cmd.SysProcAttr = c.attr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.cmd, c.in, c.out = cmd, in, bufio.NewReader(out)
	return c.hear()
}

// hear returns the next line that it says, or an empty line when it says no more.
func (c *child) hear() string {
	line, _ := c.out.ReadString('\n') // the end is no error, and a killed one may stop in the middle of a line
	line, whole := strings.CutSuffix(line, "\n")
	if !whole {
		return ""
	}
	return line
}

// say tells it something.
func (c *child) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// pause has it do nothing more until it is sent SIGCONT. It returns when all its threads stand still.
func (c *child) pause() {
	c.t.Helper()
	machinetest.Stop(c.t, c.cmd.Process)
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// kill is kill -9.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()
	_ = c.in.Close()
	c.cmd = nil
}
