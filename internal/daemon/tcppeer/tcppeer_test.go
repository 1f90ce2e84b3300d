//go:build linux

package tcppeer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/machinetest"
)

// dialEnv has the test binary dial an address, say so, and wait for its end.
const dialEnv = "TCPPEER_TEST_DIAL"

func TestMain(m *testing.M) {
	if to := os.Getenv(dialEnv); to != "" {
		conn, err := net.Dial("tcp", to)
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		machinetest.Needs(t, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// pair is a connection within this process.
func pair(t *testing.T, l net.Listener, to string) (client, accepted net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), accepted.Close() })
	return client, accepted
}

func TestUser(t *testing.T) {
	for name, address := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, address)
			_, accepted := pair(t, l, l.Addr().String())
			if uid, err := User(accepted); err != nil || uid != uint32(os.Geteuid()) {
				t.Errorf("got %d, %v", uid, err)
			}
		})
	}
	t.Run("IPv4 on a listener for both", func(t *testing.T) {
		l := listen(t, "[::]:0")
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_, accepted := pair(t, l, "127.0.0.1:"+port)
		if uid, err := User(accepted); err != nil || uid != uint32(os.Geteuid()) {
			t.Errorf("got %d, %v", uid, err)
		}
	})
}

func TestUserIsThatOfTheOtherProcess(t *testing.T) {
	machinetest.NeedsRoot(t) // who starts a process of another user
	const other = 12345
	l := listen(t, "127.0.0.1:0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self) // the other user may not come to where it is
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.CreateTemp("", "tcppeer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(copied.Name()) })
	if _, err := copied.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copied.Chmod(0o755), copied.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied.Name())
	cmd.Dir, cmd.Env = "/", []string{dialEnv + "=" + l.Addr().String()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := User(accepted); err != nil || uid != other {
		t.Errorf("got %d, %v", uid, err)
	}
	_ = accepted.Close()
	_ = cmd.Wait()
}

// A socket that nobody has any more is root's, says the kernel.
func TestClientThatHasLeftIsNobody(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	client, accepted := pair(t, l, l.Addr().String())
	_ = client.Close()
	if uid, err := User(accepted); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %d, %v", uid, err)
	}
	if uid, err := User(&net.UnixConn{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("of another network: %d, %v", uid, err)
	}
}

// The same two addresses may belong to the next connection.
func TestOtherConnectionOfTheSameAddresses(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	_, accepted := pair(t, l, l.Addr().String())
	remote, local, inode, err := ends(accepted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := find(remote, local, inode); err != nil {
		t.Error(err)
	}
	if _, err := find(remote, local, inode+1); !errors.Is(err, ErrUnknown) {
		t.Errorf("a socket that is not ours has a peer: %v", err)
	}
}

func TestSockets(t *testing.T) {
	const names = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	for text, want := range map[string]string{
		"   0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 x\n":                                                "127.0.0.1:8080 127.0.0.1:54321 1000 77",
		"   0: 00000000000000000000000001000000:0050 0000000000000000FFFF00000100007F:0051 01 00000000:00000000 00:00000000 00000000     0        0 9 1 x\n": "[::1]:80 127.0.0.1:81 0 9",
		"   0: 0100007F:1F90 0100007F:D431 06 00000000:00000000 00:00000000 00000000     0        0 0 1 x\n":                                                 "",
		"   0: 0100007F:1F90 0100007F:D431 01\n":                                                  "error",
		"   0: 0100007F:1F90 01007F:D431 01 00000000:00000000 00:00000000 00000000 0 0 7 1\n":     "error",
		"   0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000 -1 0 7 1\n":  "error",
		"   0: zz00007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000 1 0 7 1\n":   "error",
		"   0: 0100007F:1F901 0100007F:D431 01 00000000:00000000 00:00000000 00000000 1 0 7 1\n":  "error",
		"   0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000 1 0 0x7 1\n": "error",
	} {
		got := ""
		err := sockets(strings.NewReader(names+text), func(from, to netip.AddrPort, e entry) {
			got = strings.Join([]string{from.String(), to.String(), fmt.Sprint(e.uid), fmt.Sprint(e.inode)}, " ")
		})
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
