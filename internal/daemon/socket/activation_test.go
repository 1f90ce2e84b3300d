//go:build linux

package socket

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// beActivated is this program as systemd starts it. It answers one connection, and says what it was passed.
func beActivated() int {
	if os.Getenv("SOCKET_TEST_ACTIVATED") == "mine" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	l, err := Activated("api")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	again, err := Activated("api")
	fmt.Println(l != nil, again, err, os.Getenv("LISTEN_FDS") == "")
	if l == nil {
		return 0
	}
	c, err := l.Accept()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = c.Write([]byte("!"))
	_ = c.Close()
	_ = l.Close()
	return 0
}

// activate starts this program with descriptors of these names, each a socket of its own.
func activate(t *testing.T, whose, names string, listeners ...net.Listener) (out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(
		os.Environ(), "SOCKET_TEST_ACTIVATED="+whose, "LISTEN_PID=1", "LISTEN_FDS="+strconv.Itoa(len(listeners)),
		"LISTEN_FDNAMES="+names,
	)
	for _, l := range listeners {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return string(text) + err.Error()
	}
	return string(text)
}

func unixListener(t *testing.T) (path string, l net.Listener) {
	t.Helper()
	path = somewhere(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return path, l
}

// A client that connects before the daemon runs is served by it, and the socket stays when the daemon ends.
func TestActivation(t *testing.T) {
	_, other := unixListener(t)
	path, l := unixListener(t)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if got := activate(t, "mine", "web:api", other, l); got != "true <nil> <nil> true\n" {
		t.Fatalf("the daemon says %q", got)
	}
	if got, err := io.ReadAll(c); string(got) != "!" {
		t.Errorf("the client reads %q, %v", got, err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket is gone: %v", err)
	}
}

func TestActivationThatIsWrong(t *testing.T) {
	_, l := unixListener(t)
	if got := activate(t, "mine", "web", l); !strings.Contains(got, "FileDescriptorName=api") {
		t.Errorf("another name: %q", got)
	}
	if got := activate(t, "another's", "api", l); got != "false <nil> <nil> false\n" {
		t.Errorf("variables for another process: %q", got)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	if got := activate(t, "mine", "api", tcp); !strings.Contains(got, "no Unix socket") {
		t.Errorf("a TCP socket: %q", got)
	}
}
