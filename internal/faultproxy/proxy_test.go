package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers each line with "re:" and the line, and tells what it has run.
type server struct {
	addr string
	ran  chan string
	left chan struct{} // one for each connection that has ended
}

func startServer(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: listener.Addr().String(), ran: make(chan string, 1000), left: make(chan struct{}, 1000)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close(); s.left <- struct{}{} }()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					s.ran <- lines.Text()
					if _, err := fmt.Fprintf(conn, "re:%s\n", lines.Text()); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	return s
}

func (s *server) mustRun(t *testing.T, want string) {
	t.Helper()
	if got := waittest.Receive(t, "the server to run "+want, s.ran); got != want {
		t.Fatalf("the server ran %q, want %q", got, want)
	}
}

func (s *server) mustNotHaveRun(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.ran:
		t.Fatalf("the server ran %q, want nothing", got)
	default:
	}
}

type client struct {
	*net.TCPConn
	replies *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *client) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatalf("send %q: %v", line, err)
	}
}

func (c *client) mustGet(t *testing.T, want string) {
	t.Helper()
	got, err := c.replies.ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Fatalf("the client got %q and %v, want %q", got, err, want)
	}
}

// mustGetNothing gives the reply a moment in which to come all the same.
func (c *client) mustGetNothing(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	if got, err := c.replies.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the client got %q and %v, want nothing", got, err)
	}
}

// mustEnd fails unless the connection ends, in whatever way, having yielded
// want at most.
func (c *client) mustEnd(t *testing.T, want string) {
	t.Helper()
	if got, _ := io.ReadAll(c.replies); string(got) != want {
		t.Fatalf("the client got %q before the end, want %q", got, want)
	}
}

func TestForwards(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	a, b := dial(t, p), dial(t, p)
	long := strings.Repeat("x", 60_000)
	a.send(t, "one")
	b.send(t, long)
	a.mustGet(t, "re:one")
	b.mustGet(t, "re:"+long)
}

func TestEndsPassOn(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	c := dial(t, p)
	c.send(t, "last")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.mustEnd(t, "re:last\n") // the reply comes after the client's end, and then the server's
}

func TestDelayHoldsUntilItIsTakenBack(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	c := dial(t, p)

	p.DelayReplies(time.Hour)
	c.send(t, "one")
	s.mustRun(t, "one")
	c.mustGetNothing(t)
	p.Delay(0)
	c.mustGet(t, "re:one")

	p.DelayRequests(time.Hour)
	c.send(t, "two")
	c.mustGetNothing(t)
	s.mustNotHaveRun(t)
	p.Delay(0)
	s.mustRun(t, "two")
	c.mustGet(t, "re:two")

	p.Delay(time.Millisecond)
	c.send(t, "three")
	c.mustGet(t, "re:three")

	p.Delay(time.Hour)
	c.send(t, "four")
	p.Cut()
	c.mustEnd(t, "")
}

func TestDropReplies(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	c := dial(t, p)
	p.DropReplies(true)
	c.send(t, "one")
	s.mustRun(t, "one")
	c.mustGetNothing(t)
	p.Cut()
	c.mustEnd(t, "")

	p.DropReplies(false)
	again := dial(t, p)
	again.send(t, "two")
	again.mustGet(t, "re:two")
}

func TestDropRequests(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	c := dial(t, p)
	p.DropRequests(true)
	c.send(t, "one")
	c.mustGetNothing(t)
	p.Cut()
	c.mustEnd(t, "")

	p.DropRequests(false)
	again := dial(t, p)
	again.send(t, "two")
	again.mustGet(t, "re:two")
	s.mustRun(t, "two") // and never "one"
}

func TestDropSwallowsTheEnd(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	c := dial(t, p)
	c.send(t, "one")
	c.mustGet(t, "re:one")
	p.DropRequests(true)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.mustGetNothing(t)
	select {
	case <-s.left:
		t.Fatal("the server saw the end of a connection that nothing passes")
	default:
	}
	p.Cut()
	<-s.left
}

func TestCutAfter(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)

	p.CutAfterReplies(4)
	c := dial(t, p)
	c.send(t, "one")
	c.mustEnd(t, "re:o")
	s.mustRun(t, "one")

	p.CutAfterRequests(5)
	c = dial(t, p)
	c.send(t, "two") // with its end of line, 4 bytes
	c.mustGet(t, "re:two")
	s.mustRun(t, "two")
	c.send(t, "three")
	c.mustEnd(t, "")

	c = dial(t, p) // it happens once
	c.send(t, "four")
	c.mustGet(t, "re:four")

	p.CutAfterReplies(0)
	c.send(t, "five")
	c.mustEnd(t, "")
}

func TestLoseReply(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	bystander, c := dial(t, p), dial(t, p)
	bystander.send(t, "hello")
	bystander.mustGet(t, "re:hello")
	s.mustRun(t, "hello")

	lost := p.LoseReply("acquire")
	c.send(t, "ping")
	c.mustGet(t, "re:ping")
	s.mustRun(t, "ping")
	select {
	case <-lost:
		t.Fatal("the reply to another request was taken for the one to lose")
	default:
	}
	c.send(t, "acquire 1")
	c.mustEnd(t, "")
	<-lost
	s.mustRun(t, "acquire 1")

	bystander.send(t, "acquire 2") // it happens once
	bystander.mustGet(t, "re:acquire 2")
	s.mustRun(t, "acquire 2")

	any := p.LoseReply("")
	bystander.send(t, "three")
	bystander.mustEnd(t, "")
	<-any
	s.mustRun(t, "three")
}

func TestRefuse(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	open := dial(t, p)
	open.send(t, "one")
	open.mustGet(t, "re:one")

	p.Refuse(true)
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		refused := &client{conn.(*net.TCPConn), bufio.NewReader(conn)}
		refused.mustEnd(t, "")
		_ = refused.Close()
	}
	open.send(t, "two")
	open.mustGet(t, "re:two")

	p.Refuse(false)
	c := dial(t, p)
	c.send(t, "three")
	c.mustGet(t, "re:three")
}

func TestTargetGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	_ = listener.Close()
	dial(t, Start(t, nobody)).mustEnd(t, "")
}

func TestTheEndOfTheTestEndsAll(t *testing.T) {
	s := startServer(t)
	var p *Proxy
	t.Run("proxied", func(t *testing.T) {
		p = Start(t, s.addr)
		c := dial(t, p)
		c.send(t, "one")
		c.mustGet(t, "re:one")
		p.Delay(time.Hour)
		p.DropReplies(true)
		c.send(t, "two")
	})
	<-s.left
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = conn.Close()
		t.Fatal("the proxy still listens")
	}
}

func TestConcurrentUse(t *testing.T) {
	s := startServer(t)
	p := Start(t, s.addr)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue
				}
				_, _ = io.WriteString(conn, "x\n")
				_, _ = bufio.NewReader(conn).ReadString('\n')
				_ = conn.Close()
			}
		})
	}
	all.Go(func() {
		for i := range 50 {
			p.Delay(time.Duration(i%2) * time.Millisecond)
			p.Refuse(i%5 == 0)
			p.Cut()
			p.LoseReply("x")
			p.CutAfterReplies(i % 3)
		}
		p.Refuse(false)
	})
	all.Wait()
}
