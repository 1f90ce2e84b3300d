package redisson

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// process takes commands as README.md describes them: a client of the Java driver, or an agent of ours. It
// may be used by several goroutines.
type process struct {
	*child
	client string // with a slash, in a child that has several
}

// child is a process of the machine.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended and is reaped
	log  *log

	mu      sync.Mutex
	in      io.WriteCloser
	last    int                      // the id of the last command
	waiting map[string]chan<- answer // by id; nil when the process is gone
}

type answer struct {
	value string
	err   error
}

var errGone = errors.New("the process has ended")

// start starts a process that the test's cleanup kills. What it logs is shown if the test fails.
func start(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	c, err := spawn(cmd)
	must(t, err)
	t.Cleanup(func() {
		c.kill()
		c.show(t, 0)
	})
	return c
}

// spawn starts a process.
func spawn(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, gone: make(chan struct{}), log: new(log), waiting: make(map[string]chan<- answer)}
	cmd.Stderr = c.log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	return c, nil
}

// show shows what the process has logged behind the first so many bytes, if the test has failed.
func (c *child) show(t *testing.T, from int) {
	if t.Failed() {
		t.Log(c.log.String()[from:])
	}
}

// log is what a process has written to standard error.
type log struct {
	mu   sync.Mutex // guards what follows
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// read hands out the answers until the process has ended.
func (c *child) read(out io.Reader) {
	defer close(c.gone)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, rest, _ := strings.Cut(lines.Text(), " ")
		outcome, value, _ := strings.Cut(rest, " ")
		value, err := url.QueryUnescape(value)
		if outcome != "ok" {
			err = errors.New(value)
		}
		c.mu.Lock()
		if ch := c.waiting[id]; ch != nil {
			ch <- answer{value, err}
			delete(c.waiting, id)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waiting {
		ch <- answer{err: errGone}
	}
	c.waiting = nil
	_ = c.cmd.Wait() // it is killed in the end, which is an error to Wait
}

// kill ends the process at once, as kill -9 does, and returns when it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it has ended
	<-c.gone
}

// send sends a command for a thread of the process. The answer comes on the channel, which has
// capacity 1. The commands of one thread are carried out in their order.
func (p *process) send(thread, command string, args ...any) <-chan answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := make(chan answer, 1)
	if p.waiting == nil {
		ch <- answer{err: errGone}
		return ch
	}
	p.last++
	id := strconv.Itoa(p.last)
	p.waiting[id] = ch
	line := []string{id, url.QueryEscape(p.client + thread), command}
	for _, arg := range args {
		line = append(line, url.QueryEscape(fmt.Sprint(arg)))
	}
	if _, err := io.WriteString(p.in, strings.Join(line, " ")+"\n"); err != nil {
		delete(p.waiting, id)
		ch <- answer{err: err}
	}
	return ch
}

// do sends a command and returns the answer. The test ends if it is an error.
func (p *process) do(t *testing.T, thread, command string, args ...any) string {
	t.Helper()
	return value(t, p.send(thread, command, args...))
}

// refuses sends a command that must fail, with an error whose text has a certain word.
func (p *process) refuses(t *testing.T, word, thread, command string, args ...any) {
	t.Helper()
	if a := receive(t, p.send(thread, command, args...)); a.err == nil || !strings.Contains(a.err.Error(), word) {
		t.Errorf("%s answered %q and the error %v, want one of %s", command, a.value, a.err, word)
	}
}

// value waits for an answer that is not an error.
func value(t *testing.T, answers <-chan answer) string {
	t.Helper()
	a := receive(t, answers)
	must(t, a.err)
	return a.value
}

// receive waits for whatever comes.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return waittest.Receive(t, "an answer, a grant or an end", from)
}

// pending checks that nothing has come yet.
func pending[T any](t *testing.T, from <-chan T) {
	t.Helper()
	select {
	case v := <-from:
		t.Fatalf("came too early: %v", v)
	default:
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
