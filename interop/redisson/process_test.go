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
	"time"
)

// patience bounds every wait for a process. It is long because many tests share few processors;
// no test waits for it unless something is broken.
const patience = 60 * time.Second

// process takes commands as README.md describes them: the Java driver, or an agent of ours. It
// may be used by several goroutines.
type process struct {
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
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, gone: make(chan struct{}), log: &log{to: t.Output()}, waiting: make(map[string]chan<- answer)}
	cmd.Stderr = p.log
	in, err := cmd.StdinPipe()
	must(t, err)
	p.in = in
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(p.kill)
	go p.read(out)
	p.do(t, "main", "ping")
	return p
}

// log is what a process has written to standard error.
type log struct {
	to io.Writer

	mu   sync.Mutex // guards what follows
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	return l.to.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// read hands out the answers until the process has ended.
func (p *process) read(out io.Reader) {
	defer close(p.gone)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		id, rest, _ := strings.Cut(lines.Text(), " ")
		outcome, value, _ := strings.Cut(rest, " ")
		value, err := url.QueryUnescape(value)
		if outcome != "ok" {
			err = errors.New(value)
		}
		p.mu.Lock()
		if ch := p.waiting[id]; ch != nil {
			ch <- answer{value, err}
			delete(p.waiting, id)
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ch := range p.waiting {
		ch <- answer{err: errGone}
	}
	p.waiting = nil
	_ = p.cmd.Wait() // it is killed in the end, which is an error to Wait
}

// kill ends the process at once, as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.gone
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
	line := []string{id, url.QueryEscape(thread), command}
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
	return valueAfter(t, answers, 0)
}

// valueAfter is value for a command that takes a while.
func valueAfter(t *testing.T, answers <-chan answer, while time.Duration) string {
	t.Helper()
	a := receiveAfter(t, answers, while)
	must(t, a.err)
	return a.value
}

// receive waits for whatever comes.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return receiveAfter(t, from, 0)
}

// receiveAfter is receive for what takes a while.
func receiveAfter[T any](t *testing.T, from <-chan T, while time.Duration) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(while + patience):
		t.Fatal("gave up waiting")
		panic("unreachable")
	}
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
