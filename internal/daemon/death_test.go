//go:build linux

package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// play is this program as a client. It asks for the lock "door", and writes a line for each event.
//
// It may be a crowd instead. With the role "parent" it has a child that inherits its connection, and its input as well.
func play(role string) int {
	act := func() error { return ask(role) }
	path := os.Getenv("DAEMON_TEST_SOCKET")
	many, _ := strconv.Atoi(os.Getenv("DAEMON_TEST_MANY")) // a crowd has it
	switch role {
	case "crowd":
		act = func() error { return crowd(path, many) }
	case "linked crowd":
		act = func() error { return linkedCrowd(path, many) }
	}
	err := act()
	fmt.Println("end", err)
	return 1
}

func ask(role string) error {
	conn, err := net.Dial("unix", os.Getenv("DAEMON_TEST_SOCKET"))
	if err != nil {
		return err
	}
	if role == "parent" {
		inherited, err := conn.(*net.UnixConn).File()
		if err != nil {
			return err
		}
		child := exec.Command("/bin/cat") // ends with its input
		child.Stdin, child.ExtraFiles = os.Stdin, []*os.File{inherited}
		if err := child.Start(); err != nil {
			return err
		}
		_ = inherited.Close()
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	client := lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, baseURL)
	stream, err := client.Acquire(background, &lockagentv1.AcquireRequest{Name: "door"})
	if err != nil {
		return err
	}
	for stream.Receive() {
		fmt.Printf("%T\n", stream.Msg().GetEvent())
	}
	return stream.Err()
}

// process is such a client.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func (r *running) process(t *testing.T, role string, more ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "DAEMON_TEST_ROLE="+role, "DAEMON_TEST_SOCKET="+r.path)
	cmd.Env = append(cmd.Env, more...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// says waits until the client says that it got an event.
func (p *process) says(event string) {
	p.t.Helper()
	for p.out.Scan() {
		if strings.HasSuffix(p.out.Text(), "_"+event) {
			return
		}
		p.t.Logf("process %d: %s", p.cmd.Process.Pid, p.out.Text())
	}
	p.t.Fatalf("process %d: it did not say %q", p.cmd.Process.Pid, event)
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill kills the client, and its child loses its input.
func (p *process) kill() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// die kills the client alone.
func (p *process) die() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	if _, err := p.cmd.Process.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// looks asks the daemon how many hold the lock, and how many wait.
func (r *running) looks(t *testing.T, c *testClient) (held, waiting int32) {
	t.Helper()
	got, err := c.look.List(background, &lockagentv1.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range got.GetLocks() {
		if l.GetName() == "door" {
			return l.GetHeld(), l.GetWaiting()
		}
	}
	return 0, 0
}

var door = &lockagentv1.AcquireRequest{Name: "door"}

func TestKilledHolder(t *testing.T) {
	d := run(t)
	c := d.client(t)
	holder := d.process(t, "client")
	holder.says("Granted")
	next := c.acquire(t, door)
	if q := next.queued(); q.GetHolder() == "" {
		t.Errorf("%v", q)
	}
	holder.die()
	next.granted()
}

func TestKilledWaiter(t *testing.T) {
	d := run(t)
	c := d.client(t)
	holder := c.acquire(t, door)
	holder.granted()
	waiter := d.process(t, "client")
	waiter.says("Queued")
	watch, err := c.look.Watch(background, &lockagentv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Close() }()
	for watch.Receive() && watch.Msg().GetLive() == nil {
	}
	waiter.die()
	for watch.Receive() && watch.Msg().GetLock().GetWaiting() > 0 {
	}
	if held, waiting := d.looks(t, c); held != 1 || waiting != 0 {
		t.Errorf("%d hold and %d wait: %v", held, waiting, watch.Err())
	}
}

// A stopped holder keeps its lock, and a stopped waiter its place. All other locks go on, and so does the daemon.
func TestStoppedClients(t *testing.T) {
	d := run(t)
	c := d.client(t)
	holder, waiter := d.process(t, "client"), (*process)(nil)
	holder.says("Granted")
	waiter = d.process(t, "client")
	waiter.says("Queued")
	holder.signal(syscall.SIGSTOP)
	waiter.signal(syscall.SIGSTOP)
	for range 100 {
		s := c.acquire(t, &lockagentv1.AcquireRequest{Name: "desk"})
		s.granted()
		s.end()
	}
	if held, waiting := d.looks(t, c); held != 1 || waiting != 1 {
		t.Errorf("%d hold and %d wait", held, waiting)
	}
	next := c.acquire(t, door)
	next.queued()
	holder.signal(syscall.SIGKILL) // also those who are stopped die of it
	waiter.signal(syscall.SIGCONT)
	waiter.says("Granted")
	waiter.die()
	next.granted()
}

// A child that has inherited the connection keeps the claim, after its parent has died, as it would keep a lock of
// flock.
func TestChildKeepsTheClaim(t *testing.T) {
	d := run(t)
	c := d.client(t)
	parent := d.process(t, "parent")
	parent.says("Granted")
	next := c.acquire(t, door)
	next.queued()
	parent.die()
	for range 100 { // nothing tells that nothing happens, so it has time for that
		if held, waiting := d.looks(t, c); held != 1 || waiting != 1 {
			t.Fatalf("%d hold and %d wait", held, waiting)
		}
	}
	_ = parent.in.Close() // the child ends
	next.granted()
}
